/** Whether `a` is older than `b`: resourceVersions of one kind are numbers that only grow (KEP-5504). Other texts are never older. */
export function isOlder(a: string, b: string): boolean {
  if (!isNumber(a) || !isNumber(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}

/** Whether all up to `version` is in `mark`, which is such a version or "" for nothing at all. Texts that are no numbers are in none. */
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
