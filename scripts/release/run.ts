/** Commands of the release. */
import { realCommands } from '../../src/kernel/commands.ts';

const NEVER = new AbortController().signal;

/** Resolves with standard output. Throws when the command cannot be started, or ends with another status than 0. */
export async function run(file: string, args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file, args }, NEVER);
  if (exitCode === 0) return stdout;
  throw new Error(`${file} ${args.join(' ')} ended with ${exitCode}: ${stderr}${stdout}`.trim());
}
