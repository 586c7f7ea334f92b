/** Limits of the connections to a port of a Service. Each port, node and family counts for itself (docs/traffic.md). Pure. */

/** The names, in the order in which a connection meets them: the cheapest first. */
export const LIMIT_NAMES = ['new-connections', 'max-connections-per-client', 'max-connections'] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

export interface Limit {
  readonly name: LimitName;
  /** The most connections that are open at once, or the most new ones a second. */
  readonly most: number;
  /** Of `new-connections`: how many may come at once; 0 for the others. */
  readonly burst: number;
}

/**
 * The largest limits. When a new connection comes, the kernel walks through all open ones of a `ct count`, once in a tick of its clock
 * (nf_conncount.c). hashlimit of iptables counts in microseconds, and is off by up to 10 % at the largest rates.
 */
export const MOST: Readonly<Record<LimitName, number>> = {
  'new-connections': 100_000,
  'max-connections-per-client': 10_000,
  'max-connections': 10_000,
};

/** The annotation of a Service that sets the limit. */
export function limitAnnotation(name: LimitName): string {
  return `slicewire.dev/${name}`;
}

/** `100/s burst 200` or `1000`: the value of the annotation. */
export function limitText({ name, most, burst }: Limit): string {
  return name === 'new-connections' ? `${most}/s burst ${burst}` : String(most);
}

/** The limit of this name; undefined for none. */
export function limitNamed(limits: readonly Limit[] | undefined, name: LimitName): Limit | undefined {
  return limits?.find((limit) => limit.name === name);
}
