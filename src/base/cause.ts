/** The message of an error, or the text of any other thrown value. */
export function causeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
