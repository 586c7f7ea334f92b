/** The jumps from the kernel's built-in chains into ours: kube-proxy's rules to the letter (reference 5.3), so that a live node needs none of them replaced. */
import { comment, jump, type Table } from '../netfilter/rules.ts';
import { EXTERNAL_SERVICES, FIREWALL, FORWARD, NODE_PORTS, POSTROUTING, PROXY_FIREWALL, SERVICES } from './names.ts';

export interface Jump {
  readonly table: Table;
  readonly chain: string;
  /** The rule without `-A CHAIN`. */
  readonly text: string;
  readonly target: string;
}

const NEW = '-m conntrack --ctstate NEW';

function jumpRule(table: Table, chain: string, target: string, condition: string, note: string): Jump {
  const text = [condition, note === '' ? '' : comment(note), jump(target)].filter((part) => part !== '').join(' ');
  return { table, chain, target, text };
}

const PORTALS = 'kubernetes service portals';
const EXTERNAL_PORTALS = 'kubernetes externally-visible service portals';
const LB_FIREWALL = 'kubernetes load balancer firewall';

/** In the order of kube-proxy: each is inserted at the top, so the last comes first in its chain. */
export const JUMPS: readonly Jump[] = [
  jumpRule('filter', 'INPUT', EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS),
  jumpRule('filter', 'FORWARD', EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS),
  jumpRule('filter', 'INPUT', NODE_PORTS, '', 'kubernetes health check service ports'),
  jumpRule('filter', 'FORWARD', SERVICES, NEW, PORTALS),
  jumpRule('filter', 'OUTPUT', SERVICES, NEW, PORTALS),
  jumpRule('filter', 'FORWARD', FORWARD, '', 'kubernetes forwarding rules'),
  jumpRule('filter', 'INPUT', PROXY_FIREWALL, NEW, LB_FIREWALL),
  jumpRule('filter', 'OUTPUT', PROXY_FIREWALL, NEW, LB_FIREWALL),
  jumpRule('filter', 'FORWARD', PROXY_FIREWALL, NEW, LB_FIREWALL),
  jumpRule('nat', 'OUTPUT', SERVICES, '', PORTALS),
  jumpRule('nat', 'PREROUTING', SERVICES, '', PORTALS),
  jumpRule('nat', 'POSTROUTING', POSTROUTING, '', 'kubernetes postrouting rules'),
];

/** Into the chain shared with the kubelet; kept at cleanup. */
export const FIREWALL_JUMPS: readonly Jump[] = [
  jumpRule('filter', 'INPUT', FIREWALL, '', ''),
  jumpRule('filter', 'OUTPUT', FIREWALL, '', ''),
];

/** `table CHAIN rule`: the key of a jump within a family. */
export function jumpKey(entry: Jump): string {
  return `${entry.table} ${entry.chain} ${entry.text}`;
}
