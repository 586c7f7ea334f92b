/**
 * Reads a file without trust in its type, size or links. All calls block this thread, which may hang in a dead mount for ever.
 * So only the worker runs this code, and the agent goes on without a worker that hangs.
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

/** The file is refused because of its type, size or links. */
export class RefusedPath extends Error {}

export interface FileQuery {
  readonly path: string;
  /** Links of this folder must stay inside, as those of a mounted ConfigMap do; undefined when links may lead anywhere. */
  readonly within: string | undefined;
  /** Stamp of the last read; a file with the same stamp is not read again. */
  readonly stamp: string | undefined;
  readonly maxBytes: number;
}

export interface FileText {
  readonly text: string;
  readonly stamp: string;
}

/** Limit of symbolic links of one path, as in the kernel (path_resolution(7)). */
export const MAX_LINKS = 40;
const CHUNK = 1 << 20;

/** Text and stamp of a file; undefined when the stamp is the same. Throws RefusedPath, or the error of a system call. */
export function readBounded({ path, within, stamp, maxBytes }: FileQuery): FileText | undefined {
  const real = within === undefined ? path : insideOf(within, path);
  const current = stampOf(within === undefined ? statSync(real) : lstatSync(real), maxBytes);
  if (current === stamp) return undefined;
  // The path may have become a named pipe, which must not block the thread, or a terminal, which must not become the controlling one.
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY, O_NOFOLLOW } = constants;
  const descriptor = openSync(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | (within === undefined ? 0 : O_NOFOLLOW));
  try {
    return { stamp: stampOf(fstatSync(descriptor), maxBytes), text: readAll(descriptor, maxBytes) };
  } finally {
    closeSync(descriptor);
  }
}

export type PathKind = { readonly kind: 'file' } | { readonly kind: 'folder'; readonly names: readonly string[] };

/** Whether a path is a file or a folder, with the names in the folder. */
export function listPath(path: string): PathKind {
  return statSync(path).isDirectory() ? { kind: 'folder', names: readdirSync(path) } : { kind: 'file' };
}

/** Modification time, size and inode. Throws RefusedPath for a file that is not regular, or too large. */
function stampOf(stats: Stats, maxBytes: number): string {
  const kind = otherKind(stats);
  if (kind !== undefined) throw new RefusedPath(`it is ${kind}, not a regular file`);
  if (stats.size > maxBytes) throw new RefusedPath(`it has ${stats.size} bytes; ${maxBytes} is the limit`);
  return `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
}

/** The type of a file that is not regular. */
function otherKind(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a named pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Reads to the end, because the reported size may be 0, or the file may grow. */
function readAll(descriptor: number, maxBytes: number): string {
  const chunks: Buffer[] = [];
  for (let size = 0; ; ) {
    const chunk = Buffer.allocUnsafe(CHUNK);
    const count = readSync(descriptor, chunk);
    if (count === 0) return Buffer.concat(chunks).toString('utf8');
    size += count;
    if (size > maxBytes) throw new RefusedPath(`it has more than ${maxBytes} bytes, which is the limit`);
    chunks.push(chunk.subarray(0, count));
  }
}

/**
 * Resolves all links to the real path, and refuses links that lead outside the folder. It resolves one step at a time, so that no path
 * outside is ever accessed: a link may lead to a mount that never answers, or to a device that reacts to being opened.
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
