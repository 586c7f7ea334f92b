/**
 * Histories that fail in a way that is known and not mended yet. All are about a moment between two writes of one sync;
 * afterwards all is as desired. docs/reliability.md lists them.
 */
export const KNOWN_FAILURES: ReadonlyMap<number, string> = new Map([
  [
    141,
    'IPVS mode: a Service becomes local while this mode takes over: its drop comes before the rules for pods and the node',
  ],
  [248, 'nftables mode: node ports on all addresses become those on some: the rule comes before the addresses'],
]);

/** What other histories than the first 250 show: when the agent makes other calls, faults meet other calls in each history. */
export const KNOWN_ELSEWHERE: readonly string[] = [
  'iptables mode: a look at a chain that was under way when the agent stopped ends 2 ms after the agent',
  'IPVS mode that takes over finds servers which an interrupted takeover left: their old endpoints are removed after the rules',
];
