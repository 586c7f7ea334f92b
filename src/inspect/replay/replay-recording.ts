/**
 * Runs a recording through model and mode again: the same objects, in each sync exactly the changes that it took, at the recorded
 * times. Only the kernel is another one, which accepts every write.
 */

import type { Clock } from '../../base/clock.ts';
import { Cache } from '../../cluster/cache/cache.ts';
import { IptablesTools } from '../../kernel/iptables-tools.ts';
import { SOURCE_KINDS, type SourceEvent } from '../../proxy/model/events.ts';
import { Flows } from '../../proxy/model/flows.ts';
import { MODES } from '../../proxy/model/modes.ts';
import { ProxyModel } from '../../proxy/model/proxy-model.ts';
import { NOTHING_GROWS, type RampsMoment } from '../../proxy/model/ramps.ts';
import { iptablesMode } from '../../proxy/modes/iptables/index.ts';
import { ipvsMode } from '../../proxy/modes/ipvs/index.ts';
import type { Mode } from '../../proxy/modes/mode.ts';
import { nftablesMode } from '../../proxy/modes/nftables/index.ts';
import { type Plan, planText } from '../../proxy/reconcile/step.ts';
import { SyncLoop } from '../../proxy/sync/loop.ts';
import type { SyncReport } from '../../proxy/sync/sync-results.ts';
import type { Change } from '../history/delta.ts';
import { RecordingUnreadable } from '../history/frames.ts';
import { ObjectStore } from '../history/past-objects.ts';
import { planRecord } from '../history/records.ts';
import type {
  ChangeLine,
  RecordedDelta,
  RecordedParts,
  RecordingLine,
  StartLine,
  SyncLine,
} from '../history/shapes.ts';
import { kernelsInMemory, type ReplayKernels } from './kernels-in-memory.ts';

export interface ReplayedSync {
  readonly number: number;
  /** Milliseconds since 1970: when the recorded sync began. */
  readonly at: number;
  readonly trigger: string;
  /** The plans, as text. */
  readonly planText: string;
  /** undefined when the plans cannot be compared, for the reason in `why`. */
  readonly isSame: boolean | undefined;
  readonly why: string;
  /** undefined when the recorded sync wrote nothing, so that nothing was replayed. */
  readonly report: SyncReport | undefined;
}

interface ReplayOptions {
  /** Instead of kernels that accept every write. Called for each beginning in the recording. */
  readonly kernels?: (parts: RecordedParts) => ReplayKernels;
  /** Milliseconds since 1970: syncs that ended later are left out. */
  readonly until?: number;
  readonly signal: AbortSignal;
}

/** Milliseconds after the beginning of a recording in which removals that were waiting then may be due. */
const MAX_REMOVAL_DELAY_MS = 5000;

/** Replays one recording. Call `syncs` once. */
export class Replay {
  readonly #options: ReplayOptions;
  #start: ReplayStart | undefined;

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  /** The parts as they are after the last sync that was replayed; undefined before the objects are complete. */
  get parts(): ReplayedParts | undefined {
    return this.#start?.parts;
  }

  /** The recorded parts; undefined before the first line. */
  get recorded(): StartLine | undefined {
    return this.#start?.start;
  }

