/** Whether `a` is older than `b`: resourceVersions of one kind are numbers that only grow (KEP-5504). Other texts are never older. */
export function isOlder(a: string, b: string): boolean {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}
