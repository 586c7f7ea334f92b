/** Bundles a program and its imports into one file. */
import { isAscii } from 'node:buffer';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';
import { ASSETS, CLIENT_NODE, LATE, wrapped } from './executable/program.ts';
import { PAGE_BUNDLE, pageFiles } from './page.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Only the part of client-node that reads a kubeconfig is used. Without its clients for every API it is a sixth as large. */
const CLIENT_NODE_CONFIG = join(ROOT, 'node_modules/@kubernetes/client-node/dist/config.js');

const WS = join(ROOT, 'node_modules/ws/index.js');

const SHARED = {
  // The bundle names modules by their path from this folder, so it is the same wherever the repository is.
  absWorkingDir: ROOT,
  // Also where node_modules is a link to another folder.
  preserveSymlinks: true,
  bundle: true,
  platform: 'node',
  target: 'node26',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'error',
} as const;

const THREAD: BuildOptions = { ...SHARED, entryPoints: [join(ROOT, 'src/cluster/documents/worker.ts')], format: 'cjs' };

/** `entry`: relative to the repository. Throws esbuild's errors, and one when the text is not ASCII. */
export async function bundle(entry: string, outfile: string): Promise<void> {
  await build(await optionsOf(entry, outfile));
  asciiOf(outfile);
}

/**
 * The text of a bundle. Throws when it is not ASCII: V8 keeps a program with a single other letter in two bytes a character. esbuild
 * escapes letters, but not those of regular expressions.
 */
function asciiOf(file: string): string {
  const text = readFileSync(file);
  const at = isAscii(text) ? -1 : text.findIndex((byte) => byte > 127);
  if (at < 0) return text.toString('latin1');
  throw new Error(`the bundle ${file} is not ASCII: ${text.subarray(Math.max(0, at - 40), at + 40)}`);
}

/** The texts of the executable, each a file in the folder: its first code, `boot.js`, the assets `program`, `client-node`, `ws` and those of the page. */
export async function bundleExecutable(folder: string): Promise<void> {
  const cjs = {
    ...SHARED,
    format: 'cjs' as const,
    external: ['node:ffi', ...Object.keys(LATE)],
  } satisfies BuildOptions;
  const file = (name: string) => join(folder, name);
  await build({ ...cjs, entryPoints: [join(ROOT, 'scripts/executable/boot.ts')], outfile: file('boot.js') });
  await build({
    ...cjs,
    entryPoints: [join(ROOT, 'scripts/executable/entry.ts')],
    outfile: file(ASSETS.program),
    // A script of V8 that is compiled before cannot load modules by itself: `boot.ts` gives it `require`.
    supported: { 'dynamic-import': false },
    define: {
      DOCUMENT_THREAD: JSON.stringify(await threadText()),
      'import.meta.url': JSON.stringify('file:///slicewire'),
    },
  });
  await build({ ...cjs, external: [], entryPoints: [CLIENT_NODE_CONFIG], outfile: file(ASSETS.clientNode) });
  // Without the packages of native code that ws tries to load.
  const ownCode = { 'process.env.WS_NO_BUFFER_UTIL': '"1"', 'process.env.WS_NO_UTF_8_VALIDATE': '"1"' };
  await build({ ...cjs, external: [], define: ownCode, entryPoints: [WS], outfile: file(ASSETS.ws) });
  for (const name of [ASSETS.program, ASSETS.clientNode, ASSETS.ws]) {
    writeFileSync(file(name), wrapped(asciiOf(file(name))));
  }
  for (const [name, packed] of await pageFiles()) writeFileSync(file(name), packed);
}

/**
 * The npm packages of which something is in the bundle of `entry` or in the page, as the lock file names them
 * (`node_modules/pino`), sorted.
 */
export async function bundledPackages(entry: string): Promise<string[]> {
  const builds = [await optionsOf(entry, 'bundle.mjs'), THREAD, PAGE_BUNDLE];
  const metafiles = await Promise.all(
    builds.map(async (options) => (await build({ ...options, write: false, metafile: true })).metafile),
  );
  const outputs = metafiles.flatMap(({ outputs }) => Object.values(outputs));
  const inputs = outputs.flatMap((output) => Object.entries(output.inputs));
  const files = inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([file]) => file);
  const packages = files.map((file) => /node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return [...new Set(packages.filter((name) => name !== undefined))].sort();
}

async function optionsOf(entry: string, outfile: string): Promise<BuildOptions> {
  return {
    ...SHARED,
    entryPoints: [join(ROOT, entry)],
    outfile,
    format: 'esm',
    // esbuild does not know this module yet.
    external: ['node:ffi'],
    alias: { [CLIENT_NODE]: CLIENT_NODE_CONFIG },
    // CommonJS packages load Node.js's own modules by `require`.
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    // The bundle is one file, so a thread has no other file to start from (`src/cluster/documents/files.ts`).
    define: { DOCUMENT_THREAD: JSON.stringify(await threadText()) },
  };
}

/** The script of the thread that reads documents. */
async function threadText(): Promise<string> {
  const { outputFiles } = await build({ ...THREAD, write: false });
  return outputFiles[0]?.text ?? '';
}
