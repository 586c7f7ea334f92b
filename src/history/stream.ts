/** A recording as a stream of bytes, from now on: for `slicewire record`. */
import { frameBytes, headerBytes } from './frames.ts';
import type { Recorder } from './recorder.ts';
import type { RecordingLine } from './shapes.ts';
import { type RecordingContext, RecordingWriter } from './writer.ts';

/** Bytes that wait for a slow reader. More of them end the stream: the agent keeps its memory bounded. */
const MOST_WAITING = 32 * 1024 * 1024;

/** The reader of a recording does not keep up. */
export class ReaderTooSlow extends Error {
  readonly code = 'READER_TOO_SLOW';
}

/** Lines of one frame. */
const LINES = 200;

/** The bytes of a recording with these lines. */
export async function* recordingBytes(lines: AsyncIterable<RecordingLine>): AsyncGenerator<Uint8Array> {
  yield headerBytes();
  let texts: string[] = [];
  for await (const line of lines) {
    texts.push(JSON.stringify(line));
    // A sync ends a frame, so that a live recording is complete up to it.
    if (texts.length < LINES && line.type !== 'sync' && line.type !== 'started') continue;
    yield frameBytes(texts);
    texts = [];
  }
  if (texts.length > 0) yield frameBytes(texts);
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
    if (bytes <= MOST_WAITING) waiting.push(part);
    wake();
  });
  const onAbort = () => wake();
  signal.addEventListener('abort', onAbort, { once: true });
  recorder.sinks.add(writer);
  try {
    while (!signal.aborted) {
      if (bytes > MOST_WAITING) throw new ReaderTooSlow('the recording ends here: its reader does not keep up');
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
