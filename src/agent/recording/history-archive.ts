/** The history of this agent: from memory, and from the folder of --record-dir for what was before. */

import { type HistoryContent, type HistoryQuery, historyOf } from '../../inspect/history/history.ts';
import { beforeHistory, type FlightData, objectsAt } from '../../inspect/history/past.ts';
import type { ObjectStore } from '../../inspect/history/past-objects.ts';
import type { Recorder } from '../../inspect/history/recorder.ts';
import { momentOf } from '../../inspect/wire/envelope.ts';
import { type RecordFolder, type SegmentFile, segmentLines } from './record-folder.ts';

export interface HistoryArchiveOptions {
  readonly recorder: Recorder;
  /** undefined: without --record-dir. */
  readonly folder: () => RecordFolder | undefined;
  /** A segment was damaged at its end. */
  readonly onProblem: (text: string) => void;
}

/** Changes that are listed where the question says nothing else. */
const DEFAULT_CHANGES = 200;

export class HistoryArchive {
  readonly #options: HistoryArchiveOptions;

  constructor(options: HistoryArchiveOptions) {
    this.#options = options;
  }

  /** Throws BeforeHistory when nothing is known of the question's moment. */
  async history(question: HistoryQuery): Promise<HistoryContent> {
    const { recorder } = this.#options;
    const { at = Number.POSITIVE_INFINITY } = question;
    const since = question.since ?? (await this.#beforeRestart(question));
    if (Math.min(since, at) >= recorder.log.reachesBackTo) return await historyOf(recorder, question);
    const stood = await this.flightAt(Math.min(at, Number.MAX_SAFE_INTEGER));
    const older = (await this.#segmentsFrom(Math.min(since, at))).filter(({ startedAt }) => startedAt <= at);
    const changesOnly = { ...question, at: undefined, until: at };
    const answers: HistoryContent[] = [];
    for (const segment of older) answers.push(await historyOf(await this.#flight(segment), changesOnly));
    answers.push(await historyOf(recorder, changesOnly));
    const answer = merged(answers, question.most ?? DEFAULT_CHANGES);
    if (question.at === undefined) return answer;
    return { ...answer, stood: (await historyOf(stood, question)).stood };
  }

  /**
   * Where the memory alone cannot fill the answer: the beginning of the last segment that is older than the memory, such as that of the
   * agent before a restart. Otherwise infinity.
   */
  async #beforeRestart({ service, at, most = DEFAULT_CHANGES }: HistoryQuery): Promise<number> {
    const { recorder, folder } = this.#options;
    const { reachesBackTo } = recorder.log;
    if (at !== undefined) return Number.POSITIVE_INFINITY;
    // The last one is being written, and began with this agent or later.
    const finished = ((await folder()?.segments()) ?? []).slice(0, -1);
    const before = finished.findLast(({ startedAt }) => startedAt < reachesBackTo);
    if (before === undefined) return Number.POSITIVE_INFINITY;
    const { changes } = await historyOf(recorder, { ...(service === undefined ? {} : { service }), most });
    return changes.length < most ? before.startedAt : Number.POSITIVE_INFINITY;
  }

  /** The objects as they were in the kernel. `moment`: milliseconds since 1970. Throws BeforeHistory. */
  async objectsAt(moment: number): Promise<ObjectStore> {
    return await objectsAt(await this.flightAt(moment), moment);
  }

  /** The history that knows of this moment. Throws BeforeHistory. */
  async flightAt(moment: number): Promise<FlightData> {
    const { recorder } = this.#options;
    if (moment >= recorder.log.reachesBackTo) return recorder;
    const folder = this.#options.folder();
    const segments = (await folder?.segments()) ?? [];
    // A segment that began before its first sync does not know what was in the kernel until then: the one before does.
    for (const segment of segments.filter(({ startedAt }) => startedAt <= moment).reverse()) {
      const flight = await this.#flight(segment);
      // A crash may have torn its first objects.
      if (flight.objects !== undefined && flight.log.reachesBackTo <= moment) return flight;
    }
    const [oldest] = segments;
    const reach = oldest === undefined ? recorder.log.reachesBackTo : (await this.#flight(oldest)).log.reachesBackTo;
    throw beforeHistory(reach, folder === undefined ? '--record-dir' : '--record-size');
  }

  /** The segment with this moment, and all later ones. */
  async #segmentsFrom(moment: number): Promise<SegmentFile[]> {
    const segments = (await this.#options.folder()?.segments()) ?? [];
    const first = segments.findLastIndex(({ startedAt }) => startedAt <= moment);
    return segments.slice(Math.max(0, first));
  }

  async #flight(segment: SegmentFile): Promise<FlightData> {
    // Loaded only here: its schemas cost memory, and few agents are asked about the past.
    const { flightOf } = await import('../../inspect/history/reading.ts');
    return await flightOf(segmentLines(segment, this.#options.onProblem));
  }
}

/** Answers about parts of the history, in order, as one. Where parts overlap, the later one knows more. */
function merged(answers: readonly HistoryContent[], most: number): HistoryContent {
  const changes = new Map(
    answers.flatMap((answer) => answer.changes).map((one) => [`${one.at} ${one.number} ${one.object}`, one]),
  );
  const syncs = new Map(answers.flatMap((answer) => answer.syncs).map((one) => [`${one.at} ${one.number}`, one]));
  const listed = [...changes.values()];
  const [first] = answers;
  return {
    service: first?.service ?? '',
    reachesBackTo: first?.reachesBackTo ?? momentOf(0),
    changes: listed.slice(-most),
    syncs: [...syncs.values()].slice(-most),
    omitted: answers.reduce((sum, { omitted }) => sum + omitted, Math.max(0, listed.length - most)),
    stood: [],
  };
}
