/**
 * Reading a file without trust in what stands there. All calls wait in this thread, which may hang in a dead mount for ever:
 * nothing but the worker runs this, and who asked it goes on without it.
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';

/** It cannot be read, for a reason that is no error of a call. */
export class Refused extends Error {}

export interface FileLook {
  readonly path: string;
  /** The folder that was named: links from a file in it must stay inside, as those of a mounted ConfigMap do. */
  readonly within: string | undefined;
  /** What the file was like when it was read; the same again is not read. */
  readonly stamp: string | undefined;
  /** Bytes. */
  readonly most: number;
}

export interface FileText {
  readonly text: string;
  readonly stamp: string;
}

/** Symbolic links on one way, as in the kernel (path_resolution(7)). */
const MOST_LINKS = 40;
const CHUNK = 1 << 20;

/** undefined: it is as it was. Throws Refused, or what a call says. */
export function readBounded({ path, within, stamp, most }: FileLook): FileText | undefined {
  const real = within === undefined ? path : insideOf(within, path);
  const now = usable(within === undefined ? statSync(real) : lstatSync(real), most);
  if (now === stamp) return undefined;
  // A file that became a named pipe meanwhile must not hold the thread, a terminal must not become the process's own.
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY, O_NOFOLLOW } = constants;
  const descriptor = openSync(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | (within === undefined ? 0 : O_NOFOLLOW));
  try {
    return { stamp: usable(fstatSync(descriptor), most), text: readAll(descriptor, most) };
  } finally {
    closeSync(descriptor);
  }
}

export type Place = { readonly kind: 'file' } | { readonly kind: 'folder'; readonly names: readonly string[] };

/** What stands at a path, with the names in a folder. */
export function placeAt(path: string): Place {
  return statSync(path).isDirectory() ? { kind: 'folder', names: readdirSync(path) } : { kind: 'file' };
}

/** Its stamp: what a change changes. */
function usable(stats: Stats, most: number): string {
  const what = kindOf(stats);
  if (what !== undefined) throw new Refused(`it is ${what}, not a regular file`);
  if (stats.size > most) throw new Refused(`it has ${stats.size} bytes; ${most} is the limit`);
  return `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
}

function kindOf(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a named pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** A file may say that it is empty, or grow: what is read counts. */
function readAll(descriptor: number, most: number): string {
  const chunks: Buffer[] = [];
  for (let size = 0; ; ) {
    const chunk = Buffer.allocUnsafe(CHUNK);
    const count = readSync(descriptor, chunk);
    if (count === 0) return Buffer.concat(chunks).toString('utf8');
    size += count;
    if (size > most) throw new Refused(`it has more than ${most} bytes, which is the limit`);
    chunks.push(chunk.subarray(0, count));
  }
}

/**
 * The file itself, past all links, none of which leads outside of the folder. Step by step, so that nothing outside is
 * even looked at: what a link names there may be a mount that never answers, or a device that does something when it is opened.
 */
function insideOf(folder: string, path: string): string {
  const root = realpathSync(folder);
  let at = root;
  let left = relative(folder, path).split('/');
  for (let links = 0; left.length > 0; ) {
    const [step = '', ...rest] = left;
    left = rest;
    if (step === '' || step === '.') continue;
    if (step === '..') {
      if (at === root) throw outside(folder);
      at = dirname(at);
      continue;
    }
    const next = join(at, step);
    if (!lstatSync(next).isSymbolicLink()) at = next;
    else {
      if (++links > MOST_LINKS) throw new Refused(`it is reached through more than ${MOST_LINKS} symbolic links`);
      const target = readlinkSync(next);
      if (!isAbsolute(target)) left = [...target.split('/'), ...left];
      else {
        left = [...stepsBelow([root, resolve(folder)], target, () => outside(folder)), ...left];
        at = root;
      }
    }
  }
  return at;
}

function stepsBelow(roots: readonly string[], target: string, fail: () => Refused): string[] {
  for (const root of roots) {
    const steps = relative(root, target).split('/');
    if (steps[0] !== '..') return steps;
  }
  throw fail();
}

function outside(folder: string): Refused {
  return new Refused(`it is a symbolic link that leads outside ${folder}; replace it with the file itself`);
}
