/** Reads recordings: checked lines, and the history in them. */
import { countText } from '../answers/words.ts';
import { phrasesOf } from './changes.ts';
import { deltaOf, reversed } from './delta.ts';
import { FlightLog } from './flight-log.ts';
import { RecordingUnreadable, readFrames } from './frames.ts';
import type { FlightData } from './past.ts';
import { lineSchema, type RecordingLine, type StartLine } from './shapes.ts';
import { ObjectStore } from './store.ts';

/**
 * The lines of a recording, in order. What is torn or damaged at its end is dropped, and `onProblem` gets a sentence about it.
 * Throws RecordingUnreadable.
 */
export async function* readRecording(
  chunks: AsyncIterable<Uint8Array>,
  onProblem: (text: string) => void,
): AsyncGenerator<RecordingLine> {
  let number = 0;
  for await (const lines of readFrames(chunks, onProblem)) {
    for (const text of lines) {
      number += 1;
      yield checkedLine(text, number);
    }
  }
}

function checkedLine(text: string, number: number): RecordingLine {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    throw new RecordingUnreadable(`line ${number} of the recording is not JSON: ${text.slice(0, 80)}`);
  }
  const checked = lineSchema.safeParse(line);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const path = issue === undefined || issue.path.length === 0 ? '' : ` ${issue.path.join('.')}:`;
  throw new RecordingUnreadable(`line ${number} of the recording:${path} ${issue?.message ?? 'unknown form'}`);
}

/** The history in a recording, and the parts that made it. */
export interface RecordedFlight extends FlightData {
  readonly start: StartLine | undefined;
}

/** Bytes of a history that is read from recordings. */
const MOST = 128 * 1024 * 1024;

/** The history of these lines, to answer from (`historyOf`, `objectsAt`). Throws DeltaMismatch. */
export async function flightOf(lines: AsyncIterable<RecordingLine>): Promise<RecordedFlight> {
  let start: StartLine | undefined;
  let store: ObjectStore | undefined;
  let log: FlightLog | undefined;
  let last = 0;
  for await (const line of lines) {
    if (line.type === 'start') {
      start = line;
      store = new ObjectStore();
      log ??= new FlightLog(MOST, line.at);
      last = line.number;
    } else if (store === undefined || log === undefined) {
      throw new RecordingUnreadable('the recording does not begin with the objects of the node');
    } else if (line.type === 'object') store.apply(line.delta);
    else if (line.type === 'started') {
      const at = start?.at ?? 0;
      const what = [`${countText(line.objects, 'object')}, which the recording begins with`];
      const wasWritten = start?.isWritten === true;
      log.append({ type: 'lists', number: last, at, service: '', version: '', what, wasWritten });
      if (wasWritten) log.begin(at);
    } else if (line.type === 'sync') log.append(line.record);
    else {
      const { number, at, service, version, delta } = line;
      const change = store.apply(delta);
      last = number;
      const undo = deltaOf(reversed(change));
      log.append({ type: 'change', number, at, service, version, what: phrasesOf(change), undo });
    }
  }
  return { log: log ?? new FlightLog(MOST, 0), objects: store, start };
}
