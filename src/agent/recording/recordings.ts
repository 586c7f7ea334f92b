/** The recordings of an agent: its flight recorder, the folder of --record-dir, which follows the configuration, and answers from both. */
import { release } from 'node:os';
import { causeOf } from '../../base/cause.ts';
import { endsWithin, realClock } from '../../base/clock.ts';
import { sameData } from '../../base/equal.ts';
import type { Config } from '../../config/config.ts';
import { fileFromConfig } from '../../config/config-file.ts';
import { servesExternalIPs } from '../../config/feature-gates.ts';
import { version } from '../../config/program-version.ts';
import { type HistoryContent, type HistoryQuery, historyOf } from '../../inspect/history/history-content.ts';
import { beforeHistory, type FlightData, objectsAt } from '../../inspect/history/past.ts';
import type { ObjectStore } from '../../inspect/history/past-objects.ts';
import type { Recorder } from '../../inspect/history/recorder.ts';
import { guarded, type RecorderHooks } from '../../inspect/history/recorder.ts';
import type { RecordingContext } from '../../inspect/history/recording-writer.ts';
import { momentOf } from '../../inspect/wire/envelope.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Agent } from '../agent.ts';
import { RecordFolder, type SegmentFile } from './record-folder.ts';
import type { RecordingFiles } from './recording-files.ts';

/** Milliseconds to wait for the disk of --record-dir. One that hangs, such as a mount without its server, delays rules and the end of the agent by no more. */
const DISK_PATIENCE_MS = 5000;

export interface RecordingsOptions {
  readonly recorder: Recorder;
  readonly log: Log;
  readonly files: RecordingFiles;
}

export class Recordings {
  readonly recorder: Recorder;
  /** The hooks of the recorder. A failure in them stops the recording, and not the agent. */
  readonly hooks: RecorderHooks;
  /** Answers about the past, also from the folder. */
  readonly archive: HistoryArchive;
  readonly #log: Log;
  readonly #files: RecordingFiles;
  #fault: string | undefined;
  #folder: RecordFolder | undefined;
  #present: { readonly agent: Agent; readonly config: Config } | undefined;

