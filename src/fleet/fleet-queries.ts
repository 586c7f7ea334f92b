/** `/drained` and `/programmed` of the fleet: reads what is asked, and waits. */

import { parseAddress, socketAddress } from '../base/address.ts';
import { type Clock, sleep } from '../base/clock.ts';
import { parseDuration } from '../base/duration.ts';
import type { Drained } from '../inspect/wire/drained.ts';
import { NoAnswer, WrongQuestion } from '../inspect/wire/envelope.ts';
import type { FleetProgrammed } from '../inspect/wire/fleet.ts';
import type { HttpRequest } from '../serve/http.ts';
import { checkParameters } from '../serve/query-handler.ts';
import type { FleetAnswers } from './answers.ts';
import type { Drains } from './drains.ts';
import type { DrainTarget } from './fleet-objects.ts';
import type { FleetNodes } from './nodes.ts';

export interface FleetQuestionsOptions {
  readonly drains: Pick<Drains, 'ask'>;
  readonly nodes: Pick<FleetNodes, 'nodeOf' | 'isComplete'>;
  readonly answers: Pick<FleetAnswers, 'programmed'>;
  readonly clock: Clock;
  /** Why the newest objects are not known, as a sentence; undefined: they are. */
  readonly gap: () => string | undefined;
}

/** Milliseconds of `timeout=`: without it, and at most. */
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 600_000;
/** Milliseconds between two looks whether the watches work again. */
const LOOK_PAUSE_MS = 50;
/** Questions of one asker that wait at once: a Node has some hundred Pods. */
export const MAX_QUESTIONS_PER_ASKER = 500;

const DRAINED = ['pod', 'address', 'service', 'timeout'];
const KEY = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export class FleetQuestions {
  readonly #options: FleetQuestionsOptions;
  /** How many questions of each asker wait: a Node's name, or an address that is of none. */
  readonly #waiting = new Map<string, number>();
  #stopped: string | undefined;

  constructor(options: FleetQuestionsOptions) {
    this.#options = options;
  }

  /** Questions that wait: for the lists, for the Nodes, or for an end. */
  get waiting(): number {
    let all = 0;
    for (const count of this.#waiting.values()) all += count;
    return all;
  }

  /** Those that wait for lists, and all later ones, get this as NoAnswer. */
  stop(why: string): void {
    this.#stopped = why;
  }

  /**
   * Resolves when the endpoint is drained, or the time is over. Throws WrongQuestion, and NoAnswer where the fleet does not know the newest
   * objects, too much is asked, or it stops.
   */
  async drained(asked: HttpRequest): Promise<Drained> {
    const { clock } = this.#options;
    checkParameters(asked, { parameters: DRAINED });
    const until = clock.now() + timeoutOf(asked.query);
    const what = subjectOf(asked.query);
    asked.mayWait?.();
    return await this.#counted(asked, async () => await this.#wait(asked, what, until));
  }

  async #wait(asked: HttpRequest, what: DrainSubject, until: number): Promise<Drained> {
    const { clock, drains, gap } = this.#options;
    const { signal } = asked;
    for (;;) {
      await this.#untilKnown(until, signal);
      const target = what.kind === 'service' ? this.#onNode(what.service, asked) : what;
      const answer = await drains.ask(target, { timeout: Math.max(0, until - clock.now()), signal });
      // A watch that broke meanwhile may have missed that it takes connections again.
      if (!answer.drained || gap() === undefined) return answer;
    }
  }

  /** How far the nodes are, with one Service or all. Throws WrongQuestion and NoAnswer. */
  programmed(asked: HttpRequest): FleetProgrammed {
    checkParameters(asked, { parameters: ['service'] });
    const service = asked.query.get('service') ?? undefined;
    if (service !== undefined) mustBeKey('service', service);
    return this.#options.answers.programmed(service);
  }

  /**
   * Whether a request is that of a kubelet for a preStop hook: it can send no token, and asks for the endpoints on its own Node. The Nodes
   * must be known for that, so it waits for their list. Where the fleet stops, every such question goes on to its refusal. Rejects with the
   * signal's reason, and with NoAnswer where the asker has too many questions.
   */
  async isOfNode(asked: HttpRequest): Promise<boolean> {
    const { clock, nodes } = this.#options;
    if (asked.path !== '/drained' || !asked.query.has('service')) return false;
    const until = clock.now() + DEFAULT_TIMEOUT_MS;
    const isOver = () => nodes.isComplete || this.#stopped !== undefined || clock.now() >= until;
    if (!isOver()) {
      asked.mayWait?.();
      await this.#counted(asked, async () => {
        while (!isOver()) await sleep(clock, LOOK_PAUSE_MS, asked.signal);
      });
    }
    return this.#stopped !== undefined || this.#nodeOf(asked) !== undefined;
  }

  /** Counts a question of this asker while it waits. Throws NoAnswer where it has too many. */
  async #counted<T>(asked: HttpRequest, wait: () => Promise<T>): Promise<T> {
    if (this.#stopped !== undefined) throw new NoAnswer(this.#stopped);
    const asker = this.#nodeOf(asked) ?? asked.remote;
    const before = this.#waiting.get(asker) ?? 0;
    if (before >= MAX_QUESTIONS_PER_ASKER)
      throw new NoAnswer(`${MAX_QUESTIONS_PER_ASKER} questions from ${asker} wait already: ask again later`);
    this.#waiting.set(asker, before + 1);
    try {
      return await wait();
    } finally {
      const left = (this.#waiting.get(asker) ?? 1) - 1;
      if (left > 0) this.#waiting.set(asker, left);
      else this.#waiting.delete(asker);
    }
  }

  #nodeOf({ remote }: HttpRequest): string | undefined {
    const address = socketAddress(remote);
    return address && this.#options.nodes.nodeOf(address);
  }

  #onNode(service: string, asked: HttpRequest): DrainTarget {
    const node = this.#nodeOf(asked);
    if (node !== undefined) return { kind: 'terminating', service, node };
    const why = `the request comes from ${asked.remote}, which is no address of a Node and in no range of its pods`;
    throw new WrongQuestion(`/drained: service asks for the endpoints on the Node that asks, but ${why}: ask with pod`);
  }

  async #untilKnown(until: number, signal: AbortSignal): Promise<void> {
    const { clock, gap } = this.#options;
    for (let why = gap(); why !== undefined; why = gap()) {
      if (this.#stopped !== undefined) throw new NoAnswer(this.#stopped);
      if (clock.now() >= until) throw new NoAnswer(`${why}: ask again`);
      await sleep(clock, LOOK_PAUSE_MS, signal);
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
