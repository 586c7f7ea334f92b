/**
 * The three modes one after another on one kernel that has all of them: run in the virtual machine, or natively. Prints one
 * line of JSON. Beside them kube-proxy's nftables layout of the same Services, as `nft -f` loads it.
 */
import { measureChange } from './change.ts';
import { ENDPOINTS } from './cluster.ts';
import { measureLayout } from './layout.ts';
import { MARK, type ModesMeasured } from './modes.ts';
import { Trial } from './trial.ts';

const CHANGES = 20;
const shape = { services: Number(process.argv[2]), endpoints: ENDPOINTS };

const modes: ModesMeasured['modes'][number][] = [];
for (const mode of ['iptables', 'ipvs', 'nftables'] as const) {
  const { cold, change } = await measureChange({ shape, changes: CHANGES, mode });
  modes.push({ mode, cold, change });
}
const layout = await Trial.of({ shape, mode: 'nftables' }, measureLayout);
process.stdout.write(`\n${MARK}${JSON.stringify({ shape, modes, layout })}\n`);