  constructor({ recorder, log, files }: RecordingsOptions) {
    this.#files = files;
    this.recorder = recorder;
    this.#log = log;
    this.hooks = guarded(recorder, (error) => {
      this.#fault = causeOf(error);
      log.error(
        `the flight recorder stopped: ${this.#fault}; the proxy goes on, and history ends here until a restart`,
      );
    });
    const onProblem = (text: string) => log.warn(`--record-dir: ${text}`);
    this.archive = new HistoryArchive({ recorder, folder: () => this.#folder, onProblem });
  }

  /** The cause why the recorder stopped; undefined while it records. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /**
   * Record these parts from now on. Recordings begin anew, because other settings make other plans. Call it while no sync runs; it resolves
   * when the next sync will be recorded, or when the disk hangs: then the recording begins when it answers.
   */
  async use(agent: Agent, config: Config): Promise<void> {
    const former = this.#present?.config.recording;
    this.#present = { agent, config };
    this.recorder.sinks.restart();
    if (sameData(former, config.recording)) return;
    await this.close();
    const { recording } = config;
    if (recording === undefined) return;
    await this.#forDisk(
      this.#open(recording),
      recording.folder,
      'the agent goes on, and records when the disk answers',
    );
  }

  /** Resolves when everything is written, or when the disk hangs. */
  async close(): Promise<void> {
    const folder = this.#folder;
    this.#folder = undefined;
    if (folder !== undefined) await this.#forDisk(folder.stop(), folder.path, 'the last records may be missing');
  }

  /** Wait for work with the disk; its errors are logged. */
  async #forDisk(work: Promise<void>, path: string, follows: string): Promise<void> {
    const done = work.catch((error) => this.#log.error(causeOf(error)));
    if (!(await endsWithin(DISK_PATIENCE_MS, done, realClock)))
      this.#log.error(`--record-dir=${path}: the disk has not answered for ${DISK_PATIENCE_MS / 1000} s; ${follows}`);
  }

  async #open({ folder: path, size }: RecordingSettings): Promise<void> {
    const present = this.#present;
    if (present === undefined) return;
    const now = () => this.#present ?? present;
    const context = recordingContext(
      () => now().agent,
      () => now().config,
    );
    const options = {
      ...{ files: this.#files, path, size, recorder: this.recorder, context },
      ...{ clock: realClock, log: this.#log },
    };
    const folder = new RecordFolder(options);
    this.#folder = folder;
    await folder.start();
  }
}

/** The facts about the agent in its recordings. `agent` and `config` are functions, because a reload replaces both. */
export function recordingContext(agent: () => Agent, config: () => Config): RecordingContext {
  return {
    parts() {
      const now = config();
      return {
        version: version(),
        kernel: release(),
        nodeName: now.nodeName,
        servesExternalIPs: servesExternalIPs(now.featureGates),
        ...agent().onNode.recorded,
        config: fileFromConfig(now),
      };
    },
    isWaiting: () => agent().mode.isWaiting,
    wall: () => realClock.wall(),
  };
}

type RecordingSettings = NonNullable<Config['recording']>;

interface HistoryArchiveOptions {
  readonly recorder: Recorder;
  /** undefined without --record-dir. */
  readonly folder: () => RecordFolder | undefined;
  /** Called when a segment is damaged at its end. */
  readonly onProblem: (text: string) => void;
}

/** Limit of listed changes where the query sets none. */
const DEFAULT_CHANGES = 200;

/** Answers from the history of this agent: from memory, and from the folder of --record-dir for the time before. */
export class HistoryArchive {
  readonly #options: HistoryArchiveOptions;

  constructor(options: HistoryArchiveOptions) {
    this.#options = options;
  }

  /** Throws BeforeHistory when the moment of the query is before all recordings. */
  async history(question: HistoryQuery): Promise<HistoryContent> {
    const { recorder } = this.#options;
    const { at = Number.POSITIVE_INFINITY } = question;
    const archived = this.#archived();
    const since = question.since ?? (await this.#beforeRestart(question, archived));
    if (Math.min(since, at) >= recorder.log.reachesBackTo) return await historyOf(recorder, question);
    const stood = await this.#flightAt(Math.min(at, Number.MAX_SAFE_INTEGER), archived);
    const changesOnly = { ...question, at: undefined, until: at };
    const answers: HistoryContent[] = [];
    for await (const flight of archived.flightsFrom(Math.min(since, at), at))
      answers.push(await historyOf(flight, changesOnly));
    answers.push(await historyOf(recorder, changesOnly));
    const answer = merged(answers, question.most ?? DEFAULT_CHANGES);
    if (question.at === undefined) return answer;
    return { ...answer, stood: (await historyOf(stood, question)).stood };
  }

  /**
   * The beginning of the last segment that is older than the memory, such as that of the agent before a restart. Infinity where the memory
   * alone fills the answer.
   */
  async #beforeRestart(
    { service, at, most = DEFAULT_CHANGES }: HistoryQuery,
    archived: ArchivedFlights,
  ): Promise<number> {
    const { recorder } = this.#options;
    const { reachesBackTo } = recorder.log;
    if (at !== undefined) return Number.POSITIVE_INFINITY;
    const { changes } = await historyOf(recorder, { ...(service === undefined ? {} : { service }), most });
    if (changes.length >= most) return Number.POSITIVE_INFINITY;
    // The last one is being written, and began with this agent or later.
    const finished = (await archived.segments()).slice(0, -1);
    for (const segment of finished.filter(({ startedAt }) => startedAt < reachesBackTo).reverse())
      if ((await archived.flight(segment)) !== undefined) return segment.startedAt;
    return Number.POSITIVE_INFINITY;
  }

  /** The objects as they were in the kernel. `moment`: milliseconds since 1970. Throws BeforeHistory. */
  async objectsAt(moment: number): Promise<ObjectStore> {
    return await objectsAt(await this.flightAt(moment), moment);
  }

  /** The recording that covers this moment. Throws BeforeHistory. */
  async flightAt(moment: number): Promise<FlightData> {
    return await this.#flightAt(moment, this.#archived());
  }

  async #flightAt(moment: number, archived: ArchivedFlights): Promise<FlightData> {
    const { recorder, folder } = this.#options;
    if (moment >= recorder.log.reachesBackTo) return recorder;
    const segments = await archived.segments();
    // A segment that began before its first sync does not know what was in the kernel until then: the one before does.
    for (const segment of segments.filter(({ startedAt }) => startedAt <= moment).reverse()) {
      const flight = await archived.flight(segment);
      if (flight !== undefined && flight.log.reachesBackTo <= moment) return flight;
    }
    const flights = archived.flightsFrom(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY);
    const { value: oldest = recorder } = await flights.next();
    const reach = oldest.log.reachesBackTo;
    throw beforeHistory(reach, folder() === undefined ? '--record-dir' : '--record-size');
  }

  #archived(): ArchivedFlights {
    return new ArchivedFlights(this.#options.folder(), this.#options.onProblem);
  }
}

/** The segments of the folder for one question. One of them is in memory at a time, because each may fill it. */
class ArchivedFlights {
  readonly #folder: RecordFolder | undefined;
  readonly #onProblem: (text: string) => void;
  /** The segment that was read last: a question goes on with it. */
  #last: { readonly segment: SegmentFile; readonly flight: FlightData | undefined } | undefined;
  #segments: Promise<readonly SegmentFile[]> | undefined;

