/**
 * Histories that fail in a way that is known and not mended yet. Each is about a moment between two writes of one sync; afterwards all is
 * as desired. docs/reliability.md lists them.
 */
const INTERRUPTED =
  'IPVS mode that takes over finds servers which an interrupted takeover left: their old endpoints are removed after the rules';

export const KNOWN_FAILURES: ReadonlyMap<number, string> = new Map([
  [5, INTERRUPTED],
  [83, INTERRUPTED],
  [102, 'IPVS mode: a Service becomes local: its drop comes before the detour of its node port'],
  [141, 'IPVS mode: a Service becomes local: its drop comes before the detour of its address'],
  [232, 'IPVS mode: a Service becomes local: its drop comes before the detour of its address'],
  [248, 'nftables mode: node ports on all addresses become those on some: the rule comes before the addresses'],
]);
