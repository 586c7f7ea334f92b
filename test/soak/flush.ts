/** What another program does to the agent's rules in a soak: as an administrator, or a script of a firewall, does it. */

import type { Lab } from '../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { SERVICE_PORT } from './cluster.ts';
import type { SoakMode } from './timeline.ts';

/** Milliseconds: what a repair may take. */
const MOST = 1000;
/**
 * Where all rules of the mode are removed: what the bare tool takes to write those of 10,000 Services again, on two cores with nothing else
 * to do. docs/benchmarks.md has its figures.
 */
const MOST_FOR_ALL: Readonly<Record<SoakMode, number>> = { nftables: 3000, iptables: 10_000 };
const ALL = ['nft delete table ip slicewire', 'iptables-nft -w 30 -t nat -F'];

/** In turn. */
const COMMANDS: Readonly<Record<SoakMode, readonly string[]>> = {
  nftables: [
    'nft flush chain ip slicewire services',
    `nft delete element ip slicewire services { 10.111.0.1 . tcp . ${SERVICE_PORT} }`,
    'nft delete table ip slicewire',
    'nft flush map ip slicewire services',
  ],
  iptables: [
    'iptables-nft -w 30 -t nat -F KUBE-SERVICES',
    'iptables-nft -w 30 -t nat -D PREROUTING 1',
    'iptables-nft -w 30 -t nat -F',
  ],
};

export interface Flush {
  readonly command: string;
  readonly most: number;
  readonly pid: number | undefined;
}

/** Throws when the command fails. Resolves when it has ended. */
export async function flush(lab: Lab, mode: SoakMode, turn: number): Promise<Flush> {
  const commands = COMMANDS[mode];
  const command = commands[turn % commands.length] ?? '';
  const [file = '', ...args] = command.split(' ');
  const said: string[] = [];
  const child: Child = startChild({ ...lab.inside('node', file, args), onErrorLine: (line) => said.push(line) });
  const status = await child.ended;
  if (status !== 0) throw new Error(`${command}: exit status ${status}: ${said.join('; ')}`);
  return { command, most: ALL.includes(command) ? MOST_FOR_ALL[mode] : MOST, pid: child.pid };
}
