/**
 * Reads a file without trust in its type, size or links. All calls block this thread, which may hang in a dead mount for ever:
 * only the worker runs this code, and the agent goes on without a worker that hangs.
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

/** The file is refused, although no system call failed. */
export class RefusedPath extends Error {}

export interface FileQuery {
  readonly path: string;
  /** The folder that was named: links in it must stay inside, as those of a mounted ConfigMap do. */
  readonly within: string | undefined;
  /** Stamp of the last read; a file with the same stamp is not read again. */
  readonly stamp: string | undefined;
  /** Bytes. */
  readonly most: number;
}

export interface FileText {
  readonly text: string;
  readonly stamp: string;
}

/** Symbolic links on one way, as in the kernel (path_resolution(7)). */
export const MAX_LINKS = 40;
const CHUNK = 1 << 20;

/** Text and stamp of a file; undefined: the stamp is the same. Throws Refused, or the error of a system call. */
export function readBounded({ path, within, stamp, most }: FileQuery): FileText | undefined {
  const real = within === undefined ? path : insideOf(within, path);
  const now = usable(within === undefined ? statSync(real) : lstatSync(real), most);
  if (now === stamp) return undefined;
  // The path may have become a named pipe, which must not block the thread, or a terminal, which must not become the controlling one.
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY, O_NOFOLLOW } = constants;
  const descriptor = openSync(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | (within === undefined ? 0 : O_NOFOLLOW));
  try {
    return { stamp: usable(fstatSync(descriptor), most), text: readAll(descriptor, most) };
  } finally {
    closeSync(descriptor);
  }
}

export type PathKind = { readonly kind: 'file' } | { readonly kind: 'folder'; readonly names: readonly string[] };

/** Whether a path is a file or a folder, with the names in the folder. */
export function placeAt(path: string): PathKind {
  return statSync(path).isDirectory() ? { kind: 'folder', names: readdirSync(path) } : { kind: 'file' };
}

/** Stamp of a file: modification time, size and inode. Throws Refused for other than regular files, and for large ones. */
function usable(stats: Stats, most: number): string {
  const what = kindOf(stats);
  if (what !== undefined) throw new RefusedPath(`it is ${what}, not a regular file`);
  if (stats.size > most) throw new RefusedPath(`it has ${stats.size} bytes; ${most} is the limit`);
  return `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
}

function kindOf(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a named pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Reads to the end: the size of a file may be reported as 0, or grow. */
function readAll(descriptor: number, most: number): string {
  const chunks: Buffer[] = [];
  for (let size = 0; ; ) {
    const chunk = Buffer.allocUnsafe(CHUNK);
    const count = readSync(descriptor, chunk);
    if (count === 0) return Buffer.concat(chunks).toString('utf8');
    size += count;
    if (size > most) throw new RefusedPath(`it has more than ${most} bytes, which is the limit`);
    chunks.push(chunk.subarray(0, count));
  }
}

/**
 * Resolves all links to the real path, and refuses links that lead outside the folder. It goes step by step, so that no path outside is
 * ever accessed: a link may lead to a mount that never answers, or to a device that reacts to being opened.
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
      if (++links > MAX_LINKS) throw new RefusedPath(`it is reached through more than ${MAX_LINKS} symbolic links`);
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

function stepsBelow(roots: readonly string[], target: string, fail: () => RefusedPath): string[] {
  for (const root of roots) {
    const steps = relative(root, target).split('/');
    if (steps[0] !== '..') return steps;
  }
  throw fail();
}

function outside(folder: string): RefusedPath {
  return new RefusedPath(`it is a symbolic link that leads outside ${folder}; replace it with the file itself`);
}
