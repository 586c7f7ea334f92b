/** Restores rules inside a namespace, as often as asked, and tells how long iptables-restore took: nothing else is in that time. */
import { realCommands } from '../../src/host/commands.ts';
import { obey } from './inside.ts';
import type { RestoreCommand } from './restorer.ts';

const NEVER = new AbortController().signal;

obey<RestoreCommand, number>(async ({ backend, text }) => {
  const args = ['--noflush', '--wait', '60'];
  const start = performance.now();
  const { exitCode, stderr } = await realCommands.run(
    { file: `iptables-${backend}-restore`, args, input: () => [text] },
    NEVER,
  );
  if (exitCode !== 0) throw new Error(`iptables-restore ended with ${exitCode}: ${stderr}`);
  return performance.now() - start;
});
