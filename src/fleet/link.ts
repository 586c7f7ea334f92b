/**
 * The connections to all agents. On its connection an agent reports which versions are in its kernel (`/programmed/live`). A connection
 * that breaks, or stays silent, is made anew, with a growing pause.
 */
import { type Clock, doubledWait } from '../base/clock.ts';
import { type ProgrammedEvent, programmedEventSchema } from '../inspect/wire/programmed.ts';
import { type AnswerSink, type AskForStream, askForStream } from './agent-stream.ts';
import { type AgentAddress, MAX_NAMED, NotAnEvent } from './tracked-node.ts';

interface LinkSink {
  /** `isFirst`: the first event of a connection, which has every field. */
  event(event: ProgrammedEvent, isFirst: boolean): void;
  /** There is no connection. `why`: a clause. `isTooOld`: the agent has no such stream. Another try follows. */
  failed(why: string, isTooOld: boolean): void;
}

interface LinkOptions {
  readonly node: string;
  readonly at: AgentAddress;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  /** From 0 to 1, without 1. */
  readonly random: () => number;
  /** Least milliseconds between two events. Called for each connection. */
  readonly pace: () => number;
  /** The token that the agent checks, or undefined. Rejects with a clause. Called for each connection. */
  readonly token: () => Promise<string | undefined>;
  readonly ask: AskForStream;
  readonly sink: LinkSink;
}

/** An agent sends a comment every 15 s. */
export const SILENCE_TIMEOUT_MS = 45_000;
/** Time for a connection and the first byte of its answer. */
export const ANSWER_TIMEOUT_MS = 10_000;
/** The pauses before the second try and between later ones. They are short because a question may wait for this node. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 5000;
/** The pause before an agent without the stream is asked again. It may have been upgraded. */
const OLD_AGENT_PAUSE_MS = 10_000;
/** Limit for the text of a refusal. */
const MAX_REFUSAL_BYTES = 4096;

/** Anything of an earlier one means nothing. */
interface Connection {
  close: () => void;
}

/** The connection to one agent. */
class AgentLink {
  readonly #options: LinkOptions;
  #connection: Connection | undefined;
  /** When the present connection, or the try to make one, last brought something. */
  #heardAt = 0;
  #isOpen = false;
  #failures = 0;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  /** The first try comes after `delay` milliseconds. */
  constructor(options: LinkOptions, delay: number) {
    this.#options = options;
    this.#cancel = options.clock.after(delay, () => void this.#connect());
  }

  get at(): AgentAddress {
    return this.#options.at;
  }

  /** The first event has come, and the connection lasts. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Ends the connection. The sink hears nothing more. */
  close(): void {
    this.#isClosed = true;
    this.#isOpen = false;
    this.#cancel();
    this.#connection?.close();
    this.#connection = undefined;
  }

  /** To be called every second or so: ends a silent connection. */
  check(now: number): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    const timeout = this.#isOpen ? SILENCE_TIMEOUT_MS : ANSWER_TIMEOUT_MS;
    if (now - this.#heardAt < timeout) return;
    const problem = this.#isOpen ? 'it sent nothing' : 'it did not answer';
    this.#fail(connection, `${problem} for ${timeout / 1000} s`);
  }

