/** The benchmarks: `npm run bench -- --help` says what it takes. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { measureChange } from './change.ts';
import { chart } from './chart.ts';
import { measureChurn } from './churn.ts';
import { type ColdOptions, measureCold } from './cold.ts';
import { measureConnections } from './connections.ts';
import { DRIFT_SHAPES, measureDrift } from './drift.ts';
import { EXPLAIN_SHAPES, measureExplain } from './explain.ts';
import { measureFlows } from './flows.ts';
import { measureLarge } from './large.ts';
import { LIVE_READERS, measureLive } from './live.ts';
import { measureModes } from './modes.ts';
import { measureNftables, type NftablesStartOptions } from './nftables.ts';
import { page, type Results } from './page.ts';
import { measureProducers } from './producers.ts';
import { writeFigures } from './readme-figures.ts';
import { measureRecorder, RECORDER_SHAPES } from './recorder.ts';
import { measureRivals } from './rivals.ts';
import { measureRollout } from './rollout.ts';
import { MADE_UP, serverVersion, useRealServer } from './server-process.ts';
import { measureShapes } from './shapes.ts';
import { measureTraffic } from './traffic.ts';
import { NEVER } from './trial.ts';

const docs = (name: string) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
const DATA = docs('benchmarks.json');

const cold = (services: number, endpoints: number, more: Partial<ColdOptions> = {}): ColdOptions => ({
  ...{ shape: { services, endpoints }, backend: 'nft', runs: 1, hasRival: false, rest: 0 },
  ...more,
});
/** Shares of Services and endpoints that are out of the ordinary, as a large cluster has them. */
const MIXED = { nodePorts: 0.1, affinity: 0.05, localPolicy: 0.05, unready: 0.05 };
const COLD: readonly ColdOptions[] = [
  cold(1000, 5, { runs: 3, hasRival: true }),
  cold(10_000, 5, { runs: 3, rest: 30 }),
  cold(10_000, 5, { shape: { services: 10_000, endpoints: 5, ...MIXED } }),
  cold(44_000, 1, { rest: 30 }),
  cold(5000, 50),
  cold(8000, 30),
  cold(1000, 5, { runs: 3, backend: 'legacy', hasRival: true }),
  cold(10_000, 5, { runs: 3, backend: 'legacy' }),
];
const CHANGE = [
  { services: 1000, endpoints: 5 },
  { services: 10_000, endpoints: 5 },
  { services: 44_000, endpoints: 1 },
];
const start = (
  services: number,
  endpoints: number,
  more: Partial<NftablesStartOptions> = {},
): NftablesStartOptions => ({
  ...{ shape: { services, endpoints }, runs: 1, hasRival: false, rest: 0, asJson: false },
  ...more,
});
const NFTABLES = {
  starts: [
    start(1, 1, { runs: 3 }),
    start(1000, 5, { runs: 3, hasRival: true }),
    start(10_000, 5, { runs: 3, hasRival: true, rest: 30 }),
    start(10_000, 5, { runs: 3, asJson: true }),
    start(10_000, 5, { shape: { services: 10_000, endpoints: 5, ...MIXED } }),
    start(44_000, 1, { runs: 3 }),
    start(44_000, 1, { runs: 3, asJson: true }),
    start(5000, 50, { runs: 3 }),
    start(8000, 30, { runs: 3 }),
    start(1000, 5, { shape: { services: 1000, endpoints: 5, affinity: 1 } }),
  ],
  changes: CHANGE,
  changed: 40,
  connections: [1000, 10_000, 30_000],
};
const FLOWS = [
  { flows: 1000, others: 0, stale: 100 },
  { flows: 50_000, others: 0, stale: 1000 },
  { flows: 1000, others: 100_000, stale: 100 },
];

const PRODUCERS = [1000, 10_000].map((services) => ({ services, pods: 5, changes: 100, rolled: 400 }));

/** Parts that have their API server from `Trial`: the others have one of their own, or none. */
const BESIDE = [
  'cold',
  'change',
  'churn',
  'large',
  'rollout',
  'connections',
  'shapes',
  'nftables',
  'rivals',
  'traffic',
];

