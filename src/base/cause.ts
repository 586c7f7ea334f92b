/** The message of an error, or the text of any other thrown value. */
export function causeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The first line of a cause. The tools of the kernel go on with the lines that were written. */
export function firstLine(cause: string): string {
  const [first = ''] = cause.split('\n', 1);
  return first;
}
