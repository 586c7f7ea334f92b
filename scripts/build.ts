/**
 * `npm run build`: one executable with everything in it, Node.js included, that needs no node_modules (Node.js's single executable
 * applications). The build ends with a trial of the executable: its version, its help, and a plan of a sample.
 * Builds are reproducible: the same sources make the same bytes in any folder, so that the SHA-256 of two builds can be compared.
 *
 *   --output FILE                  the executable (dist/slicewire)
 *   --sums FILE --archive FILE     compare Node.js with its published release: SHASUMS256.txt, node-vVERSION-linux-x64.tar.xz
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { realCommands } from '../src/host/commands.ts';
import { mayChangeNetwork } from '../src/host/node-facts.ts';
import { bundleExecutable } from './bundle.ts';
import { ASSETS, PAGE_ASSETS, wrapped } from './executable/program.ts';
import { checkRuntime, compareWithRelease, RuntimeRefused, sha256 } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NEVER = new AbortController().signal;
/**
 * Node.js must not offer these in a daemon of root: SIGUSR1 opens the debugger to every user of the machine, and
 * OPENSSL_CONF can load libraries. src/host/environment.ts has the others.
 */
const NODE_ARGV = ['--disable-sigusr1', '--openssl-config=/dev/null'];
/** V8 may hand memory back one second after the start of the process (src/host/memory.ts). */
const V8_ARGV = ['--gc-memory-reducer-start-delay-ms=1000'];
const EXEC_ARGV = [...NODE_ARGV, ...V8_ARGV];
/** With these V8 makes the same compiled code each time: without threads beside, and without chance. */
const REPRODUCIBLE = ['--random-seed=1', '--predictable', '--single-threaded'];

/** Where compiled code has the hash of V8's flags (V8's class SerializedCodeData). */
const FLAGS_HASH = { start: 12, end: 16 } as const;

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
  await bundleExecutable(folder);
  await compile();
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

/**
 * Makes the compiled code of the program. V8 refuses code that was made with other flags than its own, so the code gets the hash of
 * the executable's flags: those that make it reproducible change the order of V8's work, not the code.
 */
async function compile(): Promise<void> {
  const maker = join(ROOT, 'scripts/executable/cached.ts');
  const make = async (program: string, output: string, flags: readonly string[]) => {
    await run('env', [
      '-i',
      process.execPath,
      ...flags,
      ...EXEC_ARGV,
      maker,
      join(folder, program),
      join(folder, output),
    ]);
    return readFileSync(join(folder, output));
  };
  writeFileSync(join(folder, 'empty'), wrapped(''));
  const empty = await make('empty', 'empty-compiled', []);
  const compiled = await make(ASSETS.program, ASSETS.compiled, REPRODUCIBLE);
  empty.copy(compiled, FLAGS_HASH.start, FLAGS_HASH.start, FLAGS_HASH.end);
  writeFileSync(join(folder, ASSETS.compiled), compiled);
}

/** Puts the bundle and this Node.js into one file. */
async function assemble(output: string): Promise<void> {
  writeFileSync(
    join(folder, 'sea.json'),
    JSON.stringify({
      // The executable contains these paths: keep them the same everywhere.
      main: 'boot.js',
      assets: Object.fromEntries([...Object.values(ASSETS), ...PAGE_ASSETS].map((name) => [name, name])),
      output,
      disableExperimentalSEAWarning: true,
      // The first code is a few lines. It has the compiled code of the program.
      useCodeCache: false,
      execArgv: EXEC_ARGV,
      // The agent is root: ignore NODE_OPTIONS of the environment.
      execArgvExtension: 'none',
    }),
  );
  await run('env', ['-C', folder, '-u', 'NODE_OPTIONS', process.execPath, '--build-sea', 'sea.json']);
}

/** Throws when the executable does not work. */
async function tryOut(output: string): Promise<void> {
  const { stdout: version, stderr } = await realCommands.run({ file: 'env', args: ['-i', output, 'version'] }, NEVER);
  // The first code warns on standard error where V8 refuses the compiled code.
  if (!version.startsWith('slicewire ') || stderr !== '') throw new Error(`${output} version: ${version}${stderr}`);
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
