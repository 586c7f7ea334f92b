/**
 * `npm run build`: one executable with everything in it, Node.js included, that needs no node_modules (Node.js's single executable
 * applications). The build ends with a trial of the executable: its version, its help, and a plan of a sample. Beside it comes
 * slicewire-drained, the small program of preStop hooks (native/drained/).
 * Builds are reproducible: the same sources make the same bytes in any folder, so that the SHA-256 of two builds can be compared.
 * `npm run build -- --help` lists its options.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from './arguments.ts';
import { DRAINED_PROGRAM, makeDrainedProgram } from './executable/drained-program.ts';
import { makeExecutable } from './executable/make.ts';
import { emulatorFor, nodePackage, OWN_PLATFORM, platformNamed } from './executable/platform.ts';
import { checkRuntime, compareWithRelease, type Runtime, RuntimeRefused, sha256 } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const { values } = commandLine({
  command: 'npm run build',
  about: 'Makes the executable: Node.js and the program in one file.',
  options: {
    output: { type: 'string', value: 'FILE', help: 'the executable; without it dist/slicewire of this repository' },
    platform: {
      type: 'string',
      value: 'PLATFORM',
      default: OWN_PLATFORM,
      help: 'linux-x64 or linux-arm64; qemu runs the programs of the other one',
    },
    sums: {
      type: 'string',
      value: 'FILE',
      help: 'SHASUMS256.txt of the release of Node.js, which its binary is compared with',
    },
    archive: { type: 'string', value: 'FILE', help: 'node-vVERSION-PLATFORM.tar.xz of that release' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'slicewire-build-'));
try {
  const output = resolve(values.output ?? join(ROOT, 'dist/slicewire'));
  const platform = platformNamed(values.platform);
  const emulator = emulatorFor(platform);
  const { node } = await nodePackage(platform, folder);
  await checkNode(node);
  mkdirSync(dirname(output), { recursive: true });
  await makeExecutable({ node: node.file, emulator, output });
  const drained = join(dirname(output), DRAINED_PROGRAM);
  await makeDrainedProgram(platform, drained);
  const megabytes = Math.round(statSync(output).size / 1e6);
  process.stdout.write(`built: ${output} (${megabytes} MB), SHA-256 ${await sha256(output)}\n`);
  const kilobytes = Math.round(statSync(drained).size / 1e3);
  process.stdout.write(`built: ${drained} (${kilobytes} kB), SHA-256 ${await sha256(drained)}\n`);
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
