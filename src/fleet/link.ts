/**
 * One connection to an agent, on which it says which versions are in its kernel (`/programmed/live`). A connection that breaks, or on
 * which nothing comes, is made anew, with a growing pause.
 *
 * Node.js' own HTTP client reads the stream: a reader on bare sockets takes as much CPU for each event (12 µs against 13 µs), and saves
 * 16 kB for each connection, which is 80 MB with 5,000 agents.
 */
import { Agent, type ClientRequest, get, type IncomingMessage } from 'node:http';
import { type Address, endpointText } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import { type ProgrammedEvent, programmedEventSchema } from '../inspect/wire/programmed.ts';
import { MAX_NAMED, NotAnEvent } from './tracked-node.ts';

/** Where the agent of a node listens. */
export interface AgentAddress {
  readonly address: Address;
  readonly port: number;
}

/** Hears of one link. */
interface LinkSink {
  /** The first event of a connection has every field; `isFirst` tells it. */
  event(event: ProgrammedEvent, isFirst: boolean): void;
  /** No connection: the reason as a clause. `isTooOld`: the agent has no such stream. Another try follows. */
  failed(why: string, isTooOld: boolean): void;
}

interface LinkOptions {
  readonly node: string;
  readonly at: AgentAddress;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  /** From 0 to 1, without 1. */
  readonly random: () => number;
  /** Milliseconds between two events, at least. Asked for each connection. */
  readonly pace: () => number;
  /** The token that the agent checks; undefined: none. Rejects with a clause. Asked for each connection. */
  readonly token: () => Promise<string | undefined>;
  readonly sink: LinkSink;
}

/** Milliseconds without a byte. An agent sends a comment every 15 s. */
export const SILENCE_TIMEOUT_MS = 45_000;
/** Milliseconds for a connection and the first byte of its answer. */
export const ANSWER = 10_000;
/** Milliseconds until the second try, and the longest pause between two. Somebody may wait for this node. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 5000;
/** Milliseconds until an agent without the stream is asked again: it may have been upgraded. */
const OLD_PAUSE = 10_000;
/** Bytes of a refusal that are read. */
const MAX_REFUSAL_BYTES = 4096;

/** Connections are long, and never shared. */
const CONNECTIONS = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

class AgentLink {
  readonly #options: LinkOptions;
  #request: ClientRequest | undefined;
  /** Of the present connection, or of the try to make one. */
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

  /** Its first event has come, and the connection lasts. */
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

  /** To be called every second or so: ends a connection on which nothing comes. */
  check(now: number): void {
    const request = this.#request;
    if (request === undefined) return;
    const most = this.#isOpen ? SILENCE_TIMEOUT_MS : ANSWER;
    if (now - this.#heardAt < most) return;
    const what = this.#isOpen ? 'it sent nothing' : 'it did not answer';
    this.#fail(request, `${what} for ${most / 1000} s`);
  }

  /** End the connection and make another one, such as when the pace is another one. */
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

  /** `request`: the one that failed; an earlier one has failed already. */
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
    const pause = isTooOld ? OLD_PAUSE : Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#failures - 1, 10));
    this.#cancel = clock.after(pause * (0.5 + random()), () => void this.#connect());
    sink.failed(why, isTooOld);
  }
}

/** Calls `told` with what a refusal says. Redirects are not followed: they would carry the token elsewhere. */
function readRefusal(response: IncomingMessage, told: (why: string, isTooOld: boolean) => void): void {
  const { statusCode = 0, headers } = response;
  const isTooOld = statusCode === 404;
  let body = '';
  const end = () => {
    const to = headers.location === undefined ? '' : ` to ${headers.location.slice(0, 200)}, which is not followed`;
    const said = isTooOld ? '' : saidIn(body);
    const why = isTooOld ? `it is too old: it has no /programmed/live` : `it answered ${statusCode}`;
    told(`${why}${to}${said === '' ? '' : `: ${said}`}`, isTooOld);
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

/** The first event has everything, and is of the node whose agent this is: an address may have become that of another one. */
function mustBegin({ agent, marks }: ProgrammedEvent, node: string): void {
  if (agent === undefined || marks === undefined || marks.length === 0)
    throw new NotAnEvent(`its first event has no ${agent === undefined ? 'agent' : 'marks'}`);
  if (agent.node !== node) throw new NotAnEvent(`the agent at this address is that of the node ${agent.node}`);
}

/** What a refusal says, without its form. */
function saidIn(body: string): string {
  try {
    const { message } = JSON.parse(body) as { readonly message?: unknown };
    if (typeof message === 'string') return message.slice(0, 300);
  } catch {
    // It is plain text.
  }
  return (body.split('\n')[0] ?? '').trim().slice(0, 300);
}

// The events of an agent's stream, from the pieces in which it comes.

/** Characters of a line: the first event of an agent that is behind with a thousand Services has some hundred thousand. */
export const MAX_LINE_LENGTH = 1 << 20;

/**
 * Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) whose data is one line. Comments and the
 * names of events are passed over.
 */
class EventLines {
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

// The connections to all agents: as many as there are nodes with an agent, and none is made at the same moment as all others.

/** Hears of all links, by node. */
interface LinksSink {
  event(node: string, event: ProgrammedEvent, isFirst: boolean): void;
  failed(node: string, why: string, isTooOld: boolean): void;
}

interface LinksOptions {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly random: () => number;
  readonly token: () => Promise<string | undefined>;
  /** Milliseconds between two events of an agent, at least: more with more agents. */
  readonly pace: () => number;
  readonly sink: LinksSink;
}

/** Milliseconds between two looks for silent connections. */
const SWEEP = 1000;
/** Milliseconds for each agent over which first tries are spread: 5,000 agents are asked within some seconds. */
const SPREAD = 0.5;

export class AgentLinks {
  readonly #options: LinksOptions;
  readonly #links = new Map<string, AgentLink>();
  /** The pace with which most connections were opened. */
  #pace = 0;
  #cancel: () => void;
  #events = 0;

  constructor(options: LinksOptions) {
    this.#options = options;
    this.#cancel = this.#sweepLater();
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

  /** Where the agent of a node is now; undefined: nowhere. Returns whether it has moved; otherwise nothing happens. */
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
    this.#links.set(node, new AgentLink(options, random() * SPREAD * this.#links.size));
    this.#keepPace();
    return true;
  }

  close(): void {
    this.#cancel();
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }

  /** Where there are twice as many agents as before, all connections are made anew, within some seconds. */
  #keepPace(): void {
    const pace = this.#options.pace();
    if (this.#pace > 0 && pace < 2 * this.#pace) return;
    this.#pace = pace;
    for (const link of this.#links.values()) link.renew();
  }

  #sweepLater(): () => void {
    const { clock } = this.#options;
    return clock.after(SWEEP, () => {
      const now = clock.now();
      for (const link of this.#links.values()) link.check(now);
      this.#cancel = this.#sweepLater();
    });
  }
}
