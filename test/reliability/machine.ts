/** When and where a runner measured, and what: for docs/reliability.md. */
import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

/** Of the kernel the version, without the name of the build. */
export function machineText(): string {
  return `${cpus().length} processors, ${Math.round(totalmem() / 2 ** 30)} GB, Linux ${release().replace(/-.*/, '')}`;
}

/** All that the agent consists of: while this stays, records of several days are of one state. */
const SOURCE = ['src', 'native', 'package.json', 'package-lock.json'];

export interface Measured {
  /** RFC 3339. */
  readonly ranAt: string;
  readonly machine: string;
  /** The commit that last changed the source. */
  readonly commit: string;
}

export function measuredNow(): Measured {
  return { ranAt: new Date().toISOString(), machine: machineText(), commit: sourceCommit() };
}

function sourceCommit(): string {
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const git = (...args: string[]) => execFileSync('git', args, { cwd, encoding: 'utf8' }).trim();
  try {
    const commit = git('log', '-1', '--format=%h', '--abbrev=8', '--', ...SOURCE);
    return git('status', '--porcelain', '--', ...SOURCE) === '' ? commit : `${commit} with changes`;
  } catch {
    return 'unknown';
  }
}
