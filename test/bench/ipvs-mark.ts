/** What every line of results begins with (test/vm/run-there.ts). */
export const MARK = '@measured ';
