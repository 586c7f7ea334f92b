/** The jumps from the kernel's chains into ours: kube-proxy's (iptablesJumpChains in its pkg/proxy/iptables), so a live node keeps them. */
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import { EXTERNAL_SERVICES, FORWARD, NODE_PORTS, POSTROUTING, PROXY_FIREWALL, SERVICES } from '../netfilter/names.ts';
import type { Table } from '../netfilter/rules.ts';

const NEW = '-m conntrack --ctstate NEW';
const PORTALS = 'kubernetes service portals';
const EXTERNAL_PORTALS = 'kubernetes externally-visible service portals';
const LB_FIREWALL = 'kubernetes load balancer firewall';

type JumpRow = readonly [table: Table, chain: string, target: string, condition: string, note: string];

/** In kube-proxy's order. Each jump is inserted at the top, so the last one comes first in its chain. */
const ROWS: readonly JumpRow[] = [
  ['filter', 'INPUT', EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS],
  ['filter', 'FORWARD', EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS],
  ['filter', 'INPUT', NODE_PORTS, '', 'kubernetes health check service ports'],
  ['filter', 'FORWARD', SERVICES, NEW, PORTALS],
  ['filter', 'OUTPUT', SERVICES, NEW, PORTALS],
  ['filter', 'FORWARD', FORWARD, '', 'kubernetes forwarding rules'],
  ['filter', 'INPUT', PROXY_FIREWALL, NEW, LB_FIREWALL],
  ['filter', 'OUTPUT', PROXY_FIREWALL, NEW, LB_FIREWALL],
  ['filter', 'FORWARD', PROXY_FIREWALL, NEW, LB_FIREWALL],
  ['nat', 'OUTPUT', SERVICES, '', PORTALS],
  ['nat', 'PREROUTING', SERVICES, '', PORTALS],
  ['nat', 'POSTROUTING', POSTROUTING, '', 'kubernetes postrouting rules'],
];

export const JUMPS: readonly Jump[] = ROWS.map(([table, chain, target, condition, note]) =>
  jumpRule({ table, chain, target, condition, note }),
);
