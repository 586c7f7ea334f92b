/** Bundles a program and its imports into one file. */
import { isAscii } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const SHARED = {
  // The bundle names modules by their path from this folder, so it is the same wherever the repository is.
  absWorkingDir: ROOT,
  bundle: true,
  platform: 'node',
  target: 'node26',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'error',
} as const;

const THREAD: BuildOptions = { ...SHARED, entryPoints: [join(ROOT, 'src/documents/worker.ts')], format: 'cjs' };

/**
 * `entry`: relative to the repository. Throws esbuild's errors, and one when the text is not ASCII: V8 keeps a program with a single
 * other letter in two bytes a character. esbuild escapes letters, but not those of regular expressions.
 */
export async function bundle(entry: string, outfile: string): Promise<void> {
  await build(await optionsOf(entry, outfile));
  const text = await readFile(outfile);
  if (isAscii(text)) return;
  const at = text.findIndex((byte) => byte > 127);
  throw new Error(`the bundle of ${entry} is not ASCII: ${text.subarray(Math.max(0, at - 40), at + 40)}`);
}

/**
 * The npm packages of which something is in the bundle of `entry`, as the lock file names them
 * (`node_modules/pino`), sorted.
 */
export async function bundledPackages(entry: string): Promise<string[]> {
  const builds = [await optionsOf(entry, 'bundle.mjs'), THREAD];
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
    // Only the part of client-node that reads a kubeconfig is used. Without its clients for every API it is a sixth as large.
    alias: { '@kubernetes/client-node': join(ROOT, 'node_modules/@kubernetes/client-node/dist/config.js') },
    // CommonJS packages load Node.js's own modules by `require`.
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    // The bundle is one file, so a thread has no other file to start from (`src/documents/thread.ts`).
    define: { DOCUMENT_THREAD: JSON.stringify(await threadText()) },
  };
}

/** The script of the thread that reads documents. */
async function threadText(): Promise<string> {
  const { outputFiles } = await build({ ...THREAD, write: false });
  return outputFiles[0]?.text ?? '';
}
