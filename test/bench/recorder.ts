/**
 * The flight recorder: what it adds to a change of a slice, in processor time and in memory. The floor is the same stream of events
 * through the cache, without a recorder. `node test/bench/recorder.ts` measures it alone.
 */
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { noteChange } from '../../src/agent/feed.ts';
import { realClock } from '../../src/base/clock.ts';
import { decodeService } from '../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../src/cluster/api/decode/slice.ts';
import { Cache } from '../../src/cluster/cache/cache.ts';
import { MAX_RECORDER_BYTES, Recorder } from '../../src/inspect/history/recorder.ts';
import type { Trigger } from '../../src/inspect/history/records.ts';
import { ChangeLedger, writtenChanges } from '../../src/proxy/ledger/change-ledger.ts';
import { ChangeNumbers } from '../../src/proxy/ledger/pending-changes.ts';
import { SOURCE_KINDS, type SourceEvent } from '../../src/proxy/model/events.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { type Aim, median, ms, percent, size, table } from './text.ts';

export interface RecorderOptions {
  readonly services: number;
  /** Endpoints of each slice. */
  readonly endpoints: number;
}

export interface RecorderResult extends RecorderOptions {
  readonly changes: number;
  /** Milliseconds of processor time for each change, of each run. */
  readonly floor: readonly number[];
  readonly recorded: readonly number[];
  /** Bytes that the recorder held at the end, by its own count, and by what the process held more. */
  readonly counted: number;
  readonly held: number;
  /** Changes that its memory reaches back over. */
  readonly reach: number;
}

export const RECORDER_SHAPES: readonly RecorderOptions[] = [
  { services: 10_000, endpoints: 10 },
  { services: 10_000, endpoints: 100 },
];
const CHANGES = 6000;
const RUNS = 3;
/** Changes that one sync takes. */
const A_SYNC = 10;
/** Changes a second, and the share of a processor that they may cost. */
const RATE = 100;
const SHARE = 0.02;

export async function measureRecorder({ services, endpoints }: RecorderOptions): Promise<RecorderResult> {
  const [floor, recorded]: [number[], number[]] = [[], []];
  let [counted, held, reach] = [0, 0, 0];
  for (let run = 0; run < RUNS; run++) {
    floor.push(stream({ services, endpoints }, undefined));
    const recorder = new Recorder(realClock);
    const before = memory();
    recorded.push(stream({ services, endpoints }, recorder));
    [counted, held] = [recorder.bytes, memory() - before];
    reach = recorder.log.blocks.reduce(
      (sum, block) => sum + block.lines().filter((line) => line.startsWith('{"type":"change"')).length,
      0,
    );
  }
  return await Promise.resolve({ services, endpoints, changes: CHANGES, floor, recorded, counted, held, reach });
}

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

