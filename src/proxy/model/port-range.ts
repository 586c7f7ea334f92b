/** Ports from `least` to `most`, inclusive. */
export interface PortRange {
  readonly least: number;
  readonly most: number;
}

/** kube-apiserver's default of --service-node-port-range. */
export const NODE_PORTS: PortRange = { least: 30_000, most: 32_767 };

/**
 * Parses a range as kube-apiserver does: `30000-32767`, `30000+2767` (a base and an offset), or one port. undefined for any other
 * text, and for ports outside 1 to 65535.
 */
export function parsePortRange(text: string): PortRange | undefined {
  const [, base = '', sign, other = ''] = /^(\d{1,5})(?:([-+])(\d{1,5}))?$/.exec(text.trim()) ?? [];
  const least = Number(base);
  const most = sign === undefined ? least : sign === '-' ? Number(other) : least + Number(other);
  return least >= 1 && least <= most && most <= 65_535 ? { least, most } : undefined;
}

export function isInRange({ least, most }: PortRange, port: number): boolean {
  return port >= least && port <= most;
}

export function rangeText({ least, most }: PortRange): string {
  return `${least}-${most}`;
}
