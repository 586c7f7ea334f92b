/** A recording as a stream of bytes, from now on: for `slicewire record`. */
import { breath } from '../../base/clock.ts';
import { frameBytes, headerBytes } from './frames.ts';
import { type HistorySince, historySince } from './past.ts';
import type { ObjectStore } from './past-objects.ts';
import type { Recorder } from './recorder.ts';
import { deltasOf, type RecordingContext, RecordingWriter } from './recording-writer.ts';
import type { RecordingLine, StartLine } from './shapes.ts';

/** Bytes that wait for a slow reader. More of them end the stream: the agent keeps its memory bounded. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;

/** The reader of a recording does not keep up. */
export class ReaderTooSlow extends Error {
  readonly code = 'READER_TOO_SLOW';
}

/** Blocks of the history in such a recording: some ten thousand changes. All of them are in memory for a moment. */
const BLOCKS = 64;
/** Lines between two breaths, in one frame. */
const LINES = 200;

/** What the recorder remembers, as a recording. Throws BeforeHistory before the first sync. */
export async function* rememberedRecording(recorder: Recorder, context: RecordingContext): AsyncGenerator<Uint8Array> {
  const at = recorder.log.reachWithin(BLOCKS);
  const { objects, records } = await historySince(recorder, at);
  const number = (records.find(({ type }) => type === 'change')?.number ?? recorder.nextNumber) - 1;
  const start: StartLine = { type: 'start', at, parts: context.parts(), isWritten: true, isWaiting: true, number };
  yield headerBytes();
  yield frameBytes([JSON.stringify(start)]);
  const lines = linesOf(objects, records);
  for (let portion = [...lines.take(LINES)]; portion.length > 0; portion = [...lines.take(LINES)]) {
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

/** Ends with the signal. It begins at the next moment between two syncs. Throws ReaderTooSlow. */
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
    // What is complete now belongs to the recording.
    yield* waiting;
  } finally {
    recorder.sinks.remove(writer);
    signal.removeEventListener('abort', onAbort);
  }
}
