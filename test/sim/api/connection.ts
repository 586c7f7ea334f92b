/** The agent's connection to the simulated API server: what `ApiTransport` is to a real one. Each request is a numbered call. */
import { type Incoming, type Outgoing, withinTimeout } from '../../../src/cluster/api/answer.ts';
import type { PingTimes } from '../../../src/cluster/api/http2.ts';
import type { Requests } from '../../../src/cluster/api/transport.ts';
import type { Call, SimProcess } from '../engine/process.ts';
import { reasonPhrase, type WholeAnswer } from './answers.ts';
import { SimBody } from './body.ts';
import { connectionReset } from './errors.ts';
import { type Answered, type Cut, cutOf, failed, failureOf } from './faults.ts';
import { SERVER } from './watch.ts';

/** Of whom a request is. */
export interface Caller {
  readonly process: SimProcess;
  readonly pings: PingTimes;
  readonly signal: AbortSignal;
}

/** The server, as a connection sees it. */
export interface Answering {
  /** Milliseconds that a request is under way, and its answer as well. */
  readonly latency: () => number;
  /** Throws the error of a connection. undefined: there is no answer at all. */
  answer(outgoing: Outgoing, caller: Caller): Answered | undefined;
}

export class SimConnection implements Requests {
  readonly #server: Answering;
  readonly #process: SimProcess;
  readonly #pings: PingTimes;
  /** Requests whose answers have not ended. */
  readonly #open = new Set<AbortController>();
  #forget: (() => void) | undefined;

  constructor(server: Answering, process: SimProcess, pings: PingTimes) {
    this.#server = server;
    this.#process = process;
    this.#pings = pings;
  }

  async request(outgoing: Outgoing): Promise<Incoming> {
    outgoing.signal.throwIfAborted();
    this.#forget ??= this.#process.opened('connection to the API server', () => this.#open.clear());
    const until = new AbortController();
    const onAbort = () => until.abort(outgoing.signal.reason);
    outgoing.signal.addEventListener('abort', onAbort, { once: true });
    this.#open.add(until);
    const done = () => {
      outgoing.signal.removeEventListener('abort', onAbort);
      this.#open.delete(until);
    };
    try {
      const call = this.#call(outgoing, until.signal);
      const answered = this.#process.call(call, until.signal);
      const answer = await withinTimeout(answered, (error) => until.abort(error));
      answer.body.once('close', done);
      if (answer.body.destroyed) done();
      answer.begin();
      return answer;
    } catch (error) {
      // The answer of a request that failed is read by nobody.
      until.abort(error);
      done();
      throw error;
    }
  }

  close(): void {
    this.#forget?.();
    this.#forget = undefined;
    for (const request of this.#open) request.abort(new Error('the client was closed'));
    this.#open.clear();
  }

  #call(outgoing: Outgoing, signal: AbortSignal): Call<Answered | Promise<Answered>> {
    const caller: Caller = { process: this.#process, pings: this.#pings, signal };
    const what = `${outgoing.method} ${outgoing.url.pathname}${outgoing.isWatch ? ' (watch)' : ''}`;
    let done: Answered | undefined;
    return {
      what,
      effect: async () => {
        await this.#pause(this.#server.latency(), signal);
        done = this.#server.answer(outgoing, caller) ?? (await never(signal));
        await this.#pause(this.#server.latency(), signal);
        return done;
      },
      fail: async (variant) => {
        const failure = failureOf(outgoing, variant, done !== undefined);
        done?.body.destroy();
        if (failure === 'unanswered') return await never(signal);
        return wholeAnswer(failed(failure, outgoing), what, caller);
      },
      cut: async (answer, variant) => {
        const received = await answer;
        received.cut(cutOf(variant));
        return received;
      },
    };
  }

  #pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    if (milliseconds <= 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        cancel();
        reject(signal.reason);
      };
      const arrived = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const cancel = this.#process.time.after(milliseconds, arrived, SERVER);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }
}

/** Nothing comes until who asked gives up. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** An answer whose body is sent when it begins. */
export function wholeAnswer(
  { status, headers, bytes }: WholeAnswer,
  what: string,
  caller: Caller,
  onEnd: () => void = () => undefined,
): Answered {
  const { process, signal } = caller;
  let cancel: () => unknown = () => undefined;
  let how: Cut | undefined;
  const onClose = () => {
    cancel();
    onEnd();
  };
  const body = new SimBody({ process, what, signal, onClose });
  const end = (from: number) => {
    body.send(bytes.subarray(from));
    body.end();
  };
  const begin = () => {
    if (how === undefined) return end(0);
    const half = bytes.length >> 1;
    body.send(bytes.subarray(0, half));
    if (how.kind !== 'pause') body.cut(how.kind);
    else cancel = process.time.after(how.milliseconds, () => end(half), SERVER);
  };
  const cut = (it: Cut) => {
    how = it;
  };
  return { ...incoming(status, headers, body), begin, cut, reset: () => body.fail(connectionReset()) };
}

export function incoming(status: number, headers: Readonly<Record<string, string>>, body: SimBody): Incoming {
  return { status, statusText: reasonPhrase(status), headers, body: body.stream, isWhole: body.isWhole };
}