  /** Replaces an open connection, such as after a change of the pace. */
  renew(): void {
    const connection = this.#connection;
    if (connection === undefined || !this.#isOpen) return;
    this.#leave(connection);
    const { clock, random } = this.#options;
    this.#cancel = clock.after(MAX_PAUSE_MS * random(), () => void this.#connect());
  }

  async #connect(): Promise<void> {
    const { token, clock } = this.#options;
    let bearer: string | undefined;
    try {
      bearer = await token();
    } catch (error) {
      if (!this.#isClosed) this.#failed(error instanceof Error ? error.message : String(error), false);
      return;
    }
    if (this.#isClosed) return;
    this.#heardAt = clock.now();
    this.#open(bearer);
  }

  #open(bearer: string | undefined): void {
    const { at, pace, ask } = this.#options;
    const connection: Connection = { close: () => undefined };
    this.#connection = connection;
    const path = `/programmed/live?pace=${Math.round(pace())}`;
    connection.close = ask({ at, path, bearer }, this.#answerOf(connection)).close;
  }

  #answerOf(connection: Connection): AnswerSink {
    const { sink, clock, node } = this.#options;
    let refusal: Refusal | undefined;
    const lines = new EventLines((event) => {
      if (this.#connection !== connection) return;
      const isFirst = !this.#isOpen;
      if (isFirst) mustBegin(event, node);
      this.#isOpen = true;
      this.#failures = 0;
      sink.event(event, isFirst);
    });
    const fail = (why: string) => this.#fail(connection, refusal?.why ?? why, refusal?.isTooOld);
    return {
      head: (status, location) => {
        if (status !== 200) refusal = new Refusal(status, location);
      },
      data: (piece) => {
        if (this.#connection !== connection) return;
        if (refusal !== undefined) {
          if (refusal.push(piece)) fail(refusal.why);
          return;
        }
        this.#heardAt = clock.now();
        try {
          lines.push(piece);
        } catch (error) {
          if (!(error instanceof NotAnEvent)) throw error;
          fail(error.message);
        }
      },
      ended: fail,
    };
  }

  /** Failures of an earlier connection are ignored. */
  #fail(connection: Connection, why: string, isTooOld = false): void {
    if (this.#connection !== connection) return;
    this.#leave(connection);
    this.#failed(why, isTooOld);
  }

  #leave(connection: Connection): void {
    this.#connection = undefined;
    this.#isOpen = false;
    connection.close();
  }

  #failed(why: string, isTooOld: boolean): void {
    const { clock, random, sink } = this.#options;
    this.#failures += 1;
    const pause = isTooOld ? OLD_AGENT_PAUSE_MS : doubledWait(this.#failures, FIRST_PAUSE_MS, MAX_PAUSE_MS);
    this.#cancel = clock.after(pause * (0.5 + random()), () => void this.#connect());
    sink.failed(why, isTooOld);
  }
}

/** An answer that is no stream. Redirects are not followed, because they would carry the token elsewhere. */
class Refusal {
  readonly isTooOld: boolean;
  readonly #head: string;
  #body = '';

  constructor(status: number, location: string | undefined) {
    this.isTooOld = status === 404;
    const to = location === undefined ? '' : ` to ${location.slice(0, 200)}, which is not followed`;
    this.#head = this.isTooOld ? 'it is too old: it has no /programmed/live' : `it answered ${status}${to}`;
  }

  /** The next piece of its body. Returns whether no more is needed. */
  push(piece: string): boolean {
    this.#body += piece.slice(0, MAX_REFUSAL_BYTES);
    return this.#body.length >= MAX_REFUSAL_BYTES;
  }

  get why(): string {
    const message = this.isTooOld ? '' : messageIn(this.#body);
    return message === '' ? this.#head : `${this.#head}: ${message}`;
  }
}

/** The first event must have every field, and must come from the right node: its address may belong to another agent now. */
function mustBegin({ agent, marks }: ProgrammedEvent, node: string): void {
  if (agent === undefined || marks === undefined || marks.length === 0)
    throw new NotAnEvent(`its first event has no ${agent === undefined ? 'agent' : 'marks'}`);
  if (agent.node !== node) throw new NotAnEvent(`the agent at this address is that of the node ${agent.node}`);
}

/** The message of a Problem in JSON, or the first line of plain text. */
function messageIn(body: string): string {
  try {
    const { message } = JSON.parse(body) as { readonly message?: unknown };
    if (typeof message === 'string') return message.slice(0, 300);
  } catch {
    // It is plain text.
  }
  return (body.split('\n')[0] ?? '').trim().slice(0, 300);
}

/** The first event of an agent that is behind with a thousand Services has some hundred thousand characters. */
export const MAX_LINE_LENGTH = 1 << 20;

/**
 * Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) whose data is one line. Comments and the
 * names of events are ignored.
 */
class EventLines {
  readonly #emit: (event: ProgrammedEvent) => void;
  #begun = '';

  constructor(emit: (event: ProgrammedEvent) => void) {
    this.#emit = emit;
  }

  /** The next piece of the stream, as text. After a NotAnEvent the stream cannot be read further. */
  push(piece: string): void {
    let start = 0;
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
      const line = this.#begun + piece.slice(start, end);
      this.#begun = '';
      start = end + 1;
      mustBeShort(line);
      if (line.startsWith('data:')) this.#emit(eventOf(line.slice('data:'.length)));
    }
    this.#begun += piece.slice(start);
    mustBeShort(this.#begun);
  }
}

function mustBeShort(line: string): void {
  if (line.length > MAX_LINE_LENGTH)
    throw new NotAnEvent(`it sent an event of more than ${MAX_LINE_LENGTH} characters`);
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
    if (set.length + gone.length > MAX_NAMED)
      throw new NotAnEvent(`it sent an event that names more than ${MAX_NAMED} Services behind`);
    return read.data;
  }
  const [first] = read.error.issues;
  throw new NotAnEvent(`it sent an event with a wrong field: ${first?.path.join('.')}: ${first?.message}`);
}

interface LinksSink {
  event(node: string, event: ProgrammedEvent, isFirst: boolean): void;
  failed(node: string, why: string, isTooOld: boolean): void;
}

interface LinksOptions {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly random: () => number;
  readonly token: () => Promise<string | undefined>;
  /** Least milliseconds between two events of an agent. It grows with the number of agents. */
  readonly pace: () => number;
  /** Tests replace the network. */
  readonly ask?: AskForStream | undefined;
  readonly sink: LinksSink;
}

/** Pause between two checks for silent connections. */
const CHECK_INTERVAL_MS = 1000;
/** First tries are spread over this time for each agent, so that 5,000 agents are asked within some seconds. */
const SPREAD_PER_AGENT_MS = 0.5;

/** One connection for each node with an agent. They are not made all at once. */
export class AgentLinks {
  readonly #options: LinksOptions;
  readonly #links = new Map<string, AgentLink>();
  /** The pace with which most connections were opened. */
  #pace = 0;
  #cancel: () => void;
  #events = 0;

  constructor(options: LinksOptions) {
    this.#options = options;
    this.#cancel = this.#checkLater();
  }

  /** Connections on which an agent has sent its first event. */
  get open(): number {
    let open = 0;
    for (const link of this.#links.values()) if (link.isOpen) open += 1;
    return open;
  }

  /** Events that came since the start. */
  get events(): number {
    return this.#events;
  }

  /** The address of a node's agent, or undefined for none. Returns whether it changed; otherwise nothing happens. */
  set(node: string, at: AgentAddress | undefined): boolean {
    const before = this.#links.get(node);
    if (at === undefined) {
      before?.close();
      return this.#links.delete(node);
    }
    if (before?.at.address === at.address && before.at.port === at.port) return false;
    before?.close();
    const { clock, random, token, pace, ask = askForStream, sink } = this.#options;
    const options = {
      ...{ node, at, clock, random, token, pace, ask },
      sink: {
        event: (event: ProgrammedEvent, isFirst: boolean) => {
          this.#events += 1;
          sink.event(node, event, isFirst);
        },
        failed: (why: string, isTooOld: boolean) => sink.failed(node, why, isTooOld),
      },
    };
    this.#links.set(node, new AgentLink(options, random() * SPREAD_PER_AGENT_MS * this.#links.size));
    this.#keepPace();
    return true;
  }

  close(): void {
    this.#cancel();
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }

  /** With twice as many agents as before, all connections are made anew within some seconds, with the new pace. */
  #keepPace(): void {
    const pace = this.#options.pace();
    if (this.#pace > 0 && pace < 2 * this.#pace) return;
    this.#pace = pace;
    for (const link of this.#links.values()) link.renew();
  }

  #checkLater(): () => void {
    const { clock } = this.#options;
    return clock.after(CHECK_INTERVAL_MS, () => {
      const now = clock.now();
      for (const link of this.#links.values()) link.check(now);
      this.#cancel = this.#checkLater();
    });
  }
}
