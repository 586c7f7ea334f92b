/** The nearest name to one that does not exist, for the sentence about it. Pure. */

/** Names with more edits between them are no typing errors of each other. */
const MAX_EDITS = 3;

/**
 * The number of edits from one text to the other: a character inserted, removed or replaced, or two neighbours swapped (the optimal
 * string alignment distance). Above `limit` the result is `limit + 1`.
 */
export function edits(a: string, b: string, limit = MAX_EDITS): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  // A common beginning and end need no edit, and most names of a cluster have both.
  const shorter = Math.min(a.length, b.length);
  let same = 0;
  while (same < shorter && a.charCodeAt(same) === b.charCodeAt(same)) same += 1;
  let ending = 0;
  while (ending < shorter - same && a.charCodeAt(a.length - 1 - ending) === b.charCodeAt(b.length - 1 - ending)) {
    ending += 1;
  }
  return editsOf(a.slice(same, a.length - ending), b.slice(same, b.length - ending), limit);
}

function editsOf(a: string, b: string, limit: number): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let fewest = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) fewest = Math.min(fewest, (before[j - 2] ?? 0) + 1);
      row.push(fewest);
      least = Math.min(least, fewest);
    }
    if (least > limit) return limit + 1;
    [before, last] = [last, row];
  }
  return Math.min(last[b.length] ?? 0, limit + 1);
}

/** The candidate with the fewest edits, the first of equals; undefined when none is near. A short name has room for fewer edits. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  let found: string | undefined;
  let limit = Math.min(MAX_EDITS, Math.max(1, Math.floor(name.length / 3)));
  for (const candidate of candidates) {
    const distance = edits(name, candidate, limit);
    if (distance > limit) continue;
    found = candidate;
    limit = distance - 1;
    if (limit < 0) break;
  }
  return found;
}

/**
 * The Service that was probably meant: with the nearest name in the same namespace, or of the same name in the nearest namespace. Others
 * are not compared, because there may be very many. `services` has their keys.
 */
export function nearestService(key: string, services: Iterable<string>): string | undefined {
  const slash = key.indexOf('/');
  const [namespace, name] = [key.slice(0, slash + 1), key.slice(slash)];
  const sameNamespace: string[] = [];
  const sameName: string[] = [];
  for (const each of services) {
    if (each.startsWith(namespace)) sameNamespace.push(each);
    else if (each.endsWith(name)) sameName.push(each);
  }
  return nearest(key, [...sameNamespace, ...sameName]) ?? sameName[0];
}
