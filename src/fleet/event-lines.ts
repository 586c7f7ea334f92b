/** The events of an agent's stream, from the pieces in which it comes. */
import { type ProgrammedEvent, programmedEventSchema } from '../inspect/wire/programmed.ts';
import { MOST_NAMED, NotAnEvent } from './agent-state.ts';

/** Characters of a line: the first event of an agent that is behind with a thousand Services has some hundred thousand. */
export const LONGEST_LINE = 1 << 20;

/**
 * Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) whose data is one line. Comments and the
 * names of events are passed over.
 */
export class EventLines {
  readonly #take: (event: ProgrammedEvent) => void;
  #begun = '';

  constructor(take: (event: ProgrammedEvent) => void) {
    this.#take = take;
  }

  /** The next piece of the stream, as text. Throws NotAnEvent; the stream cannot be read on then. */
  push(piece: string): void {
    let start = 0;
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
      const line = this.#begun + piece.slice(start, end);
      this.#begun = '';
      start = end + 1;
      mustBeShort(line);
      if (line.startsWith('data:')) this.#take(eventOf(line.slice('data:'.length)));
    }
    this.#begun += piece.slice(start);
    mustBeShort(this.#begun);
  }
}

function mustBeShort(line: string): void {
  if (line.length > LONGEST_LINE) throw new NotAnEvent(`it sent an event of more than ${LONGEST_LINE} characters`);
}

function eventOf(text: string): ProgrammedEvent {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new NotAnEvent(`it sent an event that is not JSON: ${text.slice(0, 100)}`);
  }
  const read = programmedEventSchema.safeParse(value);
  if (read.success) {
    const { set = [], gone = [] } = read.data.behind ?? {};
    if (set.length + gone.length > MOST_NAMED)
      throw new NotAnEvent(`it sent an event that names more than ${MOST_NAMED} Services behind`);
    return read.data;
  }
  const [first] = read.error.issues;
  throw new NotAnEvent(`it sent an event with a wrong field: ${first?.path.join('.')}: ${first?.message}`);
}