  /** The syncs of a recording in order. Throws RecordingUnreadable and DeltaMismatch. */
  async *syncs(lines: AsyncIterable<RecordingLine>): AsyncGenerator<ReplayedSync> {
    const { until = Number.POSITIVE_INFINITY, signal, kernels = kernelsInMemory } = this.#options;
    for await (const line of lines) {
      signal.throwIfAborted();
      if (line.type === 'start') {
        this.#start = new ReplayStart(line, kernels(line.parts));
        continue;
      }
      const beginning = this.#start;
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
  #growing: RampsMoment;
  #isFirst = true;

  constructor(start: StartLine, kernels: ReplayKernels) {
    this.start = start;
    this.#growing = start.growing ?? NOTHING_GROWS;
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
    this.parts.cache.replayGrowing(this.#growing);
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
    // Also where it is as before: endpoints of the changes would begin to grow at the time of the replay.
    this.#growing = record.growing ?? this.#growing;
    this.parts.cache.replayGrowing(this.#growing);
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
    if (isWaiting && at - this.start.at < MAX_REMOVAL_DELAY_MS) return 'removals were waiting when the recording began';
    return parts.settings.mode === 'ipvs'
      ? 'connections, which decide when IPVS removes an endpoint, are not recorded'
      : '';
  }
}

/** undefined when they seem the same and a plan has no digest. */
function areSame(
  recorded: SyncLine['record']['plans'],
  replayed: readonly { readonly steps: number; readonly digest: string }[],
): boolean | undefined {
  if (recorded.length !== replayed.length) return false;
  const hasDigests = (i: number) => recorded[i]?.digest !== '' && replayed[i]?.digest !== '';
  const isSame = recorded.every(({ steps, digest }, i) => {
    return steps === replayed[i]?.steps && (!hasDigests(i) || digest === replayed[i].digest);
  });
  return isSame && !recorded.every((_, i) => hasDigests(i)) ? undefined : isSame;
}

/** A change as the event of a source. */
function eventOf(change: Change): SourceEvent {
  if (change.kind === 'Service') return { kind: 'service', key: change.key, service: change.to, faults: [] };
  if (change.kind === 'Node') return { kind: 'node', key: change.key, node: change.to, faults: [] };
  return { kind: 'slice', key: change.key, slice: change.to, triggeredAt: 0, faults: [] };
}

/** The clocks of a replay, which show the times of the recorded sync. */
class RecordedTime {
  #wall = 0;
  #times: readonly number[] = [];
  #used = 0;
  #last = 0;

  readonly clock: Clock = {
    now: () => this.#wall,
    wall: () => this.#wall,
    // Nothing waits in a replay.
    after: () => () => undefined,
  };

  /** The times that the recorded mode read from its clock, one after another. */
  readonly modeTime = (): number => {
    this.#last = this.#times[this.#used] ?? this.#last;
    this.#used += 1;
    return this.#last;
  };

  set(wall: number, times: readonly number[]): void {
    this.#wall = wall;
    this.#times = times;
    this.#used = 0;
  }
}

/** The parts of an agent that a replay has. */
export interface ReplayedParts {
  readonly cache: Cache;
  readonly model: ProxyModel;
  readonly mode: Mode;
  readonly loop: SyncLoop;
}

interface PartsInput {
  readonly recorded: RecordedParts;
  readonly kernels: ReplayKernels;
  readonly clock: Clock;
  /** The mode's clock. */
  readonly modeTime: () => number;
  readonly onPlan: (plan: Plan) => void;
}

/** The parts over these kernels, with the settings of the recording. */
export function replayedParts({ recorded, kernels, clock, modeTime, onPlan }: PartsInput): ReplayedParts {
  const ignored = () => undefined;
  // The weights that grow are those of the recorded syncs, and no step is made.
  const cache = new Cache({ clock, onSteps: ignored, onChange: ignored });
  const { nodeName, servesExternalIPs } = recorded;
  const mode = modeOf(recorded.settings, kernels, modeTime);
  const options = { servesExternalIPs, mode: MODES[recorded.settings.mode] };
  const model = new ProxyModel({ nodeName, zone: '' }, options);
  const loop = new SyncLoop({
    cache,
    model,
    mode,
    clock,
    nodeName,
    onPlan,
    flows: new Flows((at) => model.frontend(at)),
    // Refused Services are tried again at each sync: these kernels refuse nothing that does not change.
    retry: 0,
    onFault: ignored,
    onUnread: ignored,
  });
  return { cache, model, mode, loop };
}

function modeOf(settings: RecordedParts['settings'], kernels: ReplayKernels, now: () => number): Mode {
  const { commands, sysctls } = kernels;
  const withTools = <S extends { readonly family: 'IPv4' | 'IPv6' }>(families: readonly S[]) =>
    families.map((one) => ({ settings: one, tools: new IptablesTools(commands, one.family, 'auto'), sysctls }));
  if (settings.mode === 'iptables') return iptablesMode(withTools(settings.families));
  if (settings.mode === 'nftables') {
    const families = settings.families.map((one) => ({ ...one, serviceCidrs: one.serviceCidrs ?? undefined }));
    return nftablesMode({ families, kernel: kernels.nft, now });
  }
  const { node, kernelSettings } = settings;
  return ipvsMode({
    families: withTools(settings.families),
    kernel: kernels.ipvs,
    questions: { ask: (query) => query(kernels.ipvs) },
    sysctls,
    node,
    wantedSettings: new Map(kernelSettings),
  });
}
