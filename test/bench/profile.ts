/**
 * `npm run profile`: where the time and the memory of a cold start and of churn go, by what the agent itself tells with
 * --profiling; writes dist/profile.md. The agent runs from its source, so that functions have their files.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import type { ClusterShape } from './cluster.ts';
import { table } from './text.ts';
import { Trial } from './trial.ts';

commandLine({
  command: 'npm run profile',
  about:
    'Measures where the time and the memory of a cold start and of churn go, by the profiles of the agent itself, and writes dist/profile.md. Needs root.',
});

const OUTPUT = fileURLToPath(new URL('../../dist/profile.md', import.meta.url));
const SHAPE: ClusterShape = { services: 10_000, endpoints: 5 };
const COLD_SECONDS = 10;
const CHURN_SECONDS = 20;
const PER_SECOND = 100;
const ROWS = 14;

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
}

interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: CallFrame }[];
  readonly samples: readonly number[];
  /** Microseconds. */
  readonly timeDeltas: readonly number[];
}

interface HeapNode {
  readonly callFrame: CallFrame;
  /** Bytes. */
  readonly selfSize: number;
  readonly children: readonly HeapNode[];
}

interface Share {
  readonly name: string;
  readonly amount: number;
}

type Kind = 'profile' | 'heap';

interface Profiles {
  readonly coldCpu: CpuProfile;
  readonly coldHeap: { readonly head: HeapNode };
  readonly churnCpu: CpuProfile;
  readonly churnHeap: { readonly head: HeapNode };
}

async function measure(): Promise<Profiles> {
  return await Trial.of({ shape: SHAPE, isSource: true }, async (trial) => {
    const take = async <T>(kind: Kind, seconds: number) => await takeProfile<T>(trial, kind, seconds);
    const cold = async <T>(kind: Kind) => {
      await trial.empty('node');
      const profile = take<T>(kind, COLD_SECONDS);
      const { agent } = await trial.start({ flags: ['--profiling', '--iptables-min-sync-period', '1s'] });
      return { agent, profile: await profile };
    };
    const heap = await cold<Profiles['coldHeap']>('heap');
    await heap.agent.stop();
    const cpu = await cold<CpuProfile>('profile');
    const churn = async <T>(kind: Kind, turn: number) => {
      const changes = trial.server.churn({ perSecond: PER_SECOND, seconds: CHURN_SECONDS + 2, turn });
      await pause(1000);
      const profile = await take<T>(kind, CHURN_SECONDS);
      await changes;
      return profile;
    };
    await trial.server.churn({ perSecond: PER_SECOND, seconds: 5, turn: 1 });
    const churnCpu = await churn<CpuProfile>('profile', 2);
    const churnHeap = await churn<Profiles['churnHeap']>('heap', 3);
    return { coldCpu: cpu.profile, coldHeap: heap.profile, churnCpu, churnHeap };
  });
}

/** From as soon as the agent listens. */
async function takeProfile<T>({ lab }: Trial, kind: Kind, seconds: number): Promise<T> {
  const url = `http://127.0.0.1:10249/debug/pprof/${kind}?seconds=${seconds}`;
  const asking = 'for i in $(seq 200); do curl -sf "$0" && exit; sleep 0.05; done; exit 1';
  return JSON.parse(await lab.exec('node', 'sh', '-c', asking, url)) as T;
}

function timeByFunction({ nodes, samples, timeDeltas }: CpuProfile): Share[] {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  return summed(samples.map((id, i) => ({ name: names.get(id) ?? '', amount: (timeDeltas[i] ?? 0) / 1000 })));
}

function memoryByFunction(head: HeapNode): Share[] {
  const all: Share[] = [];
  const nodes = [head];
  for (const node of nodes) {
    all.push({ name: nameOf(node.callFrame), amount: node.selfSize / 2 ** 20 });
    for (const child of node.children) nodes.push(child);
  }
  return summed(all);
}

