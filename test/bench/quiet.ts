/**
 * A quiet cluster: for so many minutes (20, or the first argument) nothing happens, and the API server says nothing, as a real
 * one does. The agent is asked each second whether it is well. The second argument `http/1.1` is a server without HTTP/2.
 */
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';

const INSIDE = fileURLToPath(new URL('./quiet-inside.ts', import.meta.url));
const { signal } = new AbortController();
const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal });
try {
  const args = [INSIDE, process.argv[2] ?? '20', process.argv[3] ?? ''];
  const { exitCode, stdout, stderr } = await shellCommands.run(lab.inside('node', process.execPath, args), signal);
  process.stdout.write(stdout || stderr);
  process.exitCode = exitCode ?? 1;
} finally {
  await lab.remove();
}
