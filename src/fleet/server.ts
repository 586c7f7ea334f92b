/**
 * The server of `slicewire fleet`: /drained, /programmed, the page with its stream, /metrics, /healthz, /livez, /readyz, /statusz and
 * /flagz. Health and metrics are answered to everybody, the rest to those whom `auth` admits.
 */
import { parseAddress, socketAddress } from '../base/address.ts';
import { type Clock, sleep } from '../base/clock.ts';
import { parseDuration } from '../base/duration.ts';
import type { Drained } from '../inspect/wire/drained.ts';
import { NoAnswer, WrongQuestion } from '../inspect/wire/envelope.ts';
import type { FleetProgrammed } from '../inspect/wire/fleet.ts';
import type { Auth } from '../serve/auth.ts';
import { FOLLOWER_PATHS, type FollowingProgram, followerAnswer } from '../serve/following-program.ts';
import { type Answer, type Handler, type HttpRequest, jsonAnswer, NOT_FOUND } from '../serve/http.ts';
import { FLEET_PAGE, pageAnswer, type ReadPage } from '../serve/page.ts';
import { checkParameters, errorAnswer } from '../serve/query-handler.ts';
import { type Component, type ComponentInfo, zpageAnswer } from '../serve/zpages.ts';
import type { FleetAnswers } from './answers.ts';
import type { Drains } from './drains.ts';
import type { FleetNodes } from './fleet-nodes.ts';
import type { DrainTarget } from './types.ts';

interface FleetServerParts extends FollowingProgram {
  readonly questions: Pick<FleetQuestions, 'drained' | 'programmed'>;
  /** Opens the stream of the page. Throws NoAnswer. */
  readonly live: (request: HttpRequest) => Answer;
  readonly auth: Auth;
  readonly readPage: ReadPage;
  readonly component: ComponentInfo;
}

const PATHS = ['/', '/drained', '/programmed', '/live', ...FOLLOWER_PATHS, '/statusz', '/flagz'];

export function fleetHandler(parts: FleetServerParts): Handler {
  const component: Component = {
    ...{ name: 'slicewire-fleet', flag: '--bind-address', ...parts.component },
    ...{ paths: () => PATHS, isLocal: () => false },
  };
  return async (request: HttpRequest) => {
    const own = await followerAnswer(parts, request, component.flag);
    if (own !== undefined) return own;
    try {
      return (await parts.auth(request)) ?? (await admitted(parts, component, request));
    } catch (error) {
      return errorAnswer(error);
    }
  };
}

/** The answer to a client that `auth` admitted. */
async function admitted(parts: FleetServerParts, component: Component, request: HttpRequest): Promise<Answer> {
  const { questions, live, readPage } = parts;
  switch (request.path) {
    case '/drained': {
      const answer = await questions.drained(request);
      return jsonAnswer(answer.drained ? 200 : 504, `${JSON.stringify(answer)}\n`);
    }
    case '/programmed':
      return jsonAnswer(200, `${JSON.stringify(questions.programmed(request))}\n`);
    case '/live':
      return live(request);
    default:
      // `auth` decided already. Clients use the name of the fleet's Service, which these pages would refuse.
      return (
        zpageAnswer(component, { ...request, host: 'localhost', site: undefined }) ??
        pageAnswer(FLEET_PAGE, readPage, () => undefined, request) ??
        NOT_FOUND
      );
  }
}

export interface FleetQuestionsOptions {
  readonly drains: Pick<Drains, 'ask'>;
  readonly nodes: Pick<FleetNodes, 'nodeOf' | 'isComplete'>;
  readonly answers: Pick<FleetAnswers, 'programmed'>;
  readonly clock: Clock;
  /** The reason why the newest objects are unknown, as a sentence; undefined when they are known. */
  readonly gap: () => string | undefined;
}

/** `timeout=` of a request. */
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 600_000;
/** Pause between two checks whether the watches work again. */
const CHECK_PAUSE_MS = 50;
/** Questions of one client that wait at once. A Node has some hundred Pods. */
export const MAX_QUESTIONS_PER_CLIENT = 500;

const DRAINED = ['pod', 'address', 'service', 'timeout'];
const KEY = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Reads the requests for `/drained` and `/programmed`, and waits for the answers. */
export class FleetQuestions {
  readonly #options: FleetQuestionsOptions;
  /** Questions that wait, by the name of the Node that asks, or by an address that belongs to none. */
  readonly #waiting = new Map<string, number>();
  #stopped: string | undefined;

  constructor(options: FleetQuestionsOptions) {
    this.#options = options;
  }

  /** Questions that wait for the lists, for the Nodes, or for the end of a drain. */
  get waiting(): number {
    let all = 0;
    for (const count of this.#waiting.values()) all += count;
    return all;
  }

  /** Questions that wait for lists, and all later ones, get this text as NoAnswer. */
  stop(why: string): void {
    this.#stopped = why;
  }

  /**
   * Resolves when the endpoint is drained, or the time is over. Throws WrongQuestion, and NoAnswer when the fleet does not know the newest
   * objects, has too many questions, or stops.
   */
  async drained(request: HttpRequest): Promise<Drained> {
    const { clock } = this.#options;
    checkParameters(request, { parameters: DRAINED });
    const until = clock.now() + timeoutOf(request.query);
    const subject = subjectOf(request.query);
    request.mayWait?.();
    return await this.#counted(request, async () => await this.#wait(request, subject, until));
  }

  async #wait(request: HttpRequest, subject: DrainSubject, until: number): Promise<Drained> {
    const { clock, drains, gap } = this.#options;
    const { signal } = request;
    for (;;) {
      await this.#untilKnown(until, signal);
      const target = subject.kind === 'service' ? this.#onNode(subject.service, request) : subject;
      const answer = await drains.ask(target, { timeout: Math.max(0, until - clock.now()), signal });
      // A watch that broke meanwhile may have missed that the target takes connections again.
      if (!answer.drained || gap() === undefined) return answer;
    }
  }

