/** The benchmarks: `npm run bench -- --help` says what it takes. */
import { existsSync } from 'node:fs';
import { commandLine } from '../../scripts/arguments.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { machineText, measuredNow } from '../reliability/machine.ts';
import { DRIFT_SHAPES, measureDrift } from './drift.ts';
import { EXPLAIN_SHAPES, measureExplain } from './explain.ts';
import { measureFlows } from './flows.ts';
import { LIVE_READERS, measureLive } from './live.ts';
import { measureModes } from './modes.ts';
import { PART_NAMES } from './page.ts';
import { measureProducers } from './producers.ts';
import { LARGEST_PLANS, measureProxies } from './proxies.ts';
import { measureRecorder, RECORDER_SHAPES } from './recorder.ts';
import { type Figures, type PartName, type Results, readResults, writeResults } from './results.ts';
import { serverVersion, useRealServer } from './server-process.ts';
import { measureTraffic } from './traffic.ts';
import { EXECUTABLE, NEVER } from './trial.ts';
import { writePages } from './write-pages.ts';

const FLOWS = [
  { flows: 1000, others: 0, stale: 100 },
  { flows: 50_000, others: 0, stale: 1000 },
  { flows: 1000, others: 100_000, stale: 100 },
];

const PRODUCERS = [1000, 10_000].map((services) => ({ services, pods: 5, changes: 100, rolled: 400 }));

/** Parts that are measured beside the real API server where there is one. */
const BESIDE: readonly PartName[] = ['proxies', 'traffic'];

const MEASURE: { readonly [Name in PartName]: () => Promise<Figures[Name]> } = {
  proxies: () => measureProxies({ kubeProxy }),
  largest: () => measureProxies({ kubeProxy: undefined, plans: LARGEST_PLANS, tooLong: [] }),
  traffic: () => measureTraffic(kubeProxy),
  modes: () => measureModes(1000),
  drift: () => measureEach(DRIFT_SHAPES, measureDrift),
  flows: () => measureEach(FLOWS, measureFlows),
  producers: () => measureEach(PRODUCERS, measureProducers),
  explain: async () => (await measureEach(EXPLAIN_SHAPES, measureExplain)).flat(),
  recorder: () => measureEach(RECORDER_SHAPES, measureRecorder),
  live: () => measureEach(LIVE_READERS, measureLive),
};

const { words: asked, values } = commandLine({
  command: 'npm run bench',
  about:
    'Measures, and writes docs/benchmarks.md with its chart, and the figures of README.md. With parts it measures these, and those that were never measured; a part of another commit must be measured again before the page is of one state. Needs root.',
  options: {
    'kube-proxy': {
      type: 'string',
      value: 'PATH',
      help: 'the real kube-proxy, to be measured beside slicewire (parts proxies and traffic)',
    },
    'kube-apiserver': {
      type: 'string',
      value: 'PATH',
      help: 'the real API server, in the place of the made-up one (not in a virtual machine); with --etcd',
    },
    etcd: { type: 'string', value: 'PATH', help: 'keeps the objects of that API server' },
  },
  words: { name: 'PART', known: PART_NAMES },
});
const { 'kube-proxy': kubeProxy, 'kube-apiserver': kubeApiserver, etcd } = values;
for (const [option, path] of Object.entries(values)) {
  if (path !== undefined && !existsSync(path)) throw new Error(`--${option} ${path}: there is no such file`);
}
if ((kubeApiserver === undefined) !== (etcd === undefined)) {
  throw new Error('--kube-apiserver and --etcd belong together: a real API server keeps its objects in etcd');
}
const real = kubeApiserver === undefined || etcd === undefined ? undefined : { kubeApiserver, etcd };

/** One after another: side by side they would share the cores. */
async function measureEach<Options, Result>(
  all: readonly Options[],
  measure: (options: Options) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const options of all) {
    process.stdout.write(`  ${JSON.stringify(options)}\n`);
    results.push(await measure(options));
  }
  return results;
}

async function describeMachine(): Promise<string> {
  const { stdout } = await realCommands.run({ file: 'iptables', args: ['--version'] }, NEVER);
  return `${machineText()}, ${stdout.trim()}, Node.js ${process.versions.node}`;
}

/**
 * A file that was just written is in memory in large pieces, and a process that reads a byte of one has the whole in its resident memory: 30 MB
 * more than after an installation. Without the file's pages the kernel reads what is needed from the disk.
 */
async function forgetPages(file: string): Promise<void> {
  for (const [tool, ...args] of [
    ['sync', '--data', file],
    ['dd', `if=${file}`, 'iflag=nocache', 'count=0', 'status=none'],
  ] as const) {
    const { exitCode, stderr } = await realCommands.run({ file: tool, args }, NEVER);
    if (exitCode !== 0) throw new Error(`${tool} ${args.join(' ')}: ${stderr}`);
  }
}

for (const file of [EXECUTABLE, ...(kubeProxy === undefined ? [] : [kubeProxy])]) await forgetPages(file);
const machine = await describeMachine();
const results: { [Name in PartName]?: Results[Name] } = { ...readResults() };

async function measurePart<Name extends PartName>(name: Name): Promise<void> {
  process.stdout.write(`${name}\n`);
  const measured = measuredNow();
  useRealServer(BESIDE.includes(name) ? real : undefined);
  const server = await serverVersion();
  const figures = await MEASURE[name]();
  results[name] = { ...measured, machine, server, figures } as Results[Name];
  // The figures are kept, whatever becomes of the rest.
  writeResults(results);
}

const missing = PART_NAMES.filter((name) => results[name] === undefined);
for (const name of PART_NAMES) {
  if (asked.length === 0 || asked.includes(name) || missing.includes(name)) await measurePart(name);
}
writePages();
