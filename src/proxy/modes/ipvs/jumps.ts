/** The jumps from the kernel's built-in chains into ours (docs/ipvs.md): kube-proxy's, and two of our own. */
import { type Jump, jumpRule } from '../netfilter/jumps.ts';
import {
  FORWARD,
  IPVS_FILTER,
  NODE_PORT,
  OUT_FILTER,
  POSTROUTING,
  PROXY_FIREWALL,
  SERVICES,
} from '../netfilter/names.ts';
import type { Table } from '../netfilter/rules.ts';
import { SOURCE_JUMP } from '../virtual-servers/source-chain.ts';

type JumpRow = readonly [table: Table, chain: string, target: string, note: string];

const PORTALS = 'kubernetes service portals';
const FIREWALL = 'kube-proxy firewall rules';
const ACCESS = 'kubernetes ipvs access filter';

/** Each jump is inserted at the top, so the last one comes first in its chain. */
const ROWS: readonly JumpRow[] = [
  ['nat', 'OUTPUT', SERVICES, PORTALS],
  ['nat', 'PREROUTING', SERVICES, PORTALS],
  ['nat', 'POSTROUTING', POSTROUTING, 'kubernetes postrouting rules'],
  ['filter', 'FORWARD', FORWARD, 'kubernetes forwarding rules'],
  ['filter', 'INPUT', NODE_PORT, 'kubernetes health check rules'],
  ['filter', 'INPUT', IPVS_FILTER, ACCESS],
  ['filter', 'INPUT', PROXY_FIREWALL, FIREWALL],
  ['filter', 'FORWARD', PROXY_FIREWALL, FIREWALL],
  ['mangle', 'OUTPUT', OUT_FILTER, ACCESS],
];

const toJump = ([table, chain, target, note]: JumpRow): Jump => jumpRule({ table, chain, target, note });

/** The jump of the source chain is written before all others (`source-chain.ts`). */
export const JUMPS: readonly Jump[] = [SOURCE_JUMP, ...ROWS.map(toJump)];
