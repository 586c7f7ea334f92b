/**
 * Sizes of the code: lines of files and functions, members of classes. Read from the text as Biome formats it, where a block ends
 * with the first line that is indented as its head and begins with a brace.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

export interface Measure {
  readonly file: string;
  /** The line at which it begins, from 1. */
  readonly line: number;
  readonly kind: 'file' | 'function' | 'class';
  /** Lines of a file or function; of a class its fields, accessors, methods and constructor. */
  readonly size: number;
}

const CLASS = /^(?:export )?(?:abstract )?class /;
const FUNCTION =
  /^(?:(?:export )?(?:async )?function\*? |\)|(?!(?:if|for|while|switch|catch|return|else)\b)(?:(?:static|async|override|protected|private|get|set) )*\*?[#\w]+(?:<[^>]*>)?\(.*\).*\{$)|=> \{$/;

/** Lines of a file, without the last empty one. */
export function linesOf(file: string): string[] {
  return readFileSync(join(ROOT, file), 'utf8').replace(/\n$/, '').split('\n');
}

/** The file itself, and each function and class in it. `file`: a path from the root of the repository. */
export function measuresOf(file: string): Measure[] {
  const lines = linesOf(file);
  const measures: Measure[] = [{ file, line: 1, kind: 'file', size: lines.length }];
  for (const [i, text] of lines.entries()) {
    if (!text.endsWith('{')) continue;
    const indent = text.length - text.trimStart().length;
    const head = text.trimStart();
    const isClass = CLASS.test(head);
    if (!isClass && !FUNCTION.test(head)) continue;
    const body = bodyOf(lines, i, indent);
    const size = isClass ? body.filter((line) => isMember(line, indent + 2)).length : body.length + 2;
    measures.push({ file, line: i + 1, kind: isClass ? 'class' : 'function', size });
  }
  return measures;
}

function bodyOf(lines: readonly string[], head: number, indent: number): readonly string[] {
  const closing = `${' '.repeat(indent)}}`;
  const end = lines.findIndex((line, i) => i > head && line.startsWith(closing));
  return lines.slice(head + 1, end < 0 ? lines.length : end);
}

function isMember(line: string, indent: number): boolean {
  return line.startsWith(' '.repeat(indent)) && /^[^\s}*/)]/.test(line.slice(indent));
}
