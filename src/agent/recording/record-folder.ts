/**
 * The folder of --record-dir: recordings in segments, each of which begins with all objects, so that the oldest can be deleted. A
 * segment is only ever appended to. A crash tears at most its last frame, or the header of a new one, which a reader drops.
 */
import { join } from 'node:path';
import { causeOf } from '../../base/cause.ts';
import type { Clock } from '../../base/clock.ts';
import { shared } from '../../base/mutex.ts';
import type { Recorder } from '../../inspect/history/recorder.ts';
import { type RecordingContext, type RecordingPart, RecordingWriter } from '../../inspect/history/recording-writer.ts';
import type { RecordingLine } from '../../inspect/history/shapes.ts';
import type { Log } from '../../telemetry/log.ts';
import { type AppendedFile, hasCode, type RecordingFiles } from './recording-files.ts';

/** Minimum number of segments in a full folder, so that most of the history stays when one is deleted. */
const MIN_SEGMENTS = 8;
/** Minimum size of a segment, as a multiple of the objects at its beginning. */
const MIN_SIZE_FACTOR = 2;
const RETRY_MS = 60_000;
/** Limit of bytes that wait for a slow disk. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;

export interface RecordFolderOptions {
  readonly files: RecordingFiles;
  readonly path: string;
  /** Limit of bytes of all segments. */
  readonly size: number;
  readonly recorder: Recorder;
  readonly context: RecordingContext;
  readonly clock: Clock;
  readonly log: Pick<Log, 'info' | 'error'>;
}

/** A segment of the folder. */
export interface SegmentFile {
  readonly path: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly size: number;
  /** Its lines. `onProblem` is called when a damaged end was dropped. */
  lines(onProblem: (text: string) => void): AsyncGenerator<RecordingLine>;
}

export class RecordFolder {
  readonly #options: RecordFolderOptions;
  #segment: Segment | undefined;
  /** Paths of segments that this process writes. On a slow disk, or where the clock went back, one of them may have the oldest name. */
  readonly #open = new Set<string>();
  /** Segments that begin or end, and deletions. */
  readonly #unfinished = new Set<Promise<void>>();
  /** The segment that is being made. */
  #starting: Promise<void> | undefined;
  /** Limit of bytes of all segments but the present one. */
  #others: number;
  #cancelRetry: () => void = () => undefined;
  #isFailing = false;
  #isStopped = false;

  constructor(options: RecordFolderOptions) {
    this.#options = options;
    this.#others = options.size;
  }

  get path(): string {
    return this.#options.path;
  }

