/** The imports between the files of the project, read from their text. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

export interface Import {
  /** Path of the importing file, from the root of the repository. */
  readonly from: string;
  /** Path of a file of the project, from the root of the repository, or the name of a module. */
  readonly to: string;
  /** `import type` or `export type`: nothing of it is left when the program runs. */
  readonly isTypeOnly: boolean;
  /** `await import`: loaded when the line runs. */
  readonly isLate: boolean;
}

/** Paths of the TypeScript files, with those of the page that hold JSX, under these folders, from the root of the repository, sorted. */
export function sourceFiles(...folders: readonly string[]): string[] {
  const files = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  );
  return files.filter((file) => /\.tsx?$/.test(file)).sort();
}

/** The imports of one file, in the order of its lines. `file` is a path from the root of the repository. */
export function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const found = text.matchAll(
    /(?:^|\n)(?:import|export)[^;]*?from '([^']+)'|import\('([^']+)'\)|(?:^|\n)import '([^']+)'/g,
  );
  return [...found].map((match) => {
    const name = match[1] ?? match[2] ?? match[3] ?? '';
    const to = name.startsWith('.') ? relative(ROOT, resolve(ROOT, dirname(file), name)) : name;
    const isTypeOnly = /^\s*(?:import|export) type /.test(match[0]);
    return { from: file, to, isTypeOnly, isLate: match[2] !== undefined };
  });
}