type Part = Exclude<keyof Results, 'servers'>;

const PARTS: { readonly [One in Part]: () => Promise<Results[One]> } = {
  cold: () => measureEach(COLD, measureCold),
  change: () => measureEach(CHANGE, (shape) => measureChange({ shape, changes: 40 })),
  churn: () => measureChurn({ shape: { services: 10_000, endpoints: 5 }, perSecond: 100, seconds: 60 }),
  large: () => measureLarge(5000),
  rollout: () => measureRollout({ services: 1100, endpoints: 5 }, 1000, 30),
  connections: () => measureEach([1000, 10_000, 30_000], measureConnections),
  shapes: () => measureShapes({ services: 10_000, endpoints: 5 }),
  flows: () => measureEach(FLOWS, measureFlows),
  producers: () => measureEach(PRODUCERS, measureProducers),
  recorder: () => measureEach(RECORDER_SHAPES, measureRecorder),
  live: () => measureEach(LIVE_READERS, measureLive),
  drift: () => measureEach(DRIFT_SHAPES, measureDrift),
  explain: async () => (await measureEach(EXPLAIN_SHAPES, measureExplain)).flat(),
  nftables: () => measureNftables(NFTABLES),
  modes: () => measureModes(1000),
  rivals: () => measureRivals({ kubeProxy }),
  traffic: () => measureTraffic([1000, 10_000], kubeProxy),
  machine: describeMachine,
};

const { words: asked, values } = commandLine({
  command: 'npm run bench',
  about:
    'Measures, and writes docs/benchmarks.md with its chart, and the figures of README.md. With parts it measures these alone; the figures of the others stay those of docs/benchmarks.json. Needs root.',
  options: {
    'kube-proxy': {
      type: 'string',
      value: 'PATH',
      help: 'the real kube-proxy, to be measured beside slicewire (parts rivals and traffic)',
    },
    'kube-apiserver': {
      type: 'string',
      value: 'PATH',
      help: 'the real API server, in the place of the made-up one (not in a virtual machine); with --etcd',
    },
    etcd: { type: 'string', value: 'PATH', help: 'keeps the objects of that API server' },
  },
  words: { name: 'PART', known: Object.keys(PARTS) },
});
const { 'kube-proxy': kubeProxy, 'kube-apiserver': kubeApiserver, etcd } = values;
for (const [option, path] of Object.entries(values)) {
  if (path !== undefined && !existsSync(path)) throw new Error(`--${option} ${path}: there is no such file`);
}
if ((kubeApiserver === undefined) !== (etcd === undefined)) {
  throw new Error('--kube-apiserver and --etcd belong together: a real API server keeps its objects in etcd');
}
if (kubeApiserver !== undefined && etcd !== undefined) useRealServer({ kubeApiserver, etcd });
const server = await serverVersion();

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
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores, ${memory} GiB, Linux ${release().replace(/-.*/, '')}, ${stdout.trim()}, Node.js ${process.versions.node}`;
}

const known = existsSync(DATA) ? (JSON.parse(readFileSync(DATA, 'utf8')) as Partial<Results>) : {};
const results: Partial<Record<keyof Results, unknown>> = { ...known };
let servers = known.servers ?? {};
for (const part of Object.keys(PARTS) as Part[]) {
  if (asked.length > 0 && part in known && !asked.includes(part)) continue;
  process.stdout.write(`${part}\n`);
  results[part] = await PARTS[part]();
  servers = { ...servers, [part]: BESIDE.includes(part) ? server : MADE_UP };
  results.servers = servers;
  // What was measured is kept, whatever becomes of the rest. Tenths of a microsecond are noise.
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1e4) / 1e4 : value);
  writeFileSync(DATA, `${JSON.stringify(results, rounded)}\n`);
}
writeFileSync(docs('benchmarks.svg'), chart(results as Results));
writeFileSync(docs('benchmarks.md'), page(results as Results));
writeFigures();
process.stdout.write(`written: ${docs('benchmarks.md')}\n`);
