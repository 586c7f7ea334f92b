/** What another program does to the agent's rules in a soak: as an administrator, or a script of a firewall, does it. */

import type { Lab } from '../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { SERVICE_PORT } from './cluster.ts';
import type { SoakMode } from './timeline.ts';

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
  return { command, pid: child.pid };
}
