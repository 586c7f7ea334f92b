/**
 * `npm run build`: one executable with everything in it, Node.js included, that needs no node_modules (Node.js's single executable
 * applications). The build ends with a trial of the executable: its version, its help, and a plan of a sample. Beside it comes
 * slicewire-drained, the small program of preStop hooks (native/drained/).
 * Builds are reproducible: the same sources make the same bytes in any folder, so that the SHA-256 of two builds can be compared.
 *
 *   --output FILE                  the executable (dist/slicewire)
 *   --platform PLATFORM            linux-x64 or linux-arm64 (this machine's); qemu runs the programs of the other one
 *   --sums FILE --archive FILE     compare Node.js with its published release: SHASUMS256.txt, node-vVERSION-PLATFORM.tar.xz
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { DRAINED_PROGRAM, makeDrainedProgram } from './executable/drained-program.ts';
import { makeExecutable } from './executable/make.ts';
import { nodePackage } from './executable/node-package.ts';
import { emulatorFor, OWN_PLATFORM, platformNamed } from './executable/platform.ts';
import { checkRuntime, compareWithRelease, type Runtime, RuntimeRefused, sha256 } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const { values } = parseArgs({
  options: {
    output: { type: 'string', default: join(ROOT, 'dist/slicewire') },
    platform: { type: 'string', default: OWN_PLATFORM },
    sums: { type: 'string' },
    archive: { type: 'string' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'slicewire-build-'));
try {
  const output = resolve(values.output);
  const platform = platformNamed(values.platform);
  const emulator = emulatorFor(platform);
  const { node } = await nodePackage(platform, folder);
  await checkNode(node);
  mkdirSync(dirname(output), { recursive: true });
  await makeExecutable({ node: node.file, emulator, output });
  const drained = join(dirname(output), DRAINED_PROGRAM);
  await makeDrainedProgram(platform, drained);
  const megabytes = Math.round(statSync(output).size / 1e6);
  process.stdout.write(`built: ${values.output} (${megabytes} MB), SHA-256 ${await sha256(output)}\n`);
  const kilobytes = Math.round(statSync(drained).size / 1e3);
  const shown = join(dirname(values.output), DRAINED_PROGRAM);
  process.stdout.write(`built: ${shown} (${kilobytes} kB), SHA-256 ${await sha256(drained)}\n`);
} catch (error) {
  if (!(error instanceof RuntimeRefused)) throw error;
  process.stderr.write(`build: ${error.message}\n`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}

/** Throws RuntimeRefused when it is not the Node.js that is pinned, or not the one of the release. */
async function checkNode(runtime: Runtime): Promise<void> {
  const { sums, archive } = values;
  if ((sums === undefined) !== (archive === undefined)) {
    throw new RuntimeRefused('--sums and --archive must be given together: the first has the SHA-256 of the second');
  }
  const sum = await checkRuntime(runtime);
  if (sums !== undefined && archive !== undefined) await compareWithRelease(runtime, { sums, archive });
  const by =
    sums === undefined
      ? 'as pinned in scripts/runtime.json'
      : 'as pinned in scripts/runtime.json, and equal to the release';
  process.stdout.write(`Node.js ${runtime.version} for ${runtime.platform}: SHA-256 ${sum}, ${by}\n`);
}
