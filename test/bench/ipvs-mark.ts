/** What every line of results begins with: other programs write to the console as well. */
export const MARK = '@measured ';
