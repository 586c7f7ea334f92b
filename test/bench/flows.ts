/** Measures the sweep of stale UDP flows in a namespace of its own, beside what conntrack(8) takes for the same. */
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import type { FlowsMeasured } from './flows-inside.ts';
import { ms, table } from './text.ts';

const INSIDE = fileURLToPath(new URL('./flows-inside.ts', import.meta.url));
const NEVER = new AbortController().signal;

export interface FlowsOptions {
  /** UDP flows of nobody, flows of other protocols, and stale UDP flows in the table. */
  readonly flows: number;
  readonly others: number;
  readonly stale: number;
}

export async function measureFlows({ flows, others, stale }: FlowsOptions): Promise<FlowsMeasured> {
  const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  try {
    // A device that swallows everything: its packets are for nobody. And a rule for which the kernel tracks connections.
    await lab.exec('node', 'ip', 'link', 'add', 'd0', 'type', 'veth', 'peer', 'name', 'd1');
    await lab.exec('node', 'ip', 'link', 'set', 'd1', 'up');
    await lab.exec('node', 'ip', 'link', 'set', 'd0', 'arp', 'off', 'up');
    await lab.exec('node', 'ip', 'address', 'add', '10.128.0.1/9', 'dev', 'd0');
    await lab.exec('node', 'iptables', '-A', 'OUTPUT', '-m', 'conntrack', '--ctstate', 'INVALID', '-j', 'DROP');
    const counts = [flows, others, stale].map(String);
    return JSON.parse(await lab.exec('node', process.execPath, INSIDE, ...counts)) as FlowsMeasured;
  } finally {
    await lab.remove();
  }
}

export function flowsSection(all: readonly FlowsMeasured[]): string {
  return `## Stale UDP flows

A sweep of the kernel's table of connections lists the UDP flows, judges each, and deletes the stale ones; it runs beside syncs and does not delay them.
Floor: \`conntrack -L -p udp\` (lists, deletes nothing) and \`conntrack -D\` of the stale flows by their common destination
(one command for the flows of as many Services).
Longest: the longest time that one step of the sweep held the event loop.
After a sweep the agent rests nine times as long as the sweep took.

${table(
  ['UDP flows', 'other flows', 'stale', 'sweep', 'sweep with nothing stale', 'longest', 'conntrack -L', 'conntrack -D'],
  all.map((m) => [
    `${m.flows}`,
    `${m.others}`,
    `${m.stale}`,
    ...[m.sweep, m.sweepOfNone, m.longest, m.list, m.remove].map((milliseconds) => ms(milliseconds)),
  ]),
)}`;
}