  constructor(folder: RecordFolder | undefined, onProblem: (text: string) => void) {
    this.#folder = folder;
    this.#onProblem = onProblem;
  }

  /** The oldest first; none where the disk fails or hangs, because the memory answers without it. */
  segments(): Promise<readonly SegmentFile[]> {
    this.#segments ??= this.#read();
    return this.#segments;
  }

  async #read(): Promise<readonly SegmentFile[]> {
    if (this.#folder === undefined) return [];
    const follows = 'the answer is from memory alone';
    const { path } = this.#folder;
    let found: readonly SegmentFile[] = [];
    const reading = this.#folder.segments().then(
      (segments) => {
        found = segments;
      },
      (error: unknown) => this.#onProblem(`${path} cannot be read: ${causeOf(error)}; ${follows}`),
    );
    if (!(await endsWithin(DISK_PATIENCE_MS, reading, realClock)))
      this.#onProblem(`${path}: the disk has not answered for ${DISK_PATIENCE_MS / 1000} s; ${follows}`);
    return found;
  }

  /** undefined where it has no objects, because a crash tore its beginning. */
  async flight(segment: SegmentFile): Promise<FlightData | undefined> {
    if (this.#last?.segment.path === segment.path) return this.#last.flight;
    // Loaded only here, as the lines are.
    const { flightOf } = await import('../../inspect/history/reading.ts');
    const read = await flightOf(segment.lines(this.#onProblem));
    const flight = read.objects === undefined ? undefined : read;
    this.#last = { segment, flight };
    return flight;
  }

  /** The segment with this moment, and all later ones that began until the other. */
  async *flightsFrom(moment: number, until: number): AsyncGenerator<FlightData> {
    const segments = await this.segments();
    const first = segments.findLastIndex(({ startedAt }) => startedAt <= moment);
    for (const segment of segments.slice(Math.max(0, first))) {
      const flight = segment.startedAt <= until ? await this.flight(segment) : undefined;
      if (flight !== undefined) yield flight;
    }
  }
}

/** Joins answers about parts of the history, given in order. Where parts overlap, the later one wins, because it knows more. */
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
