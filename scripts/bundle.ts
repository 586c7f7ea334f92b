/** A program with all that it imports, in one file. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const SHARED = {
  // Paths of modules are in the bundle, from here on: it is the same wherever the repository is.
  absWorkingDir: ROOT,
  bundle: true,
  platform: 'node',
  target: 'node26',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'error',
} as const;

/** `entry`: from the repository's folder. Throws what esbuild says. */
export async function bundle(entry: string, outfile: string): Promise<void> {
  await build({
    ...SHARED,
    entryPoints: [join(ROOT, entry)],
    outfile,
    format: 'esm',
    // esbuild does not know it yet.
    external: ['node:ffi'],
    // Of client-node only what reads a kubeconfig is used: without its clients for every API it is a sixth.
    alias: { '@kubernetes/client-node': join(ROOT, 'node_modules/@kubernetes/client-node/dist/config.js') },
    // CommonJS packages ask for Node.js's own modules by `require`.
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    // One file has no other beside it that a thread could start from (`src/documents/thread.ts`).
    define: { DOCUMENT_THREAD: JSON.stringify(await threadText()) },
  });
}

/** The program of the thread that reads documents, as a script. */
async function threadText(): Promise<string> {
  const entryPoints = [join(ROOT, 'src/documents/worker.ts')];
  const { outputFiles } = await build({ ...SHARED, entryPoints, format: 'cjs', write: false });
  return outputFiles[0]?.text ?? '';
}