/** Bytes outside the heap, without garbage: the recorder's blocks are there. */
function memory(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

/** Milliseconds of processor time for each change. */
function stream({ services, endpoints }: RecorderOptions, recorder: Recorder | undefined): number {
  const cache = new Cache();
  for (let n = 0; n < services; n++) {
    cache.take(decodeService(serviceOf(n), `team-${n % 50}/app-${n}`));
    cache.take(sliceEvent(n, endpoints, 0));
  }
  for (const of of SOURCE_KINDS) cache.take({ kind: 'synced', of });
  // As in the agent, the ledger counts the changes whether somebody records them or not.
  const numbers = recorder?.numbers ?? new ChangeNumbers();
  const ledger = new ChangeLedger({ clock: realClock, hasChanges: () => cache.hasChanges, numbers });
  const tap = recorder?.tap(cache, ledger);
  const sync = (trigger: Trigger) => {
    if (tap !== undefined) recorder?.syncBegan({ trigger, by: '' }, tap);
    ledger.syncBegan();
    const changes = ledger.syncEnded(writtenChanges(REPORT));
    recorder?.syncEnded(REPORT, changes);
    ledger.confirmed();
  };
  sync('start');
  // Made before, because decoding is not what is measured.
  const events = Array.from({ length: CHANGES }, (_, i) => sliceEvent((i * 37) % services, endpoints, i + 1));
  const before = process.cpuUsage();
  for (const [i, event] of events.entries()) {
    if (event.kind !== 'slice') continue;
    cache.take(event, (was, version) => noteChange({ ledger, tap }, event, was, version));
    if (i % A_SYNC !== A_SYNC - 1) continue;
    cache.takeChanges();
    sync('changes');
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / CHANGES;
}

const WORK = { services: 1, rendered: 1, compared: 1, steps: 1 };
const TIMES = { duration: 5, reading: 0, desiring: 1, writing: 4 };
const REPORT = {
  outcome: 'complete',
  applied: 1,
  failed: [],
  skipped: [],
  drift: [],
  work: WORK,
  ...TIMES,
} as const;

function serviceOf(n: number): object {
  const clusterIP = `10.${96 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
  const spec = { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port: 80 }] };
  return service({ name: `app-${n}`, namespace: `team-${n % 50}`, spec });
}

/** At each turn one endpoint has another address, and the one before it another readiness. */
function sliceEvent(n: number, endpoints: number, turn: number): SourceEvent {
  const all = Array.from({ length: endpoints }, (_, i) => {
    const host = (n * endpoints + i + (i === turn % endpoints ? turn * 7919 : 0)) % 4_000_000;
    return {
      addresses: [`10.${128 + (host >> 16)}.${(host >> 8) & 255}.${host & 255}`],
      nodeName: `node-${(n + i) % 100}`,
      conditions: { ready: (i + 1) % endpoints !== turn % endpoints, serving: true, terminating: false },
    };
  });
  const name = `app-${n}-x7k2p`;
  const object = {
    name,
    namespace: `team-${n % 50}`,
    service: `app-${n}`,
    ports: [{ name: 'http', port: 8080 }],
    endpoints: all,
  };
  return {
    ...decodeSlice(slice(object), `team-${n % 50}/${name}`),
    ...(turn === 0 ? {} : { resourceVersion: String(10_000 + turn) }),
  };
}

/** The share of a processor at so many changes a second. */
const shareOf = ({ recorded, floor }: RecorderResult) => ((median(recorded) - median(floor)) * RATE) / 1000;

export function recorderAims(all: readonly RecorderResult[]): Aim[] {
  return all.map((result) => {
    const { services, endpoints, counted, held } = result;
    const bytes = Math.max(counted, held);
    return {
      what: 'flight recorder, processor and memory',
      at: `${size({ services, endpoints })}, ${RATE} changes a second`,
      aim: `${percent(SHARE)} and ${(MAX_RECORDER_BYTES / 2 ** 20).toFixed(0)} MB`,
      beside: `a change without it ${ms(median(result.floor), 3)}`,
      found: `${percent(shareOf(result))} and ${(bytes / 2 ** 20).toFixed(1)} MB`,
      isReached: shareOf(result) <= SHARE && bytes <= MAX_RECORDER_BYTES,
    };
  });
}

export function recorderSection(all: readonly RecorderResult[]): string {
  return `## Flight recorder

Changes of slices, one endpoint replaced and another not ready any more, ten in each sync.

- Floor: the same events through the cache, without a recorder.
- Memory: by the recorder's own count, and by what the process held more outside its heap.

${table(
  [
    'Services × endpoints',
    'a change',
    'floor',
    `processor at ${RATE} a second`,
    'memory, counted',
    'held',
    'changes in memory',
  ],
  all.map((m) => [
    size(m),
    ms(median(m.recorded), 3),
    ms(median(m.floor), 3),
    percent(shareOf(m)),
    `${(m.counted / 2 ** 20).toFixed(1)} MB`,
    `${(m.held / 2 ** 20).toFixed(1)} MB`,
    `${m.reach} of ${m.changes}`,
  ]),
)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const results: RecorderResult[] = [];
  for (const shape of RECORDER_SHAPES) results.push(await measureRecorder(shape));
  process.stdout.write(`${recorderSection(results)}\n`);
}
