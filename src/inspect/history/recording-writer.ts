/** Writes a recording: a sink of the recorder. Each beginning has all objects, so that what is before it can be dropped. */
import { breath } from '../../base/clock.ts';
import { deltaOf, type HistoryDelta, packSlice } from './delta.ts';
import { frameBytes, headerBytes } from './frames.ts';
import { type HistorySince, historySince, writtenState } from './past.ts';
import { ObjectStore } from './past-objects.ts';
import type { Recorder, RecordingStart, Sink } from './recorder.ts';
import type { ChangeEntry, SyncRecord } from './records.ts';
import type { ChangeLine, RecordedParts, RecordingLine, StartLine, SyncLine } from './shapes.ts';

/** Objects in a frame of the beginning. The event loop runs after each frame. */
const OBJECTS_AT_ONCE = 200;
/** Characters of lines after which a frame is written before the next sync ends. */
const FRAME_CHARACTERS = 256 * 1024;

/** `whole`: the last of the objects at a beginning. */
export type RecordingPart = 'header' | 'objects' | 'whole' | 'frame';
/** Takes the bytes of a recording in order. It must not throw. */
type Output = (bytes: Uint8Array, part: RecordingPart) => void;

/** The present parts of the agent. */
export interface RecordingContext {
  readonly parts: () => RecordedParts;
  /** The mode's removals are waiting. */
  readonly isWaiting: () => boolean;
  /** Milliseconds since 1970. */
  readonly wall: () => number;
}

export class RecordingWriter implements Sink {
  readonly #recorder: Recorder;
  readonly #context: RecordingContext;
  readonly #output: Output;
  #lines: string[] = [];
  #characters = 0;
  /** The beginning that is being written; lines wait for its end. */
  #beginning: object | undefined;

  /** The caller adds it to the recorder's sinks. */
  constructor(recorder: Recorder, context: RecordingContext, output: Output) {
    this.#recorder = recorder;
    this.#context = context;
    this.#output = output;
    output(headerBytes(), 'header');
  }

