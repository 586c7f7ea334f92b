/** Messages between the agent and the thread that reads files. */
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
  readonly most: number;
  /** Repeated keys are no problem. */
  readonly mayRepeat: boolean;
}

/** Parse a text from another source. */
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

/** A file was not read. */
export interface UnreadableFile {
  readonly kind: 'unreadable';
  readonly cause: string;
  /** Name of the error, such as ENOENT. */
  readonly code?: string | undefined;
  /** What the path leads to is not for reading, such as a named pipe. Otherwise the read itself failed, and another try may succeed. */
  readonly isRefused?: boolean;
  /** Stamp of the file, if it could be opened: while the stamp stays the same, another try is pointless. */
  readonly stamp?: string | undefined;
}

export type FileOutcome =
  | ParsedFile
  | UnreadableFile
  | { readonly kind: 'same' }
  | { readonly kind: 'file' }
  | { readonly kind: 'folder'; readonly names: readonly string[] };

/** The answers to one request: any number of values, in the order of the text, then one outcome. */
export type ThreadAnswer =
  | { readonly id: number; readonly kind: 'parsing'; readonly stamp: string }
  | { readonly id: number; readonly kind: 'values'; readonly values: readonly Value[] }
  | { readonly id: number; readonly kind: 'outcome'; readonly outcome: FileOutcome };