  /** Record until `stop`, in a folder that is made where it does not exist. Resolves when the file is there. A failure is logged once, and recording is tried again. */
  async start(): Promise<void> {
    if (this.#isStopped) return;
    if (this.#starting === undefined) {
      this.#starting = this.#begin().finally(() => {
        this.#starting = undefined;
      });
      this.#track(this.#starting);
    }
    await this.#starting;
  }

  async #begin(): Promise<void> {
    const former = this.#segment;
    try {
      const { path, files, recorder, context } = this.#options;
      await files.makeFolder(path);
      if (!(await files.isFolder(path))) throw new Error('it is not a folder');
      if (this.#isStopped) return;
      const segment = await this.#create();
      // Stopped meanwhile, so nothing else would close this segment.
      if (this.#isStopped) return await this.#close(segment);
      // The former segment may have failed meanwhile.
      this.#cancelRetry();
      this.#segment = segment;
      segment.record(recorder, context);
      // Until the next one has begun, the former one goes on: no sync is missed.
      if (former !== undefined) this.#track(segment.begun.then(() => this.#close(former)));
    } catch (error) {
      this.#failed(former, error);
    }
  }

  /** Resolves when everything so far is written. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    const segment = this.#segment;
    this.#segment = undefined;
    if (segment !== undefined) this.#track(this.#close(segment));
    while (this.#unfinished.size > 0) await Promise.all(this.#unfinished);
  }

  async #close(segment: Segment): Promise<void> {
    await segment.close(this.#options.recorder);
    this.#open.delete(segment.path);
    if (!this.#isStopped) await this.#deleteOthers();
  }

  #track(work: Promise<void>): void {
    this.#unfinished.add(work);
    void work.finally(() => this.#unfinished.delete(work));
  }

  /** The segments, the oldest first. Questions share a listing under way: on a disk that hangs each one would take a thread of Node.js. */
  async segments(): Promise<readonly SegmentFile[]> {
    await this.#segment?.written();
    return await this.#listed();
  }

  readonly #listed = shared(() => this.#segments());

  async #segments(): Promise<SegmentFile[]> {
    return await segmentsIn(this.path, this.#options.files);
  }

  async #create(): Promise<Segment> {
    const { path, size, clock, files } = this.#options;
    const present = this.#segment?.path;
    await this.#deleteOldest(size - (size / MIN_SEGMENTS) * (present === undefined ? 1 : 2), present);
    const name = join(path, segmentName(clock.wall()));
    const isNew = !this.#open.has(name);
    this.#open.add(name);
    const file = await files.create(name).catch((error: unknown) => {
      if (isNew) this.#open.delete(name);
      throw error;
    });
    const segment: Segment = new Segment(name, file, {
      remove: () => files.remove(name),
      most: size / MIN_SEGMENTS,
      onWhole: (most) => this.#track(this.#hasBegun(segment, most)),
      onFull: () => {
        if (this.#segment === segment) void this.start();
      },
      onError: (error) => this.#failed(segment, error),
    });
    return segment;
  }

  async #deleteOthers(): Promise<void> {
    const segment = this.#segment;
    await this.#deleteOldest(this.#others, segment?.path).catch((error: unknown) => this.#failed(segment, error));
  }

  /** Deletes the oldest segments that this process does not write until all but `present` have at most `most` bytes together. */
  async #deleteOldest(most: number, present: string | undefined): Promise<void> {
    const files = (await this.#segments()).filter(({ path }) => path !== present);
    let size = files.reduce((sum, file) => sum + file.size, 0);
    for (const file of files) {
      if (size <= most) return;
      if (this.#open.has(file.path)) continue;
      await this.#options.files.remove(file.path).catch((error: unknown) => {
        // Another agent that uses the folder was faster.
        if (!hasCode(error, 'ENOENT')) throw error;
      });
      size -= file.size;
    }
  }

  /** The objects of a segment are written, and with their size the limit of the segment is known. */
  async #hasBegun(segment: Segment, most: number): Promise<void> {
    const { path, size, log } = this.#options;
    if (this.#isFailing) log.info(`--record-dir=${path}: recording again`);
    this.#isFailing = false;
    if (segment !== this.#segment) return;
    this.#others = size - most;
    await this.#deleteOthers();
  }

  #failed(segment: Segment | undefined, error: unknown): void {
    if (this.#isStopped || segment !== this.#segment) return;
    const { log, clock } = this.#options;
    const follows = 'the agent goes on without it, and tries again each minute';
    if (!this.#isFailing) log.error(`--record-dir=${this.path}: cannot record: ${causeOf(error)}; ${follows}`);
    this.#isFailing = true;
    this.#segment = undefined;
    if (segment !== undefined) this.#track(this.#close(segment));
    this.#cancelRetry();
    this.#cancelRetry = clock.after(RETRY_MS, () => void this.start());
  }
}

interface SegmentOptions {
  readonly remove: () => Promise<void>;
  readonly most: number;
  /** Called when all objects of the beginning are written. `most`: the limit of bytes of the segment. */
  readonly onWhole: (most: number) => void;
  readonly onFull: () => void;
  readonly onError: (error: unknown) => void;
}

/** A file that is being written. */
class Segment {
  readonly path: string;
  /** Resolves when the first objects are written. */
  readonly begun: Promise<void>;
  readonly #file: AppendedFile;
  readonly #options: SegmentOptions;
  #begin: () => void = () => undefined;
  #writer: RecordingWriter | undefined;
  /** Resolves when all writes so far have ended. */
  #writes: Promise<void> = Promise.resolve();
  #sizes = { all: 0, objects: 0, waiting: 0 };
  #hasFailed = false;
  /** True once all objects of the beginning are in the file. Without them the rest is of no use. */
  #isWhole = false;
  #isFull = false;

  constructor(path: string, file: AppendedFile, options: SegmentOptions) {
    this.path = path;
    this.#file = file;
    this.#options = options;
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
  }

  record(recorder: Recorder, context: RecordingContext): void {
    this.#writer = new RecordingWriter(recorder, context, (bytes, part) => this.#write(bytes, part));
    recorder.sinks.add(this.#writer);
  }

  async written(): Promise<void> {
    await this.#writes;
  }

  async close(recorder: Recorder): Promise<void> {
    if (this.#writer !== undefined) recorder.sinks.remove(this.#writer);
    this.#begin();
    await this.#writes;
    await this.#file.close().catch(() => undefined);
    // On a full disk there would be one more such file after each try.
    if (!this.#isWhole) await this.#options.remove().catch(() => undefined);
  }

  /** A record is one write, so that a crash tears the last one alone. */
  #write(bytes: Uint8Array, part: RecordingPart): void {
    if (this.#hasFailed) return;
    const sizes = this.#sizes;
    const isOfObjects = part === 'objects' || part === 'whole';
    sizes.all += bytes.length;
    sizes.waiting += bytes.length;
    if (isOfObjects) sizes.objects += bytes.length;
    if (sizes.waiting > MAX_WAITING_BYTES) this.#fail(new Error('the disk does not keep up'));
    this.#writes = this.#writes.then(() => this.#append(bytes)).then(isOfObjects ? this.#begin : undefined);
    const most = Math.max(this.#options.most, sizes.objects * MIN_SIZE_FACTOR);
    if (part === 'whole') this.#writes = this.#writes.then(() => this.#hasObjects(most));
    if (this.#isFull || part !== 'frame' || sizes.all <= most) return;
    this.#isFull = true;
    this.#options.onFull();
  }

  #hasObjects(most: number): void {
    if (this.#hasFailed) return;
    this.#isWhole = true;
    this.#options.onWhole(most);
  }

  async #append(bytes: Uint8Array): Promise<void> {
    if (this.#hasFailed) return;
    try {
      if ((await this.#file.append(bytes)) < bytes.length) throw new Error('the disk is full');
      this.#sizes.waiting -= bytes.length;
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#options.onError(error);
  }
}

const FILE_NAME = /^slicewire-(\d{4}-\d\d-\d\dT)(\d\d)(\d\d)(\d\d\.\d{3}Z)-\d+\.recording$/;

/** `slicewire-2026-11-22T120304.123Z-PID.recording`: names sort by time. */
function segmentName(at: number): string {
  return `slicewire-${new Date(at).toISOString().replaceAll(':', '')}-${process.pid}.recording`;
}

/** The segments of a folder, the oldest first. */
export async function segmentsIn(folder: string, files: Pick<RecordingFiles, 'list' | 'read'>): Promise<SegmentFile[]> {
  const segments: SegmentFile[] = [];
  for (const { name, size } of (await files.list(folder)).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const found = FILE_NAME.exec(name);
    if (found === null) continue;
    const [, date = '', hours = '', minutes = '', seconds = ''] = found;
    const path = join(folder, name);
    const startedAt = Date.parse(`${date}${hours}:${minutes}:${seconds}`);
    segments.push({
      ...{ path, startedAt, size },
      lines: (onProblem) => linesOf(files.read(path), (text) => onProblem(`${path}: ${text}`)),
    });
  }
  return segments;
}

async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  onProblem: (text: string) => void,
): AsyncGenerator<RecordingLine> {
  // Loaded only here: its schemas cost memory, and few agents get queries about the past.
  const [{ readRecording }, { RecordingTorn }] = await Promise.all([
    import('../../inspect/history/reading.ts'),
    import('../../inspect/history/frames.ts'),
  ]);
  try {
    yield* readRecording(chunks, onProblem);
  } catch (error) {
    // It has nothing, and must not hide what the others have.
    if (!(error instanceof RecordingTorn)) throw error;
    onProblem('the recording ends within its header, because its writer was killed; the others are used');
  }
}
