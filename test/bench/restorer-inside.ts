/** Runs a tool that writes rules inside a namespace, as often as asked, and tells how long it took: nothing else is in that time. */
import { realCommands } from '../../src/kernel/commands.ts';
import { obey } from './inside.ts';
import type { RestoreCommand } from './restorer.ts';

const NEVER = new AbortController().signal;

obey<RestoreCommand, number>(async ({ file, args, text }) => {
  const start = performance.now();
  const { exitCode, stderr } = await realCommands.run({ file, args, input: () => [text] }, NEVER);
  if (exitCode !== 0) throw new Error(`${file} ended with ${exitCode}: ${stderr}`);
  return performance.now() - start;
});
