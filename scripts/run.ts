/** Commands of build and release. */
import { realCommands } from '../src/kernel/commands.ts';

const NEVER = new AbortController().signal;

/** Resolves with standard output. Throws when the command cannot be started, or ends with another status than these. */
export async function run(file: string, args: readonly string[], statuses: readonly number[] = [0]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file, args }, NEVER);
  if (exitCode !== undefined && statuses.includes(exitCode)) return stdout;
  throw new Error(`${file} ${args.join(' ')} ended with ${exitCode}: ${stderr}${stdout}`.trim());
}
