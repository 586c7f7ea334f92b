/** Messages between the agent and the thread that reads files, and the outcomes of its requests. */
import type { ParsedFile, Value } from './documents.ts';

/** The message of a failed system call on a file. */
export function fileProblem(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file or folder';
  if (code === 'EISDIR') return 'it is a folder, not a file';
  return code === 'EACCES' ? 'permission denied' : message;
}

export interface ReadRequest {
  readonly kind: 'read';
  readonly id: number;
  readonly path: string;
  readonly within: string | undefined;
  readonly stamp: string | undefined;
  readonly maxBytes: number;
  /** Whether keys may be repeated; then the last value counts. */
  readonly mayRepeat: boolean;
}

/** Parses a text from another source. */
export interface ParseRequest {
  readonly kind: 'parse';
  readonly id: number;
  readonly text: string;
  readonly mayRepeat: boolean;
}

export type ThreadRequest =
  | ReadRequest
  | ParseRequest
  | { readonly kind: 'list'; readonly id: number; readonly path: string };

export interface UnreadableFile {
  readonly kind: 'unreadable';
  readonly cause: string;
  /** Name of the error, such as ENOENT. */
  readonly code?: string | undefined;
  /** The path leads to a type of file that is never read, such as a named pipe. Otherwise the read itself failed, and another one may succeed. */
  readonly isRefused?: boolean;
  /** Stamp of the file, if it could be opened; another read is pointless while the stamp stays the same. */
  readonly stamp?: string | undefined;
}

export type FileOutcome =
  | ParsedFile
  | UnreadableFile
  | { readonly kind: 'same' }
  | { readonly kind: 'file' }
  | { readonly kind: 'folder'; readonly names: readonly string[] };

/** A request is answered by any number of values, in the order of the text, then by one outcome. */
export type ThreadAnswer =
  | { readonly id: number; readonly kind: 'parsing'; readonly stamp: string }
  | { readonly id: number; readonly kind: 'values'; readonly values: readonly Value[] }
  | { readonly id: number; readonly kind: 'outcome'; readonly outcome: FileOutcome };

/** The first message of a thread: it has loaded its program, and takes requests. */
export interface ThreadReady {
  readonly kind: 'ready';
}
