/** Answers from a recording, about the state and the history of the node that recorded it. */

import { type HistoryQuery, historyOf } from '../../inspect/history/history-content.ts';
import { flightOf, type RecordedFlight } from '../../inspect/history/reading.ts';
import type { RecordingLine, StartLine } from '../../inspect/history/shapes.ts';
import { Replay } from '../../inspect/replay/replay-recording.ts';
import { API_VERSION, momentOf, NoAnswer, WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { Explanation } from '../../inspect/wire/explanation.ts';
import type { Exposure } from '../../inspect/wire/exposure.ts';
import type { History } from '../../inspect/wire/history.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import type { Status } from '../../inspect/wire/status.ts';
import type { Verification } from '../../inspect/wire/verification.ts';
import { explainParts } from './explain-past.ts';
import type { Answers, ExplainQuestion } from './queries.ts';

/** Reads the lines of the recording from their beginning. */
export type OpenRecording = () => AsyncIterable<RecordingLine>;

/** Limit of syncs that `status` lists. */
const MAX_SYNCS = 10;

export class RecordedAnswers implements Answers {
  readonly #lines: OpenRecording;

  constructor(lines: OpenRecording) {
    this.#lines = lines;
  }

  async status(): Promise<Status> {
    const flight = await flightOf(this.#lines());
    const start = startOf(flight.start);
    const { syncs } = await historyOf(flight, { most: 1 });
    const last = syncs.at(-1);
    const healthy = last === undefined ? start.isWritten : last.outcome === 'complete';
    const reason = last === undefined ? 'no sync is recorded' : `the last recorded sync is ${last.outcome}`;
    const { objects, log } = flight;
    return {
      apiVersion: API_VERSION,
      kind: 'Status',
      by: by(start, Date.parse(endOf(flight, last?.at))),
      pid: 0,
      startedAt: null,
      families: start.parts.settings.families.map(({ family }) => family),
      source: 'a recording',
      health: { live: false, ready: false, healthy, reasons: [reason, ...(last?.failed ?? [])] },
      heard: [],
      objects: { services: objects?.serviceCount ?? 0, slices: objects?.slices.count ?? 0 },
      syncs: syncs.slice(-MAX_SYNCS).reverse(),
      latency: null,
      faults: [],
      refused: [],
      drift: syncs.flatMap(({ at, by, drift }) => drift.map((one) => ({ ...one, at, by }))),
      history: { reachesBackTo: momentOf(log.reachesBackTo), bytes: 0, folder: '' },
    };
  }

  /** Replays objects, model and mode up to the moment `at`, or to the end of the recording. */
  async explain({ at, ...asked }: ExplainQuestion, signal: AbortSignal): Promise<Explanation> {
    const replay = new Replay({ signal, ...(at === undefined ? {} : { until: at }) });
    let end = 0;
    for await (const sync of replay.syncs(this.#lines())) end = sync.at;
    const { parts, recorded } = replay;
    const start = startOf(recorded);
    if (at !== undefined && at < start.at) {
      throw new WrongQuestion(`the recording begins at ${momentOf(start.at)}, after ${momentOf(at)}`);
    }
    if (parts === undefined || !parts.mode.isObserved) {
      throw new NoAnswer('the recording has no sync until then, so nothing stood in the kernel that it knows of');
    }
    const { cache } = parts;
    const about = { parts, objects: cache, recorded: start.parts, node: cache.node };
    return await explainParts(asked, { ...about, by: by(start, at ?? Math.max(end, start.at)) });
  }

  verify(): Promise<Verification> {
    throw new WrongQuestion(
      'verify compares a kernel, and a recording has none: ask the agent, or use --kubeconfig or --manifests',
    );
  }

  exposure(): Promise<Exposure> {
    throw new WrongQuestion(
      'exposure needs the present addresses of a node, and a recording has none: ask the agent, or use --kubeconfig or --manifests',
    );
  }

  async history(question: HistoryQuery): Promise<History> {
    const flight = await flightOf(this.#lines());
    const start = startOf(flight.start);
    const content = await historyOf(flight, question);
    const at = question.at ?? Date.parse(content.changes.at(-1)?.at ?? endOf(flight, undefined));
    return { apiVersion: API_VERSION, kind: 'History', by: by(start, at), ...content };
  }
}

function startOf(start: StartLine | undefined): StartLine {
  if (start === undefined) throw new NoAnswer('the recording is empty: it ends before the objects of the node');
  return start;
}

function by({ parts: { settings, nodeName, version } }: StartLine, at: number): AnsweredBy {
  return { who: 'recording', mode: settings.mode, node: nodeName, version, at: momentOf(at) };
}

function endOf({ start }: RecordedFlight, last: string | undefined): string {
  return last ?? momentOf(start?.at ?? 0);
}
