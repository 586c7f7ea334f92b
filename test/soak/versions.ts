/** `npm run versions`: a soak in which the agents of two versions follow each other, forth and back in both modes. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { commandLine } from '../../scripts/arguments.ts';
import { recordPart } from '../reliability/results.ts';
import { carryOut, interrupted } from './command.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const { values } = commandLine({
  command: 'npm run versions',
  about:
    'Runs a soak in which every second life of the agent is one of an earlier version, prints what it found, and ends with 1 when something was wrong. Needs root, and the history of git.',
  options: {
    from: { type: 'string', value: 'COMMIT', default: 'HEAD~1', help: 'the earlier version; it is built' },
    minutes: {
      type: 'string',
      value: 'N',
      default: '10',
      least: 1,
      help: 'how long; a sixth of it more without restarts',
    },
    record: { type: 'boolean', help: 'writes it to docs/reliability.json and docs/reliability.md' },
  },
});

const signal = interrupted();
const folder = mkdtempSync(join(tmpdir(), 'slicewire-versions-'));

/** Runs a command and returns what it printed. Its messages are shown. Throws when it fails, or is interrupted. */
async function run(cwd: string, file: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execa(file, args, { cwd, cancelSignal: signal, stderr: 'inherit', env: { TMPDIR: folder } });
  return stdout;
}

/** Makes the executable of a commit, and returns its file. It is built with its own packages where they differ. */
async function build(commit: string): Promise<string> {
  const source = join(folder, 'source');
  mkdirSync(source);
  const archive = join(folder, 'source.tar');
  await run(ROOT, 'git', 'archive', '--output', archive, commit);
  await run(source, 'tar', '-x', '-f', archive);
  const differs = await run(ROOT, 'git', 'diff', '--name-only', commit, '--', 'package-lock.json');
  if (differs === '') symlinkSync(join(ROOT, 'node_modules'), join(source, 'node_modules'));
  else await run(source, 'npm', 'ci');
  const output = join(folder, 'slicewire');
  await run(source, join(source, 'node_modules/.bin/node'), 'scripts/build.ts', '--output', output);
  return output;
}

const seconds = Number(values.minutes) * 60;
try {
  const commit = await run(ROOT, 'git', 'rev-parse', '--short', `${values.from}^{commit}`);
  const other = await build(commit);
  const found = await carryOut(
    {
      ...{ seconds, tail: seconds / 6, restartEvery: 10, flushEvery: 120, services: 1000, perSecond: 50, seed: 1 },
      ...{ isSource: false, other, logFile: undefined },
    },
    signal,
  );
  if (values.record) recordPart('versions', { former: commit, found });
} catch (error) {
  if (!signal.aborted) throw error;
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
