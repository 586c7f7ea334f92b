/** Both forms of the hook: the command of the executable, and the small program. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeDrainedProgram } from '../../../scripts/executable/drained-program.ts';
import { OWN_PLATFORM, platformNamed } from '../../../scripts/executable/platform.ts';
import { SOURCE_OPTIONS } from '../../../src/kernel/process.ts';

/** The words before the flags of `slicewire drained`. */
export const DRAINED_COMMAND = [
  process.execPath,
  ...SOURCE_OPTIONS,
  fileURLToPath(new URL('../../../src/main.ts', import.meta.url)),
  'drained',
];

const folders: string[] = [];
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

/** Makes the small program, which is removed after the tests. Resolves with its path. */
export async function madeDrainedProgram(platform = platformNamed(OWN_PLATFORM)): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-drained-program-'));
  folders.push(folder);
  const program = join(folder, 'slicewire-drained');
  await makeDrainedProgram(platform, program, ['-Werror']);
  return program;
}
