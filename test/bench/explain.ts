/**
 * What an answer of `slicewire explain` costs at many Services, in this process, over kernels in memory, from what a mode believes. The
 * answers are those of `explain`; the floor is a single walk through the rules. `node test/bench/explain.ts` measures this alone.
 */

import { setImmediate } from 'node:timers/promises';
import type { Address } from '../../src/base/address.ts';
import { type ExplainRequest, explain } from '../../src/inspect/explain/explain.ts';
import type { ExplainFacts } from '../../src/inspect/explain/facts.ts';
import { walk } from '../../src/inspect/explain/walk.ts';
import { WrongQuestion } from '../../src/inspect/wire/envelope.ts';
import type { ModeName } from '../../src/proxy/model/modes.ts';
import { askedNode, MODES } from '../helpers/inspect/explain/asking.ts';
import { type ClusterShape, clusterIP, FIRST, serviceKey, serviceOf, sliceCount, sliceOf } from './cluster.ts';
import { type Aim, median, most, ms, ratio, size, table } from './text.ts';

export interface ExplainResult {
  readonly shape: ClusterShape;
  readonly mode: ModeName;
  /** Milliseconds of an answer about a cluster IP. */
  readonly answer: readonly number[];
  /** About an address that no Service has: all Services are looked at. */
  readonly nobody: readonly number[];
  /** About a Service that does not exist: the nearest name is looked for. */
  readonly wrong: readonly number[];
  /** Of one walk through the rules. */
  readonly floor: readonly number[];
  /** The longest time in milliseconds between two breaths, of all answers. */
  readonly longest: number;
}

const QUESTIONS = 100;
const CLIENT = '10.244.1.99' as Address;

export async function measureExplain(shape: ClusterShape): Promise<ExplainResult[]> {
  const results: ExplainResult[] = [];
  for (const mode of MODES) results.push(await measureMode(shape, mode));
  return results;
}

async function measureMode(shape: ClusterShape, mode: ModeName): Promise<ExplainResult> {
  const node = askedNode(mode);
  for (let n = 0; n < shape.services; n++) {
    node.rig.put(serviceOf(shape, n));
    for (let at = 0; at < sliceCount(shape, n); at++) node.rig.put(sliceOf(shape, n, at));
  }
  await node.rig.sync();
  const breaths = new Breaths();
  const facts: ExplainFacts = { ...node.facts(), yieldToEventLoop: () => breaths.take() };
  const chosen = Array.from({ length: QUESTIONS }, (_, i) => FIRST + ((i * 7919) % (shape.services - FIRST)));
  const timed = async (to: (n: number) => string) => {
    const times: number[] = [];
    for (const n of chosen)
      times.push(await breaths.during(() => asked({ from: CLIENT, to: to(n), rules: true }, facts)));
    return times;
  };
  const answer = await timed((n) => `${clusterIP(n)}:80`);
  const nobody = await timed(() => '10.95.0.1:80');
  const wrong = await timed((n) => `svc/${serviceKey(shape, n)}x`);
  return { shape, mode, answer, nobody, wrong, floor: floorOf(chosen, facts), longest: breaths.longest };
}

async function asked(question: ExplainRequest, facts: ExplainFacts): Promise<void> {
  try {
    await explain(question, facts);
  } catch (error) {
    if (!(error instanceof WrongQuestion)) throw error;
  }
}

function floorOf(chosen: readonly number[], { families }: ExplainFacts): number[] {
  const family = families.get('IPv4');
  if (family === undefined) throw new Error('the node serves IPv4');
  const { installed, localAddresses } = family;
  const packet = { protocol: 'TCP', source: CLIENT, port: 80, device: 'veth0', state: 'NEW' } as const;
  return chosen.map((n) => {
    const since = performance.now();
    walk(installed, { ...packet, destination: clusterIP(n) as Address }, { localAddresses, remembered: new Set() });
    return performance.now() - since;
  });
}

/** The times between the breaths of an answer. */
class Breaths {
  longest = 0;
  #since = 0;

  async take(): Promise<void> {
    this.#note();
    await setImmediate();
    this.#since = performance.now();
  }

  /** The milliseconds of an answer. */
  async during(answer: () => Promise<void>): Promise<number> {
    const start = performance.now();
    this.#since = start;
    await answer();
    this.#note();
    return performance.now() - start;
  }

  #note(): void {
    this.longest = Math.max(this.longest, performance.now() - this.#since);
  }
}

/** For the page of the benchmarks. */
export function explainSection(all: readonly ExplainResult[]): string {
  return `## Explanations

\`slicewire explain --rules\` in the agent's process, from its memory, ${QUESTIONS} questions of each kind.

- Cluster IP: a connection of a Pod to a cluster IP.
- No answer: an address that no Service has; all Services are looked at for near misses.
- Wrong name: a Service that does not exist; the nearest name is looked for.
- Floor: one walk through the rules. An answer has at least two: what stands, and what is desired.
- Longest: the longest time that an answer held the event loop.

${table(
  [
    'Services × endpoints',
    'mode',
    'cluster IP',
    'most',
    'nobody',
    'wrong name',
    'floor',
    'cluster IP / floor',
    'longest',
  ],
  all.map((m) => [
    size(m.shape),
    m.mode,
    ms(median(m.answer), 2),
    ms(most(m.answer), 2),
    ms(median(m.nobody), 2),
    ms(median(m.wrong), 2),
    ms(median(m.floor), 2),
    ratio(median(m.answer), median(m.floor)),
    ms(m.longest, 1),
  ]),
)}`;
}

/** The limits of the answers at 10,000 Services. */
export function explainAims(all: readonly ExplainResult[]): Aim[] {
  const [largest] = [...all].sort((a, b) => b.shape.services - a.shape.services);
  if (largest === undefined) return [];
  const at = all.filter(({ shape }) => shape.services === largest.shape.services);
  const slowest = Math.max(...at.map(({ answer, nobody, wrong }) => most([...answer, ...nobody, ...wrong])));
  const longest = Math.max(...at.map((m) => m.longest));
  const where = size(largest.shape);
  const beside = `one walk ${ms(Math.max(...at.map(({ floor }) => median(floor))), 2)}`;
  return [
    { what: 'an answer of explain', at: where, aim: '200 ms', found: ms(slowest, 1), beside, isReached: slowest < 200 },
    {
      what: 'it holds the event loop',
      at: where,
      aim: '50 ms',
      found: ms(longest, 1),
      beside,
      isReached: longest < 50,
    },
  ];
}

export const EXPLAIN_SHAPES: readonly ClusterShape[] = [
  { services: 1000, endpoints: 5 },
  { services: 10_000, endpoints: 5 },
];

if (import.meta.main) {
  const results: ExplainResult[] = [];
  for (const shape of EXPLAIN_SHAPES) results.push(...(await measureExplain(shape)));
  process.stdout.write(`${explainSection(results)}\n`);
}
