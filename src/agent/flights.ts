/** The history of this agent: from memory, and from the folder of --record-dir for what was before. */
import { type HistoryContent, type HistoryQuestion, historyOf } from '../history/history.ts';
import { BeforeHistory, type FlightData, objectsAt } from '../history/past.ts';
import type { Recorder } from '../history/recorder.ts';
import type { ObjectStore } from '../history/store.ts';
import { type RecordFolder, type SegmentFile, segmentLines } from './record-folder.ts';

export interface FlightsOptions {
  readonly recorder: Recorder;
  /** undefined: without --record-dir. */
  readonly folder: () => RecordFolder | undefined;
  /** A segment was damaged at its end. */
  readonly onProblem: (text: string) => void;
}

/** Changes that are listed where the question says nothing else. */
const MOST = 200;

export class Flights {
  readonly #options: FlightsOptions;

  constructor(options: FlightsOptions) {
    this.#options = options;
  }

  /** Throws BeforeHistory when nothing is known of the question's moment. */
  async history(question: HistoryQuestion): Promise<HistoryContent> {
    const { recorder } = this.#options;
    const { since = Number.POSITIVE_INFINITY, at = Number.POSITIVE_INFINITY } = question;
    if (Math.min(since, at) >= recorder.log.reachesBackTo) return await historyOf(recorder, question);
    const stood = await this.flightAt(Math.min(at, Number.MAX_SAFE_INTEGER));
    const older = (await this.#segmentsFrom(Math.min(since, at))).filter(({ startedAt }) => startedAt <= at);
    const changesOnly = { ...question, at: undefined, until: at };
    const answers: HistoryContent[] = [];
    for (const segment of older) answers.push(await historyOf(await this.#flight(segment), changesOnly));
    answers.push(await historyOf(recorder, changesOnly));
    const answer = merged(answers, question.most ?? MOST);
    if (question.at === undefined) return answer;
    return { ...answer, stood: (await historyOf(stood, question)).stood };
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
      if (flight.log.reachesBackTo <= moment) return flight;
    }
    const [oldest] = segments;
    const reach = oldest === undefined ? recorder.log.reachesBackTo : (await this.#flight(oldest)).log.reachesBackTo;
    const more = folder === undefined ? '--record-dir keeps more of it' : '--record-size keeps more of it';
    throw new BeforeHistory(`history reaches back to ${new Date(reach).toISOString()}; ${more}`);
  }

  /** The segment with this moment, and all later ones. */
  async #segmentsFrom(moment: number): Promise<SegmentFile[]> {
    const segments = (await this.#options.folder()?.segments()) ?? [];
    const first = segments.findLastIndex(({ startedAt }) => startedAt <= moment);
    return segments.slice(Math.max(0, first));
  }

  async #flight(segment: SegmentFile): Promise<FlightData> {
    // Loaded only here: its schemas cost memory, and few agents are asked about the past.
    const { flightOf } = await import('../history/reading.ts');
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
    reachesBackTo: first?.reachesBackTo ?? new Date(0).toISOString(),
    changes: listed.slice(-most),
    syncs: [...syncs.values()].slice(-most),
    omitted: answers.reduce((sum, { omitted }) => sum + omitted, Math.max(0, listed.length - most)),
    stood: [],
  };
}