  begin({ objects, isWritten }: RecordingStart): void {
    this.#lines = [];
    const { written, pending } = isWritten
      ? writtenState(this.#recorder)
      : { written: ObjectStore.copyOf(objects), pending: [] };
    const { parts, isWaiting, wall } = this.#context;
    const number = (pending[0]?.number ?? this.#recorder.nextNumber) - 1;
    const { growing } = objects;
    const facts = { at: wall(), parts: parts(), isWritten, isWaiting: isWaiting(), number, growing };
    const start: StartLine = { type: 'start', ...facts };
    this.#output(frameBytes([JSON.stringify(start)]), 'objects');
    const beginning = {};
    this.#beginning = beginning;
    for (const line of pending) this.#add(line);
    void this.#writeObjects(written, beginning);
  }

  change({ number, at, service, version, change }: ChangeEntry): void {
    const line: ChangeLine = { type: 'change', number, at, service, version, delta: deltaOf(change) };
    this.#add(line);
    if (this.#characters > FRAME_CHARACTERS) this.#flush();
  }

  sync(record: SyncRecord): void {
    const line: SyncLine = { type: 'sync', record };
    this.#add(line);
    this.#flush();
  }

  #add(line: RecordingLine): void {
    const text = JSON.stringify(line);
    this.#lines.push(text);
    this.#characters += text.length;
  }

  #flush(): void {
    if (this.#beginning !== undefined || this.#lines.length === 0) return;
    this.#output(frameBytes(this.#lines), 'frame');
    this.#lines = [];
    this.#characters = 0;
  }

  /** Writes in portions. Lines that come meanwhile follow. */
  async #writeObjects(objects: ObjectStore, beginning: object): Promise<void> {
    let count = 0;
    let portion: string[] = [];
    for (const delta of deltasOf(objects)) {
      portion.push(JSON.stringify({ type: 'object', delta }));
      count += 1;
      if (portion.length < OBJECTS_AT_ONCE) continue;
      this.#output(frameBytes(portion), 'objects');
      portion = [];
      await breath();
      // Another beginning replaced this one.
      if (this.#beginning !== beginning) return;
    }
    this.#output(frameBytes([...portion, JSON.stringify({ type: 'started', objects: count })]), 'whole');
    this.#beginning = undefined;
    this.#flush();
  }
}

/** The deltas that make these objects from nothing. */
function* deltasOf(objects: ObjectStore): Generator<HistoryDelta> {
  const { node } = objects;
  if (node !== undefined) yield { kind: 'Node', key: node.name, delta: { all: node } };
  for (const service of objects.services())
    yield deltaOf({ kind: 'Service', key: service.key, from: undefined, to: service });
  for (const slice of objects.slices.all()) {
    yield { kind: 'EndpointSlice', key: slice.key, delta: { all: packSlice(slice) } };
  }
}

// Recordings as streams of bytes, for `slicewire record`: of the history in memory, and from now on.

/** Bytes that may wait for a slow reader. More of them end the stream, so that the agent's memory stays bounded. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;

/** The reader of a recording does not keep up. */
class ReaderTooSlow extends Error {
  readonly code = 'READER_TOO_SLOW';
}

/** Blocks of the history in a recording from memory: some ten thousand changes, all of which are unpacked for a moment. */
const MAX_BLOCKS = 64;
/** Lines in a frame of such a recording. The event loop runs after each frame. */
const LINES_AT_ONCE = 200;

/** The history in the recorder's memory, as a recording. Throws BeforeHistory before the first sync. */
export async function* rememberedRecording(recorder: Recorder, context: RecordingContext): AsyncGenerator<Uint8Array> {
  const at = recorder.log.reachWithin(MAX_BLOCKS);
  const { objects, records } = await historySince(recorder, at);
  const number = (records.find(({ type }) => type === 'change')?.number ?? recorder.nextNumber) - 1;
  const { growing } = objects;
  const facts = { at, parts: context.parts(), isWritten: true, isWaiting: true, number, growing };
  const start: StartLine = { type: 'start', ...facts };
  yield headerBytes();
  yield frameBytes([JSON.stringify(start)]);
  const lines = linesOf(objects, records);
  for (let portion = [...lines.take(LINES_AT_ONCE)]; portion.length > 0; portion = [...lines.take(LINES_AT_ONCE)]) {
    yield frameBytes(portion);
    await breath();
  }
}

function* linesOf(objects: ObjectStore, records: HistorySince['records']): Generator<string> {
  let count = 0;
  for (const delta of deltasOf(objects)) {
    count += 1;
    yield JSON.stringify({ type: 'object', delta } satisfies RecordingLine);
  }
  yield JSON.stringify({ type: 'started', objects: count } satisfies RecordingLine);
  for (const record of records) {
    const line: RecordingLine = record.type === 'sync' ? { type: 'sync', record } : record;
    yield JSON.stringify(line);
  }
}

/** A recording from the next moment between two syncs until the signal aborts. Throws ReaderTooSlow. */
export async function* recordingStream(
  recorder: Recorder,
  context: RecordingContext,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let [waiting, bytes]: [Uint8Array[], number] = [[], 0];
  let wake: () => void = () => undefined;
  const writer = new RecordingWriter(recorder, context, (part) => {
    bytes += part.length;
    if (bytes <= MAX_WAITING_BYTES) waiting.push(part);
    wake();
  });
  const onAbort = () => wake();
  signal.addEventListener('abort', onAbort, { once: true });
  recorder.sinks.add(writer);
  try {
    while (!signal.aborted) {
      if (bytes > MAX_WAITING_BYTES) throw new ReaderTooSlow('the recording ends here: its reader does not keep up');
      const parts = waiting;
      [waiting, bytes] = [[], 0];
      yield* parts;
      if (waiting.length > 0 || signal.aborted) continue;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    // Frames that are complete by now belong to the recording.
    yield* waiting;
  } finally {
    recorder.sinks.remove(writer);
    signal.removeEventListener('abort', onAbort);
  }
}
