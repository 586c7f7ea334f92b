/** Whether `a` is older than `b`: resourceVersions of one kind are numbers that only grow (KEP-5504). Other texts are never older. */
export function isOlder(a: string, b: string): boolean {
  if (!isNumber(a) || !isNumber(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}

/** Whether `mark` is `version` or newer. A `mark` of "" has reached no version, and a text that is not a number is never reached. */
export function hasReached(mark: string, version: string): boolean {
  return isNumber(mark) && isNumber(version) && !isOlder(mark, version);
}

/** The newer of two; "" is older than any. */
export function newer(a: string, b: string): string {
  return a === '' || isOlder(a, b) ? b : a;
}

function isNumber(version: string): boolean {
  return /^\d+$/.test(version);
}
