/** Makes the executable of one platform, and tests that it starts and plans. */
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { realCommands } from '../../src/kernel/commands.ts';
import { bundle, bundleExecutable } from '../bundle.ts';
import { run } from '../run.ts';
import { ASSETS, PAGE_ASSETS, wrapped } from './program.ts';

const NEVER = new AbortController().signal;
/**
 * Node.js must not offer these in a daemon of root: SIGUSR1 opens the debugger to every user of the machine, and
 * OPENSSL_CONF can load libraries. src/kernel/environment.ts has the others.
 */
const NODE_ARGV = ['--disable-sigusr1', '--openssl-config=/dev/null'];
/**
 * V8 may hand memory back one second after the start of the process (src/kernel/memory.ts). It compiles no WebAssembly: nothing here needs
 * it, and V8's registry of executable memory has ended processes that ran some (nodejs/node#64500). V8 14 has no other switch for it.
 */
const V8_ARGV = ['--gc-memory-reducer-start-delay-ms=1000', '--wasm-max-module-size=0'];
const EXEC_ARGV = [...NODE_ARGV, ...V8_ARGV];
/**
 * With these V8 makes the same compiled code each time: without threads beside, without chance, and without dropping code after some
 * collections of garbage, whose number follows the machine's memory.
 */
const REPRODUCIBLE = ['--random-seed=1', '--predictable', '--single-threaded', '--no-flush-bytecode'];

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

export interface Making {
  /** The Node.js that goes into the executable. It must have this process's version. */
  readonly node: string;
  /** The words before a command of the platform (platform.ts). */
  readonly emulator: readonly string[];
  /** An absolute path. */
  readonly output: string;
}

/** Throws when a step fails, or when the executable does not work. */
export async function makeExecutable(making: Making): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'slicewire-make-'));
  try {
    await bundleExecutable(folder);
    writeFileSync(join(folder, ASSETS.compiled), await compile(making, folder));
    // A file whose program runs cannot be written ("text file is busy"). It can be replaced, and that program goes on with the old one.
    const beside = `${making.output}.${process.pid}`;
    try {
      await assemble({ ...making, output: beside }, folder, [...Object.values(ASSETS), ...PAGE_ASSETS]);
      await tryOut({ ...making, output: beside }, folder);
      renameSync(beside, making.output);
    } finally {
      rmSync(beside, { force: true });
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * The compiled code of the program that is bundled in `folder`: the same each time, however busy the machine is. V8 refuses code that was
 * made with other flags than its own, or by another build of V8, so the Node.js of the platform makes it. The code gets the hash of the
 * executable's flags: those that make it reproducible change the order of V8's work, not the code.
 */
export async function compile({ node, emulator }: Omit<Making, 'output'>, folder: string): Promise<Buffer> {
  const maker = join(folder, 'cached.mjs');
  await bundle('scripts/executable/cached.ts', maker);
  const make = async (program: string, output: string, flags: readonly string[]) => {
    const command = [...emulator, node, ...flags, ...EXEC_ARGV, maker];
    await run('env', ['-i', ...command, join(folder, program), join(folder, output)]);
    return readFileSync(join(folder, output));
  };
  writeFileSync(join(folder, 'empty'), wrapped(''));
  const empty = await make('empty', 'empty-compiled', []);
  const compiled = await make(ASSETS.program, ASSETS.compiled, REPRODUCIBLE);
  empty.copy(compiled, FLAGS_HASH.start, FLAGS_HASH.start, FLAGS_HASH.end);
  return compiled;
}

/** Puts `boot.js` and the assets, all in `folder`, and Node.js into one file. Only Node.js of the same version can do that for another platform. */
export async function assemble(
  { node, output }: Omit<Making, 'emulator'>,
  folder: string,
  assets: readonly string[],
): Promise<void> {
  writeFileSync(
    join(folder, 'sea.json'),
    JSON.stringify({
      // The executable contains these paths: keep them the same everywhere.
      main: 'boot.js',
      assets: Object.fromEntries(assets.map((name) => [name, name])),
      executable: node,
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
async function tryOut({ emulator, output }: Making, folder: string): Promise<void> {
  // Without the environment: the executable restarts itself when it refuses a variable, and an emulator cannot do that.
  const command = ['-i', `PATH=${process.env.PATH ?? ''}`, ...emulator, output];
  const { stdout: version, stderr } = await realCommands.run({ file: 'env', args: [...command, 'version'] }, NEVER);
  // The first code warns on standard error where V8 refuses the compiled code.
  if (!version.startsWith('slicewire ') || stderr !== '') throw new Error(`${output} version: ${version}${stderr}`);
  const help = await run('env', [...command, 'run', '--help']);
  if (!help.includes('--proxy-mode')) throw new Error(`${output} run --help: ${help}`);
  // A plan reads the kernel: in a network namespace of its own, where this user may make one. A build of an image may not.
  const own = ['unshare', '--net'];
  if ((await realCommands.run({ file: 'env', args: [...own, 'true'] }, NEVER)).exitCode !== 0) return;
  const sample = join(folder, 'sample.yaml');
  writeFileSync(sample, SAMPLE);
  const plan = await run('env', [...own, 'env', ...command, 'plan', '--manifests', sample, '--output', 'json'], [0, 2]);
  const { steps } = JSON.parse(plan) as { steps: readonly { readonly key: string }[] };
  if (!steps.some(({ key }) => key.startsWith('IPv4 nat KUBE-SVC-'))) throw new Error(`${output} plan: ${plan}`);
}
