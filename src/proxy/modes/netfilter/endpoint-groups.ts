/**
 * Groups of the endpoints of one large Service, each with a chain of its own. In a flat chain a packet tries half of the rules
 * on average, and a flap of one endpoint rewrites all of them: 2,500 and 5,000 rules at 5,000 endpoints. With groups a packet
 * tries about a hundred, and a flap writes about two hundred. Pure.
 */

/** Most endpoints of a chain without groups. */
export const MOST_UNGROUPED = 128;
/** Average number of endpoints of a group: at most this, at least half of it. */
const GROUP = 64;

/**
 * Endpoints by the number of their group; no group is empty. An endpoint's group depends on its text, and changes with the
 * number of endpoints only when that passes a power of two: the other endpoints keep their groups when one comes or goes.
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

/** 32 bits: FNV-1a, with the final mix of MurmurHash3 because similar addresses differ only at their end. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