  /** The progress of the nodes, for one Service or for all. Throws WrongQuestion and NoAnswer. */
  programmed(request: HttpRequest): FleetProgrammed {
    checkParameters(request, { parameters: ['service'] });
    const service = request.query.get('service') ?? undefined;
    if (service !== undefined) mustBeKey('service', service);
    return this.#options.answers.programmed(service);
  }

  /**
   * Whether a request comes from a kubelet for a preStop hook. A kubelet can send no token, and asks for the endpoints on its own Node. The
   * Nodes must be known to decide that, so this waits for their list. While the fleet stops, every such question goes on to its refusal.
   * Rejects with the signal's reason, and with NoAnswer when the client has too many questions.
   */
  async isOfNode(request: HttpRequest): Promise<boolean> {
    const { clock, nodes } = this.#options;
    if (request.path !== '/drained' || !request.query.has('service')) return false;
    const until = clock.now() + DEFAULT_TIMEOUT_MS;
    const isOver = () => nodes.isComplete || this.#stopped !== undefined || clock.now() >= until;
    if (!isOver()) {
      request.mayWait?.();
      await this.#counted(request, async () => {
        while (!isOver()) await sleep(clock, CHECK_PAUSE_MS, request.signal);
      });
    }
    return this.#stopped !== undefined || this.#nodeOf(request) !== undefined;
  }

  /** Counts a question of this client while it waits. Throws NoAnswer when it has too many. */
  async #counted<T>(request: HttpRequest, wait: () => Promise<T>): Promise<T> {
    if (this.#stopped !== undefined) throw new NoAnswer(this.#stopped);
    const client = this.#nodeOf(request) ?? request.remote;
    const before = this.#waiting.get(client) ?? 0;
    if (before >= MAX_QUESTIONS_PER_CLIENT)
      throw new NoAnswer(`${MAX_QUESTIONS_PER_CLIENT} questions from ${client} wait already: ask again later`);
    this.#waiting.set(client, before + 1);
    try {
      return await wait();
    } finally {
      const left = (this.#waiting.get(client) ?? 1) - 1;
      if (left > 0) this.#waiting.set(client, left);
      else this.#waiting.delete(client);
    }
  }

  #nodeOf({ remote }: HttpRequest): string | undefined {
    const address = socketAddress(remote);
    return address && this.#options.nodes.nodeOf(address);
  }

  #onNode(service: string, request: HttpRequest): DrainTarget {
    const node = this.#nodeOf(request);
    if (node !== undefined) return { kind: 'terminating', service, node };
    const why = `the request comes from ${request.remote}, which is no address of a Node and in no range of its pods`;
    throw new WrongQuestion(`/drained: service asks for the endpoints on the Node that asks, but ${why}: ask with pod`);
  }

  async #untilKnown(until: number, signal: AbortSignal): Promise<void> {
    const { clock, gap } = this.#options;
    for (let why = gap(); why !== undefined; why = gap()) {
      if (this.#stopped !== undefined) throw new NoAnswer(this.#stopped);
      if (clock.now() >= until) throw new NoAnswer(`${why}: ask again`);
      await sleep(clock, CHECK_PAUSE_MS, signal);
    }
  }
}

type DrainSubject =
  | Exclude<DrainTarget, { kind: 'terminating' }>
  | { readonly kind: 'service'; readonly service: string };

function subjectOf(query: URLSearchParams): DrainSubject {
  const given = DRAINED.filter((name) => name !== 'timeout' && query.has(name));
  const [name, ...others] = given;
  if (name === undefined || others.length > 0) {
    const got = name === undefined ? 'none of them is given' : `${given.join(' and ')} are given`;
    throw new WrongQuestion(`/drained takes one of pod, address and service, but ${got}`);
  }
  const value = query.get(name) ?? '';
  if (name === 'address') {
    const address = parseAddress(value);
    if (address === undefined) throw new WrongQuestion(`/drained: address=${shown(value)}: must be an IP address`);
    return { kind: 'address', address };
  }
  mustBeKey(name, value);
  return name === 'pod' ? { kind: 'pod', pod: value } : { kind: 'service', service: value };
}

function mustBeKey(name: string, value: string): void {
  if (!KEY.test(value)) throw new WrongQuestion(`${name}=${shown(value)}: must be NAMESPACE/NAME, such as shop/web`);
}

function timeoutOf(query: URLSearchParams): number {
  const text = query.get('timeout');
  if (text === null) return DEFAULT_TIMEOUT_MS;
  const milliseconds = parseDuration(text);
  if (milliseconds === undefined || milliseconds < 0 || milliseconds > MAX_TIMEOUT_MS)
    throw new WrongQuestion(`/drained: timeout=${shown(text)}: must be a duration such as 30s, at most 10m`);
  return milliseconds;
}

const shown = (text: string) => text.slice(0, 100);
