/**
 * The live pages of agent and fleet: src/web as the files that a browser loads, each compressed. The same sources make the same bytes.
 *
 *   node scripts/page.ts [FOLDER]      writes dist/page, from where agent and fleet that run from their sources serve the pages
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';
import { type BuildOptions, build } from 'esbuild';
import type { PAGE_ASSETS } from './executable/program.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCE = join(ROOT, 'src/web');

/** The targets are browsers of 2024 and later, which know `light-dark()`. */
export const PAGE_BUNDLE = {
  absWorkingDir: ROOT,
  entryPoints: [
    join(SOURCE, 'main.tsx'),
    join(SOURCE, 'fleet.tsx'),
    join(SOURCE, 'shadow.tsx'),
    join(SOURCE, 'page.css'),
  ],
  entryNames: '[name]',
  outdir: join(ROOT, 'dist/page'),
  bundle: true,
  format: 'esm',
  platform: 'browser',
  target: ['chrome123', 'firefox120', 'safari17.5'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  tsconfigRaw: {},
  minify: true,
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'error',
} satisfies BuildOptions;

/** The compressed files by their names. Throws esbuild's errors. */
export async function pageFiles(): Promise<Map<string, Buffer>> {
  const { outputFiles } = await build({ ...PAGE_BUNDLE, write: false });
  const made = (name: string) => outputFiles.find(({ path }) => basename(path) === name)?.contents ?? Buffer.alloc(0);
  const texts: Readonly<Record<(typeof PAGE_ASSETS)[number], Uint8Array>> = {
    'page.html': readFileSync(join(SOURCE, 'page.html')),
    'page.js': made('main.js'),
    'fleet.html': readFileSync(join(SOURCE, 'fleet.html')),
    'fleet.js': made('fleet.js'),
    'shadow.html': readFileSync(join(SOURCE, 'shadow.html')),
    'shadow.js': made('shadow.js'),
    'page.css': made('page.css'),
    'icon.svg': readFileSync(join(SOURCE, 'icon.svg')),
  };
  return new Map(
    Object.entries(texts).map(([name, text]) => [name, gzipSync(text, { level: constants.Z_BEST_COMPRESSION })]),
  );
}

/** Writes them for an agent that runs from its sources; each is whole at every moment. */
export async function writePage(folder = join(ROOT, 'dist/page')): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const [name, packed] of await pageFiles()) {
    const file = join(folder, `${name}.gz`);
    writeFileSync(`${file}.${process.pid}`, packed);
    renameSync(`${file}.${process.pid}`, file);
  }
}

if (import.meta.main) await writePage(process.argv[2]);
