/**
 * The connections to all agents. On its connection an agent reports which versions are in its kernel (`/programmed/live`). A connection
 * that breaks, or stays silent, is made anew, with a growing pause.
 *
 * Node.js' own HTTP client reads the stream: a reader on bare sockets takes as much CPU for each event (12 µs against 13 µs), and saves
 * 16 kB for each connection, which is 80 MB with 5,000 agents.
 */
import { Agent, type ClientRequest, get, type IncomingMessage } from 'node:http';
import { endpointText } from '../base/address.ts';
import { type Clock, doubledWait } from '../base/clock.ts';
import { type ProgrammedEvent, programmedEventSchema } from '../inspect/wire/programmed.ts';
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

/** Connections are long, and never shared. */
const CONNECTIONS = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

/** One connection. */
class AgentLink {
  readonly #options: LinkOptions;
  #request: ClientRequest | undefined;
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
    this.#request?.destroy();
    this.#request = undefined;
  }

  /** To be called every second or so: ends a silent connection. */
  check(now: number): void {
    const request = this.#request;
    if (request === undefined) return;
    const timeout = this.#isOpen ? SILENCE_TIMEOUT_MS : ANSWER_TIMEOUT_MS;
    if (now - this.#heardAt < timeout) return;
    const problem = this.#isOpen ? 'it sent nothing' : 'it did not answer';
    this.#fail(request, `${problem} for ${timeout / 1000} s`);
  }

  /** Replaces an open connection, such as after a change of the pace. */
  renew(): void {
    const request = this.#request;
    if (request === undefined || !this.#isOpen) return;
    this.#leave(request);
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
    const { at, pace } = this.#options;
    const request = get({
      host: at.address,
      port: at.port,
      path: `/programmed/live?pace=${Math.round(pace())}`,
      agent: CONNECTIONS,
      headers: {
        host: endpointText(at.address, at.port),
        accept: 'text/event-stream',
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      },
    });
    this.#request = request;
    request.on('error', (error: NodeJS.ErrnoException) => this.#fail(request, error.message || String(error.code)));
    request.on('response', (response) => {
      if (response.statusCode === 200) this.#read(request, response);
      else readRefusal(response, (why, isTooOld) => this.#fail(request, why, isTooOld));
    });
  }

  #read(request: ClientRequest, response: IncomingMessage): void {
    const { sink, clock, node } = this.#options;
    const lines = new EventLines((event) => {
      if (this.#request !== request) return;
      const isFirst = !this.#isOpen;
      if (isFirst) mustBegin(event, node);
      this.#isOpen = true;
      this.#failures = 0;
      sink.event(event, isFirst);
    });
    response.setEncoding('utf8');
    response.on('data', (piece: string) => {
      if (this.#request !== request) return;
      this.#heardAt = clock.now();
      try {
        lines.push(piece);
      } catch (error) {
        if (!(error instanceof NotAnEvent)) throw error;
        this.#fail(request, error.message);
      }
    });
    response.on('error', (error) => this.#fail(request, `the connection broke: ${error.message}`));
    response.on('end', () => this.#fail(request, 'it ended the connection'));
    response.on('close', () => this.#fail(request, 'the connection broke'));
  }

  /** `request`: the one that failed. Failures of an earlier one are ignored. */
  #fail(request: ClientRequest, why: string, isTooOld = false): void {
    if (this.#request !== request) return;
    this.#leave(request);
    this.#failed(why, isTooOld);
  }

  #leave(request: ClientRequest): void {
    this.#request = undefined;
    this.#isOpen = false;
    // An error of a connection that is over means nothing.
    request.removeAllListeners('error').on('error', () => undefined);
    request.destroy();
  }

  #failed(why: string, isTooOld: boolean): void {
    const { clock, random, sink } = this.#options;
    this.#failures += 1;
    const pause = isTooOld ? OLD_AGENT_PAUSE_MS : doubledWait(this.#failures, FIRST_PAUSE_MS, MAX_PAUSE_MS);
    this.#cancel = clock.after(pause * (0.5 + random()), () => void this.#connect());
    sink.failed(why, isTooOld);
  }
}

/** Reports the body of an error response. Redirects are not followed, because they would carry the token elsewhere. */
function readRefusal(response: IncomingMessage, report: (why: string, isTooOld: boolean) => void): void {
  const { statusCode = 0, headers } = response;
  const isTooOld = statusCode === 404;
  let body = '';
  const end = () => {
    const to = headers.location === undefined ? '' : ` to ${headers.location.slice(0, 200)}, which is not followed`;
    const message = isTooOld ? '' : messageIn(body);
    const why = isTooOld ? `it is too old: it has no /programmed/live` : `it answered ${statusCode}`;
    report(`${why}${to}${message === '' ? '' : `: ${message}`}`, isTooOld);
  };
  response.setEncoding('utf8');
  response.on('data', (piece: string) => {
    if (body.length < MAX_REFUSAL_BYTES) body += piece;
    else end();
  });
  response.on('end', end);
  response.on('error', end);
  response.on('close', end);
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
    const { clock, random, token, pace, sink } = this.#options;
    const options = {
      ...{ node, at, clock, random, token, pace },
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
