/** `npm run test:kernels`: stories and the agent on other kernels, each in a virtual machine of its own (machine/README.md). */
import { globSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../../scripts/arguments.ts';
import { nodePackage, platformNamed } from '../../../scripts/executable/platform.ts';
import { checkRuntime } from '../../../scripts/runtime.ts';
import { realCommands } from '../../../src/kernel/commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { measuredNow } from '../../reliability/machine.ts';
import { recordPart } from '../../reliability/results.ts';
import type { TestResult } from '../reporter.ts';
import type { OtherKernel } from '../run-there.ts';
import { countsOf, failedIn, isRight, printResult, type Told, toldThere } from '../told-there.ts';
import { FILES_PACKAGES, FILES_SUITE, KERNELS, type Kernel } from './kernels.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const DEBIAN = here('../machine/debian.sh');
const FILES = [
  ...globSync('*.vm.ts', { cwd: here('.') })
    .sort()
    .map(here),
  here('../stories-nftables.vm.ts'),
];
const PROGRAM = here('../../../dist/slicewire');
const CACHE = process.env.SLICEWIRE_VM_CACHE ?? '/var/cache/slicewire-vm';

const { values, words } = commandLine({
  command: 'npm run test:kernels',
  about:
    "Runs the stories that another kernel could fail, and the agent in each mode, in virtual machines with Debian's kernels. Without words: on all of them. Takes some ten minutes for each where KVM is missing.",
  words: { name: 'KERNEL', known: KERNELS.map(({ name }) => name) },
  options: { record: { type: 'boolean', help: 'writes the result to docs/reliability.json and docs/reliability.md' } },
});

const print = (text: string) => process.stdout.write(`${text}\n`);

interface KernelResult extends Told {
  readonly kernel: Kernel;
  readonly release: string;
}

/** Run debian.sh; resolves with its answer. Throws with its words where it fails. */
async function debian(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file: 'sh', args: [DEBIAN, ...args] }, NEVER);
  if (exitCode !== 0) throw new Error(`debian.sh ${args[0]}: ${stderr.trim()}`);
  return stdout.trim();
}

async function fetched({ suite, architecture }: Kernel): Promise<OtherKernel> {
  const release = await debian('kernel', suite, architecture);
  if (architecture === 'amd64') return { release, node: process.execPath, program: PROGRAM };
  await debian('files', FILES_SUITE, architecture, ...FILES_PACKAGES);
  const folder = join(CACHE, `node-${architecture}`);
  await mkdir(folder, { recursive: true });
  const runtime = (await nodePackage(platformNamed('linux-arm64'), folder)).node;
  await checkRuntime(runtime);
  const program = join(folder, 'slicewire');
  const args = [here('../../../scripts/build.ts'), '--platform', 'linux-arm64', '--output', program];
  const { exitCode, stderr } = await realCommands.run({ file: process.execPath, args }, NEVER);
  if (exitCode !== 0) throw new Error(`the executable for ${architecture} cannot be built: ${stderr.trim()}`);
  return { release, node: runtime.file, program };
}

/** A kernel that cannot be fetched is told with the others' results. */
async function runOn(kernel: Kernel): Promise<KernelResult> {
  const other = await fetched(kernel).catch((error: Error) => error);
  if (other instanceof Error) return { kernel, release: 'not fetched', results: [], trouble: other.message };
  print(`${kernel.name}: Linux ${other.release}`);
  const onResult = (one: TestResult) => printResult(one, `${kernel.name}: `);
  return { kernel, release: other.release, ...(await toldThere(FILES, { kernel: other, onResult })) };
}

const chosen = words.length === 0 ? KERNELS : KERNELS.filter(({ name }) => words.includes(name));
const all: KernelResult[] = [];
// Two machines of one processor each do more than one of two.
const waiting = [...chosen];
await Promise.all(
  [1, 2].map(async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) all.push(await runOn(next));
  }),
);
const inOrder = chosen.map((kernel) => all.find((one) => one.kernel === kernel)).filter((one) => one !== undefined);
const rows = inOrder.map((one) => [one.release, one.kernel.suite, one.kernel.architecture, ...countsOf(one)]);
for (const one of inOrder) {
  print(`${one.kernel.name}: Linux ${one.release}: ${one.results.length} tests, ${failedIn(one)} failed`);
  if (one.trouble !== undefined) print(one.trouble);
}
if (values.record) {
  recordPart('kernels', {
    ...measuredNow(),
    command: 'npm run test:kernels',
    text: [],
    head: ['Linux', 'Debian', 'platform', 'tests', 'skipped', 'failed'],
    rows,
  });
}
process.exitCode = inOrder.every(isRight) ? 0 : 1;
