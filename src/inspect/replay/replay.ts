/**
 * Runs a recording through model and mode again: the same objects, in each sync exactly the changes that it took, at the recorded
 * times. Only the kernel is another one: it takes every write.
 */

import type { Clock } from '../../base/clock.ts';
import { SOURCE_KINDS, type SourceEvent } from '../../proxy/model/events.ts';
import { type Plan, planText } from '../../proxy/reconcile/step.ts';
import type { SyncReport } from '../../proxy/sync/sync-results.ts';
import type { Change } from '../history/delta.ts';
import { RecordingUnreadable } from '../history/frames.ts';
import { ObjectStore } from '../history/past-objects.ts';
import type {
  ChangeLine,
  RecordedDelta,
  RecordedParts,
  RecordingLine,
  StartLine,
  SyncLine,
} from '../history/shapes.ts';
import { planRecord } from '../history/sync-record.ts';
import { believingKernels, type ReplayedParts, type ReplayKernels, replayedParts } from './replayed-parts.ts';

export interface ReplayedSync {
  readonly number: number;
  /** Milliseconds since 1970: when the recorded sync began. */
  readonly at: number;
  readonly trigger: string;
  /** The plans, as text. */
  readonly planText: string;
  /** undefined: they cannot be compared; `why` says why not. */
  readonly isSame: boolean | undefined;
  readonly why: string;
  /** undefined: the recorded sync wrote nothing, so nothing was replayed. */
  readonly report: SyncReport | undefined;
}

export interface ReplayOptions {
  /** Instead of kernels that take every write. Called for each beginning in the recording. */
  readonly kernels?: (parts: RecordedParts) => ReplayKernels;
  /** Milliseconds since 1970: syncs that ended later are left out. */
  readonly until?: number;
  readonly signal: AbortSignal;
}

/** Milliseconds after the beginning of a recording in which removals that were waiting then may be due. */
const WAITING = 5000;

/** Replays one recording. Call `syncs` once. */
export class Replay {
  readonly #options: ReplayOptions;
  #beginning: ReplayStart | undefined;

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  /** The parts as they are after the last sync that was replayed; undefined before the objects are complete. */
  get parts(): ReplayedParts | undefined {
    return this.#beginning?.parts;
  }

  /** The recorded parts; undefined before the first line. */
  get recorded(): StartLine | undefined {
    return this.#beginning?.start;
  }

  /** The syncs of a recording in order. Throws RecordingUnreadable and DeltaMismatch. */
  async *syncs(lines: AsyncIterable<RecordingLine>): AsyncGenerator<ReplayedSync> {
    const { until = Number.POSITIVE_INFINITY, signal, kernels = believingKernels } = this.#options;
    for await (const line of lines) {
      signal.throwIfAborted();
      if (line.type === 'start') {
        this.#beginning = new ReplayStart(line, kernels(line.parts));
        continue;
      }
      const beginning = this.#beginning;
      if (beginning === undefined)
        throw new RecordingUnreadable('the recording does not begin with the objects of the node');
      if (line.type === 'object') beginning.take(line.delta);
      else if (line.type === 'started') await beginning.complete(signal);
      else if (line.type === 'change') beginning.changes.push(line);
      else if (line.record.endedAt <= until) yield await beginning.sync(line, signal);
    }
  }
}

/** The syncs from one beginning in a recording to the next. */
class ReplayStart {
  readonly start: StartLine;
  readonly parts: ReplayedParts;
  /** Changes that no sync has taken yet. */
  readonly changes: ChangeLine[] = [];
  readonly #store = new ObjectStore();
  readonly #time = new RecordedTime();
  #plans: Plan[] = [];
  #isFirst = true;

  constructor(start: StartLine, kernels: ReplayKernels) {
    this.start = start;
    const onPlan = (plan: Plan) => this.#plans.push(plan);
    const { clock, modeTime } = this.#time;
    this.parts = replayedParts({ recorded: start.parts, kernels, clock, modeTime, onPlan });
  }