function summed(shares: readonly Share[]): Share[] {
  const sums = new Map<string, number>();
  for (const { name, amount } of shares) sums.set(name, (sums.get(name) ?? 0) + amount);
  return [...sums].map(([name, amount]) => ({ name, amount })).sort((a, b) => b.amount - a.amount);
}

function nameOf({ functionName, url }: CallFrame): string {
  const name = functionName === '' ? '(without a name)' : functionName;
  if (url === '') return name;
  const packageName = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1];
  if (packageName !== undefined) return `all of the package ${packageName}`;
  return url.startsWith('node:') ? `all of Node.js' ${url}` : `${name}, ${basename(url)}`;
}

/** `unit` of the amounts; idle time is no cost. */
function shareTable(shares: readonly Share[], unit: string): string {
  const busy = shares.filter(({ name }) => name !== '(idle)' && name !== '(root)');
  const total = busy.reduce((sum, { amount }) => sum + amount, 0);
  const row = ({ name, amount }: Share) => [
    name,
    amount.toFixed(unit === 'MB' ? 1 : 0),
    `${((amount / total) * 100).toFixed(1)} %`,
  ];
  const rows = [...busy.slice(0, ROWS).map(row), row({ name: 'all together', amount: total })];
  return table(['function', unit, 'share'], rows);
}

function page({ coldCpu, coldHeap, churnCpu, churnHeap }: Profiles): string {
  return `# Profile

${SHAPE.services.toLocaleString('en')} Services of ${SHAPE.endpoints} endpoints from an API server, iptables-nft, the agent from its source
(Node.js strips types and loads packages file by file, which the executable does not do).
The profiles are those of \`/debug/pprof\`, which any agent with \`--profiling\` serves: open them with Chrome's developer tools.
The tables have functions' own time and own memory; packages and modules of Node.js are taken as a whole.

## Cold start: time

${COLD_SECONDS} s from the moment when the agent first listens, in milliseconds.

${shareTable(timeByFunction(coldCpu), 'ms')}

## Cold start: memory

Memory allocated in the same time and still in use at its end, sampled.

${shareTable(memoryByFunction(coldHeap.head), 'MB')}

## Churn: time

${PER_SECOND} changes a second for ${CHURN_SECONDS} s, minSyncPeriod 1 s; milliseconds in these ${CHURN_SECONDS} s.

${shareTable(timeByFunction(churnCpu), 'ms')}

## Churn: memory

Memory allocated in the same time and still in use at its end.

${shareTable(memoryByFunction(churnHeap.head), 'MB')}

## Findings

- A cold start waits for the tool, not for the agent: the agent computes for two or three seconds, mostly while lists are still arriving.
  So it writes the rules in portions (a third of the tool's time), and at a restart reads them while the lists arrive.
- Garbage collection was the longest step that held the event loop: one collection after the first sync gave memory back, in 0.2 s for each 100 MB.
  V8's memory reducer does it now, in small steps beside the program, and the room for young objects does not grow.
- A third of a cold start was garbage collection, because each Service was some thirty objects that survived.
  Objects are packed now, each one short text ([design-notes.md](../docs/design-notes.md)).
- Planning was next: each rule was searched from its start to find the chain that it refers to. The rule's last word names it.
- With JSON, parsing the lists and checking their schema cost about as much as rendering all rules.
  Hence protobuf, whose unused fields are skipped. Objects are decoded one by one, with a breath of the event loop after 8 ms.
- Names of chains are hashes; all chains of a Service share one hash, which is now computed once.
- Under churn no function stands out: a change is parsed, rendered and written, and the writing processes are most of the cost.
  The memory that remains after it is replaced objects that are not collected yet.
`;
}

const text = page(await measure());
mkdirSync(dirname(OUTPUT), { recursive: true });
writeFileSync(OUTPUT, text);
process.stdout.write(`written: ${OUTPUT}\n`);
