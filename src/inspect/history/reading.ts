/** Reads recordings: checked lines, and the history in them. */
import { countText } from '../wire/format.ts';
import { phrasesOf } from './changes.ts';
import { deltaOf, reversed } from './delta.ts';
import { FlightLog } from './flight-log.ts';
import { RecordingUnreadable, readFrames } from './frames.ts';
import type { FlightData } from './past.ts';
import { ObjectStore } from './past-objects.ts';
import { lineSchema, type RecordingLine, type StartLine } from './shapes.ts';

/**
 * The lines of a recording, in order. A torn or damaged end is dropped, and `onProblem` gets a sentence about it. Throws
 * RecordingUnreadable.
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

/** The limit of memory for a history that is read from recordings. */
export const MAX_HISTORY_BYTES = 128 * 1024 * 1024;

/**
 * The history of these lines, for `historyOf` and `objectsAt`. A torn beginning does not count, because some of its objects are missing;
 * without another one there are no objects. Throws DeltaMismatch.
 */
export async function flightOf(lines: AsyncIterable<RecordingLine>): Promise<RecordedFlight> {
  let begun: { readonly start: StartLine; readonly objects: ObjectStore } | undefined;
  let beginning: typeof begun;
  let log: FlightLog | undefined;
  for await (const line of lines) {
    if (line.type === 'start') beginning = { start: line, objects: new ObjectStore() };
    else if (line.type === 'object' && beginning !== undefined) beginning.objects.apply(line.delta);
    else if (line.type === 'started' && beginning !== undefined) {
      begun = beginning;
      beginning = undefined;
      const { at, number, isWritten } = begun.start;
      log ??= new FlightLog(MAX_HISTORY_BYTES, at);
      const what = [`${countText(line.objects, 'object')}, which the recording begins with`];
      log.append({ type: 'lists', number, at, service: '', version: '', what, wasWritten: isWritten });
      if (isWritten) log.begin(at);
    } else if (begun === undefined || log === undefined || line.type === 'object' || line.type === 'started') {
      throw new RecordingUnreadable('the recording does not begin with the objects of the node');
    } else if (line.type === 'sync') log.append(line.record);
    else {
      const { number, at, service, version, delta } = line;
      const change = begun.objects.apply(delta);
      const undo = deltaOf(reversed(change));
      log.append({ type: 'change', number, at, service, version, what: phrasesOf(change), undo });
    }
  }
  return {
    log: log ?? new FlightLog(MAX_HISTORY_BYTES, beginning?.start.at ?? 0),
    objects: begun?.objects,
    start: begun?.start,
  };
}