  take(delta: RecordedDelta): void {
    this.parts.cache.take(eventOf(this.#store.apply(delta)));
  }

  /** All objects are there. Where they were in the kernel, they are written now. */
  async complete(signal: AbortSignal): Promise<void> {
    for (const of of SOURCE_KINDS) this.parts.cache.take({ kind: 'synced', of });
    this.#time.set(this.start.at, []);
    if (this.start.isWritten) await this.parts.loop.sync(signal);
  }

  async sync({ record }: SyncLine, signal: AbortSignal): Promise<ReplayedSync> {
    const { number, at, trigger, upTo, hasWritten, milliseconds, times } = record;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    while ((this.changes[0]?.number ?? Number.POSITIVE_INFINITY) <= upTo) {
      const change = this.changes.shift();
      if (change !== undefined) this.take(change.delta);
    }
    const facts = { number, at, trigger };
    if (!hasWritten) {
      const why = 'the recorded sync failed: its changes follow with the next one';
      return { ...facts, planText: '', isSame: undefined, why, report: undefined };
    }
    this.#time.set(at, times);
    this.#plans = [];
    if (milliseconds.reading > 0) this.parts.loop.distrust();
    const report = await this.parts.loop.sync(signal);
    const plans = this.#plans;
    const isSame = areSame(record.plans, plans.map(planRecord));
    const unknown = this.#whyUnknown(record, isFirst);
    const comparable = isSame === true || unknown === '';
    return {
      ...facts,
      planText: plans.map(planText).join('\n\n'),
      isSame: comparable ? isSame : undefined,
      why: comparable ? '' : unknown,
      report,
    };
  }

  /** Why the plan may be another one than the recorded one; "" when it must be the same. */
  #whyUnknown({ at, trigger, drift, outcome }: SyncLine['record'], isFirst: boolean): string {
    const { isWritten, isWaiting, parts } = this.start;
    if (isFirst && (isWritten || trigger === 'start')) return 'the first plan depends on what the kernel had';
    if (drift.length > 0) return 'another program had changed rules';
    if (outcome !== 'complete') return 'the kernel refused a part';
    if (isWaiting && at - this.start.at < WAITING) return 'removals were waiting when the recording began';
    return parts.settings.mode === 'ipvs'
      ? 'connections, which decide when IPVS removes an endpoint, are not recorded'
      : '';
  }
}

/** undefined: a recorded plan has no digest. */
function areSame(
  recorded: SyncLine['record']['plans'],
  replayed: readonly { readonly steps: number; readonly digest: string }[],
): boolean | undefined {
  if (recorded.length !== replayed.length) return false;
  const isSame = recorded.every(({ steps, digest }, i) => {
    return steps === replayed[i]?.steps && (digest === '' || digest === replayed[i].digest);
  });
  return isSame && recorded.some(({ digest }) => digest === '') ? undefined : isSame;
}

/** The event that makes the cache take a change. */
function eventOf(change: Change): SourceEvent {
  if (change.kind === 'Service') return { kind: 'service', key: change.key, service: change.to, faults: [] };
  if (change.kind === 'Node') return { kind: 'node', key: change.key, node: change.to, faults: [] };
  return { kind: 'slice', key: change.key, slice: change.to, triggeredAt: 0, faults: [] };
}

/** Clocks that show the times of the recorded sync. */
class RecordedTime {
  #wall = 0;
  #times: readonly number[] = [];
  #read = 0;
  #last = 0;

  readonly clock: Clock = {
    now: () => this.#wall,
    wall: () => this.#wall,
    // Nothing waits in a replay.
    after: () => () => undefined,
  };

  /** What the recorded mode read from its clock, one after another. */
  readonly modeTime = (): number => {
    this.#last = this.#times[this.#read] ?? this.#last;
    this.#read += 1;
    return this.#last;
  };

  set(wall: number, times: readonly number[]): void {
    this.#wall = wall;
    this.#times = times;
    this.#read = 0;
  }
}
