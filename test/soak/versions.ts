/** `npm run versions`: a soak in which the agents of two versions follow each other, forth and back in both modes. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { recordPart } from '../reliability/results.ts';
import { soakLines } from '../reliability/soak-page.ts';
import { problemsOf } from './result.ts';
import { soak } from './soak.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const { values } = commandLine({
  command: 'npm run versions',
  about:
    'Runs a soak in which every second life of the agent is one of an earlier version, prints what it found, and ends with 1 when something was wrong. Needs root, and the history of git.',
  options: {
    from: { type: 'string', value: 'COMMIT', default: 'HEAD~1', help: 'the earlier version; it is built' },
    minutes: { type: 'string', value: 'N', default: '10', help: 'how long' },
    record: { type: 'boolean', help: 'writes it to docs/reliability.json and docs/reliability.md' },
  },
});

function git(...args: readonly string[]): string {
  return execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8' }).trim();
}

/** Makes the executable of a commit, and returns its file. It is built with its own packages where they differ. */
function build(commit: string, folder: string): string {
  const source = join(folder, 'source');
  git('worktree', 'add', '--detach', source, commit);
  try {
    if (git('diff', '--name-only', commit, '--', 'package-lock.json') === '')
      symlinkSync(join(ROOT, 'node_modules'), join(source, 'node_modules'));
    else execFileSync('npm', ['ci'], { cwd: source, stdio: 'inherit' });
    const output = join(folder, 'slicewire');
    execFileSync(process.execPath, ['scripts/build.ts', '--output', output], { cwd: source, stdio: 'inherit' });
    return output;
  } finally {
    git('worktree', 'remove', '--force', source);
  }
}

function say(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}

const seconds = Number(values.minutes) * 60;
if (!(seconds > 0)) throw new Error(`--minutes ${values.minutes}: a number above 0 is needed`);
const commit = git('rev-parse', '--short', `${values.from}^{commit}`);
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
const folder = mkdtempSync(join(tmpdir(), 'slicewire-versions-'));
try {
  const other = build(commit, folder);
  // The agent alone has the priority of a node's program.
  setPriority(10);
  const result = await soak({
    ...{ seconds, tail: seconds / 6, restartEvery: 10, flushEvery: 120, services: 1000, perSecond: 50, seed: 1 },
    ...{ probesPerSecond: 40, isSource: false, other, logFile: undefined, signal: stop.signal, say },
    folder: mkdtempSync(join(tmpdir(), 'slicewire-soak-')),
  });
  process.stdout.write(`${soakLines(result)}\n`);
  const problems = problemsOf(result);
  for (const problem of problems) say(problem);
  if (values.record) recordPart('versions', { former: commit, found: result });
  process.exitCode = problems.length === 0 && !result.isEarly ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
