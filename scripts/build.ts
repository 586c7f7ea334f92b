/**
 * `npm run build`: one executable with everything in it, Node.js included, that needs no node_modules (Node.js's single executable
 * applications). The build ends with a trial of the executable: its version, its help, and a plan of a sample.
 * Builds are reproducible: the same sources make the same bytes in any folder, so that the SHA-256 of two builds can be compared.
 *
 *   --output FILE                  the executable (dist/slicewire)
 *   --sums FILE --archive FILE     compare Node.js with its published release: SHASUMS256.txt, node-vVERSION-linux-x64.tar.xz
 */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { realCommands } from '../src/host/commands.ts';
import { mayChangeNetwork } from '../src/host/node-facts.ts';
import { bundle } from './bundle.ts';
import { checkRuntime, compareWithRelease, RuntimeRefused, sha256 } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NEVER = new AbortController().signal;
const MAIN = 'slicewire.mjs';
/**
 * Node.js must not offer these in a daemon of root: SIGUSR1 opens the debugger to every user of the machine, and
 * OPENSSL_CONF can load libraries. src/host/environment.ts has the others.
 */
const NODE_ARGV = ['--disable-sigusr1', '--openssl-config=/dev/null'];
/**
 * V8 may hand memory back one second after the start of the process (src/host/memory.ts).
 * The build itself runs with these flags: V8 rejects a code cache that was made with others.
 */
const V8_ARGV = ['--gc-memory-reducer-start-delay-ms=1000'];
const SAMPLE = `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.1.11]}]
`;

const { values } = parseArgs({
  options: {
    output: { type: 'string', default: join(ROOT, 'dist/slicewire') },
    sums: { type: 'string' },
    archive: { type: 'string' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'slicewire-build-'));
try {
  await checkNode();
  mkdirSync(join(values.output, '..'), { recursive: true });
  await bundle('src/main.ts', join(folder, MAIN));
  await assemble(resolve(values.output));
  await tryOut(resolve(values.output));
  const megabytes = Math.round(statSync(values.output).size / 1e6);
  process.stdout.write(`built: ${values.output} (${megabytes} MB), SHA-256 ${await sha256(values.output)}\n`);
} catch (error) {
  if (!(error instanceof RuntimeRefused)) throw error;
  process.stderr.write(`build: ${error.message}\n`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}

/** The Node.js that runs this script goes into the executable. */
async function checkNode(): Promise<void> {
  const { sums, archive } = values;
  const runtime = {
    file: process.execPath,
    version: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  };
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

/** Puts the bundle and this Node.js into one file. */
async function assemble(output: string): Promise<void> {
  writeFileSync(
    join(folder, 'sea.json'),
    JSON.stringify({
      // The executable contains this path: keep it the same everywhere.
      main: MAIN,
      mainFormat: 'module',
      output,
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
      execArgv: [...NODE_ARGV, ...V8_ARGV],
      // The agent is root: ignore NODE_OPTIONS of the environment.
      execArgvExtension: 'none',
    }),
  );
  // The seed makes the code cache reproducible; V8 ignores it when it compares the flags of a cache with its own.
  const args = [
    '-C',
    folder,
    '-u',
    'NODE_OPTIONS',
    process.execPath,
    '--random-seed=1',
    ...V8_ARGV,
    '--build-sea',
    'sea.json',
  ];
  await run('env', args);
}

/** Throws when the executable does not work. */
async function tryOut(output: string): Promise<void> {
  const { exitCode, stdout: version, stderr } = await realCommands.run({ file: output, args: ['version'] }, NEVER);
  // Such as "Code cache data rejected": each start would compile everything again.
  if (exitCode !== 0 || stderr !== '') throw new Error(`${output} version ended with ${exitCode}: ${stderr}`);
  if (!version.startsWith('slicewire ')) throw new Error(`${output} version: ${version}`);
  const help = await run(output, ['run', '--help']);
  if (!help.includes('--proxy-mode')) throw new Error(`${output} run --help: ${help}`);
  // A plan reads the kernel; a build of an image may not.
  if (!(await mayChangeNetwork())) return;
  const sample = join(folder, 'sample.yaml');
  writeFileSync(sample, SAMPLE);
  const plan = await run(output, ['plan', '--manifests', sample, '--output', 'json'], [0, 2]);
  const { steps } = JSON.parse(plan) as { steps: readonly { readonly key: string }[] };
  if (!steps.some(({ key }) => key.startsWith('IPv4 nat KUBE-SVC-'))) throw new Error(`${output} plan: ${plan}`);
}

async function run(file: string, args: readonly string[], statuses: readonly number[] = [0]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file, args }, NEVER);
  if (exitCode === undefined || !statuses.includes(exitCode)) {
    throw new Error(`${file} ${args.join(' ')} ended with ${exitCode}: ${stderr}${stdout}`);
  }
  return stdout;
}
