/**
 * Many endpoints of one Service in groups, each with a chain of its own. A packet tries half of the rules of a flat chain
 * before one takes it, and a flap of one endpoint writes all of them: with 5,000 endpoints 2,500 and 5,000. In groups it is
 * about a hundred tried and two hundred written. Pure.
 */

/** Endpoints that stand in one chain. */
export const MOST_UNGROUPED = 128;
/** Endpoints of a group on average, at most; at least half as many. */
const GROUP = 64;

/**
 * Endpoints by the number of their group; none is empty. Which group an endpoint is in depends on its text, and on the
 * number of endpoints only where that passes a power of two: others stay where they are when one comes or goes.
 */
export function endpointGroups<E extends { readonly text: string }>(
  endpoints: readonly E[],
): ReadonlyMap<number, readonly E[]> {
  const bits = Math.ceil(Math.log2(endpoints.length / GROUP));
  const groups = new Map<number, E[]>();
  for (const endpoint of endpoints) {
    const group = hash(endpoint.text) >>> (32 - bits);
    const members = groups.get(group);
    if (members === undefined) groups.set(group, [endpoint]);
    else members.push(endpoint);
  }
  return new Map([...groups].sort(([a], [b]) => a - b));
}

/** 32 bits, each of which depends on all of the text: FNV-1a, and the finish of MurmurHash3, since similar addresses differ in their last letters. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
