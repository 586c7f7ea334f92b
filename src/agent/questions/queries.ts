/**
 * Answers the queries about the proxy: `status`, `verify`, `explain`, `history`, `exposure`, and recordings. The agent answers about itself; a
 * command without an agent answers from the source and the kernel. Nothing here writes to the kernel.
 */

import type { Cache } from '../../cluster/cache/cache.ts';
import type { ExplainRequest } from '../../inspect/explain/explain.ts';
import { nearestService } from '../../inspect/explain/nearest.ts';
import { flightStatus, type HistoryQuery } from '../../inspect/history/history-content.ts';
import { recordingStream, rememberedRecording } from '../../inspect/history/recording-writer.ts';
import { API_VERSION, NoAnswer, WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { Explanation } from '../../inspect/wire/explanation.ts';
import type { Exposure } from '../../inspect/wire/exposure.ts';
import { countText } from '../../inspect/wire/format.ts';
import type { History } from '../../inspect/wire/history.ts';
import type { Status } from '../../inspect/wire/status.ts';
import type { Verification, VerifiedDifference } from '../../inspect/wire/verification.ts';
import { routeTo } from '../../kernel/devices.ts';
import type { Comparison } from '../../proxy/modes/inspection.ts';
import { recordingContext } from '../recording/recordings.ts';
import type { KubeProxyRules } from './kube-proxy-rules.ts';
import { FewAtATime, OneAtATime } from './one-at-a-time.ts';
import { answeredByOf, presentAgent, type QueryParts, recorderOf, refusedServices, relayOf } from './query-parts.ts';
import { sourceText, statusOf } from './status-answer.ts';

export interface ExplainQuestion extends ExplainRequest {
  /** The moment to explain, in milliseconds since 1970; undefined for now. */
  readonly at?: number | undefined;
}

/** The answers of an agent, a command or a recording. Each throws WrongQuestion, NoAnswer, and the signal's reason. */
export interface Answers {
  status(): Status | Promise<Status>;
  explain(question: ExplainQuestion, signal: AbortSignal): Promise<Explanation>;
  verify(signal: AbortSignal): Promise<Verification>;
  history(question: HistoryQuery, signal: AbortSignal): Promise<History>;
  exposure(signal: AbortSignal): Promise<Exposure>;
}

/** Limit of simultaneous recordings: each may keep 32 MB for a slow reader. */
export const MAX_RECORDINGS = 4;

/** Limit for a reading of all rules beside syncs, in milliseconds. Syncs wait for one that takes longer. */
export const MAX_DISTURBED_MS = 8000;

export class Queries implements Answers {
  readonly #parts: QueryParts;
  readonly #explaining = new OneAtATime('explain');
  readonly #verifying = new OneAtATime('verify');
  /** History, and explain of the past. */
  readonly #searching = new OneAtATime('history');
  readonly #exposing = new OneAtATime('exposure');
  readonly #recording = new FewAtATime('recordings', MAX_RECORDINGS);

  constructor(parts: QueryParts) {
    this.#parts = parts;
  }

  status(): Status {
    const { clock, startedAt, config, feed, agent, health } = this.#parts;
    const recorder = recorderOf(this.#parts);
    const { cache, watches, ledger } = feed();
    const present = agent();
    return statusOf({
      by: answeredByOf(this.#parts),
      startedAt,
      families: present?.onNode.families ?? [],
      source: sourceText(config().source),
      health: health(),
      watches: watches(),
      wallAtZero: clock.wall() - clock.now(),
      ...(this.#parts.who === 'agent' ? { programmed: ledger.marks } : {}),
      objects: { services: cache.serviceCount, slices: cache.slices.count },
      faults: [...cache.faults.all, ...(present?.loop.faults.all ?? [])],
      refused: refusedServices(present),
      flight: recorder && flightStatus(recorder, { now: clock.wall(), folder: config().recording?.folder ?? '' }),
    });
  }

  /** Throws WrongQuestion, NoAnswer, the errors of reading the kernel, and the signal's reason. */
  explain(question: ExplainQuestion, signal: AbortSignal): Promise<Explanation> {
    const { at, ...asked } = question;
    // A disk that hangs holds up questions about the past, each of which may take a thread of Node.js, and none about now.
    const queue = at === undefined ? this.#explaining : this.#searching;
    return queue.run(signal, async () => {
      const { who, config, recordings } = this.#parts;
      const by = answeredByOf(this.#parts, at);
      const agent = presentAgent(this.#parts);
      if (at !== undefined) {
        mustRecord(recordings);
        const objects = await recordings.archive.objectsAt(at);
        const recorded = recordingContext(() => agent, config).parts();
        const { explainPast } = await import('./explain-past.ts');
        // Routes are not recorded; the present ones are the likeliest.
        return await explainPast(asked, { by, objects, recorded, routeTo }, signal);
      }
      const knowsPods = who === 'command' || config().source.kind === 'manifests';
      const of = await this.#parts.of?.(signal);
      const { explainNow } = await import('./explain-now.ts');
      return await explainNow(
        asked,
        { by, agent, recorder: recorderOf(this.#parts), knowsPods, relay: relayOf(this.#parts), of },
        signal,
      );
    });
  }

  /** A recording of the agent's memory, or of the changes from now on until the signal aborts. Throws WrongQuestion, NoAnswer. */
  recording(of: 'remembered' | AbortSignal): AsyncIterable<Uint8Array> {
    const { recordings, config } = this.#parts;
    mustRecord(recordings);
    presentAgent(this.#parts);
    const { recorder } = recordings;
    const context = recordingContext(() => presentAgent(this.#parts), config);
    const pieces =
      of === 'remembered' ? rememberedRecording(recorder, context) : recordingStream(recorder, context, of);
    return this.#recording.pass(pieces);
  }

  /** Throws NoAnswer, the errors of reading the kernel, and the signal's reason. */
  verify(signal: AbortSignal): Promise<Verification> {
    return this.#verifying.run(signal, async () => {
      const of = await this.#parts.of?.(signal);
      if (of !== undefined) return await this.#verifyOthers({ of, signal });
      const comparison = await this.#compared(signal);
      const { verificationOf } = await import('../../inspect/explain/verify.ts');
      return verificationOf(comparison, answeredByOf(this.#parts));
    });
  }

  async #verifyOthers({
    of,
    signal,
    senders = 'all',
  }: {
    readonly of: KubeProxyRules;
    readonly signal: AbortSignal;
    readonly senders?: 'all' | 'outside';
  }): Promise<Verification> {
    const { factsAbout } = await import('./explain-now.ts');
    const { verifyWalks } = await import('../../inspect/explain/verify-walks.ts');
    const about = { by: answeredByOf(this.#parts), agent: presentAgent(this.#parts), recorder: undefined };
    const facts = await factsAbout({ ...about, knowsPods: false, relay: relayOf(this.#parts), of });
    return await verifyWalks({ facts, served: await of.served(), senders, signal });
  }

  /** The kernel starts the list of its rules again whenever they change. So a reading that finds no end between syncs is made while they wait. */
  async #compared(signal: AbortSignal): Promise<Comparison> {
    const { mode, loop, kernelLock } = presentAgent(this.#parts);
    const compare = (until: AbortSignal) => mode.inspection.compare(until, new Set(loop.refused.keys()));
    // Begin after the sync that runs.
    await kernelLock.between(() => Promise.resolve());
    const disturbed = new AbortController();
    const cancel = this.#parts.clock.after(MAX_DISTURBED_MS, () => disturbed.abort(new Error('syncs disturb it')));
    try {
      return await compare(AbortSignal.any([signal, disturbed.signal]));
    } catch (error) {
      if (!disturbed.signal.aborted || signal.aborted) throw error;
      return await kernelLock.between(() => compare(signal));
    } finally {
      cancel();
    }
  }

  /** Throws WrongQuestion, NoAnswer and the signal's reason. */
  history(question: HistoryQuery, signal: AbortSignal): Promise<History> {
    return this.#searching.run(signal, async () => {
      const { recordings } = this.#parts;
      mustRecord(recordings);
      const content = await recordings.archive.history(question);
      const { service } = question;
      if (service !== undefined && content.changes.length === 0) mustBeKnown(service, this.#parts.feed().cache);
      return { apiVersion: API_VERSION, kind: 'History', by: answeredByOf(this.#parts, question.at), ...content };
    });
  }

  /** Throws NoAnswer, NetlinkError when the addresses of this node cannot be read, and the signal's reason. */
  exposure(signal: AbortSignal): Promise<Exposure> {
    return this.#exposing.run(signal, async () => {
      const agent = presentAgent(this.#parts);
      const { exposureNow } = await import('./exposure-now.ts');
      const { strictArp } = this.#parts.config().ipvs;
      const exposure = await exposureNow(
        { by: answeredByOf(this.#parts), agent, strictArp, relay: relayOf(this.#parts) },
        signal,
      );
      const of = await this.#parts.of?.(signal);
      if (of === undefined) return exposure;
      const found = await this.#verifyOthers({ of, signal, senders: 'outside' });
      return { ...exposure, problems: [...exposure.problems, ...outsideProblems(found)] };
    });
  }
}

/** Throws WrongQuestion where nothing is recorded, and NoAnswer after the recorder stopped, because a history with a gap would be wrong. */
function mustRecord(recordings: QueryParts['recordings']): asserts recordings is NonNullable<typeof recordings> {
  if (recordings === undefined) throw new WrongQuestion(NO_HISTORY);
  const { fault } = recordings;
  if (fault !== undefined)
    throw new NoAnswer(`the flight recorder stopped: ${fault}; restart the agent to record again`);
}

/** Throws WrongQuestion when there is no such Service. */
function mustBeKnown(key: string, objects: Pick<Cache, 'service' | 'byName'>): void {
  if (objects.service(key) !== undefined) return;
  const near = nearestService(key, objects.byName.keys());
  const meant = near === undefined ? '' : `; did you mean ${near}?`;
  throw new WrongQuestion(`there is no Service ${key}, and there was none in this time${meant}`);
}

/** Connections from outside that the rules of another proxy lead elsewhere than the list says, which is made from the objects. */
function outsideProblems({
  differences,
  count,
  onPurpose = [],
  onPurposeCount = 0,
  notes = [],
}: Verification): string[] {
  const more = count + onPurposeCount - differences.length - onPurpose.length;
  const left = more === 0 ? [] : [`${countText(more, 'more connection')} from outside go elsewhere.`];
  return [
    ...differences.map((one) => outsideProblem(one, 'should be')),
    ...onPurpose.map((one) => outsideProblem(one, 'with slicewire is')),
    ...left,
    ...notes.map((note) => `Note: ${note}.`),
  ];
}

function outsideProblem({ object, found, wanted, causes = [] }: VerifiedDifference, other: string): string {
  return [`A connection ${object} is ${found.join(', ')}, and ${other} ${wanted.join(', ')}.`, ...causes].join(' ');
}

const NO_HISTORY =
  'only a running agent or a recording has a history: leave out the source of objects, or use --recording FILE';
