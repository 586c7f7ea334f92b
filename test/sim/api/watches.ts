/** All answers that the simulated API server has under way: its watches, and the bodies of its lists. */
import { KEEP_ALIVE } from '../../../src/cluster/api/answer.ts';
import { ConnectionDead } from '../../../src/cluster/api/http2.ts';
import { watchType } from '../../helpers/cluster/api/api-forms.ts';
import { bookmarkEvent, changeEvent } from '../../helpers/cluster/api/api-lists.ts';
import type { ApiStore, Change } from '../../helpers/cluster/api/api-store.ts';
import type { SimTime } from '../engine/time.ts';
import type { WatchAnswer, WholeAnswer } from './answers.ts';
import { SimBody } from './body.ts';
import { type Caller, incoming, wholeAnswer } from './connection.ts';
import { connectionReset, connectionTimedOut } from './errors.ts';
import type { Answered, Cut } from './faults.ts';
import { SimWatch } from './watch.ts';

/** Milliseconds until the kernel ends a quiet connection whose peer is gone: it probes after KEEP_ALIVE, and ten times. */
const KEPT_ALIVE = KEEP_ALIVE + 10_000;

/** `some`: each second connection, where each watch has one of its own, as over HTTP/1.1. */
export type Whom = 'all' | 'some';

/** Milliseconds until a watch that a fault cuts ends, where nothing is told on it. */
const CUT_WITHIN = 2000;

interface Open {
  readonly watch: SimWatch;
  readonly caller: Caller;
}

export class Watches {
  readonly #time: SimTime;
  readonly #store: ApiStore;
  readonly #open = new Set<Open>();
  /** Answers that are no watches. */
  readonly #whole = new Set<Answered>();
  /** Milliseconds by kind. */
  readonly #lags = new Map<string, number>();

  readonly #isHttp1: boolean;

  /** `isHttp1`: each answer has a connection of its own, without PINGs. */
  constructor(time: SimTime, store: ApiStore, { isHttp1 = false }: { readonly isHttp1?: boolean } = {}) {
    this.#time = time;
    this.#store = store;
    this.#isHttp1 = isHttp1;
  }

  get count(): number {
    return this.#open.size;
  }

  tell(change: Change): void {
    for (const { watch } of [...this.#open]) watch.say(changeEvent(watch.watched, change));
  }

  open(answer: WatchAnswer, what: string, caller: Caller): Answered {
    const { process, signal } = caller;
    const onClose = () => {
      this.#open.delete(open);
      watch.closed();
    };
    const body = new SimBody({ process, what: `${what} (watch)`, signal, onClose });
    const { collection, after } = answer.watched;
    const bookmark = () => {
      // As the real server: none before something of that kind changed after the version at which the watch began.
      const isNews = this.#store.lastChange(collection.kind) > after;
      return isNews ? bookmarkEvent(answer.watched, this.#store.version) : undefined;
    };
    const lag = () => this.#lags.get(collection.kind) ?? 0;
    const watch = new SimWatch({ answer, body, time: this.#time, lag, bookmark });
    const open: Open = { watch, caller };
    this.#open.add(open);
    watch.begin(this.#store);
    const cut = (how: Cut) => {
      if (how.kind === 'pause') watch.pause(how.milliseconds);
      else watch.tear(how.kind, CUT_WITHIN);
    };
    const reset = () => body.fail(connectionReset());
    return { ...incoming(200, watchType(answer.form), body), begin: () => undefined, cut, reset };
  }

  whole(answer: WholeAnswer, what: string, caller: Caller): Answered {
    const onClose = () => this.#whole.delete(answered);
    const answered = wholeAnswer(answer, what, caller, onClose);
    this.#whole.add(answered);
    return answered;
  }

  reset(whom: Whom): void {
    for (const { watch } of chosen(this.#open, whom)) watch.body.fail(connectionReset());
    for (const answered of chosen(this.#whole, whom)) answered.reset();
  }

  end(): void {
    for (const { watch } of this.#open) watch.body.end();
  }

  silence(how: 'dead' | 'swallowed', whom: Whom): void {
    for (const { watch, caller } of chosen(this.#open, whom))
      watch.silence(how === 'dead' ? this.#foundDead(caller) : undefined);
  }

  #foundDead({ pings }: Caller): { readonly after: number; readonly error: Error } {
    if (this.#isHttp1) return { after: KEPT_ALIVE, error: connectionTimedOut() };
    const after = pings.every + pings.answer;
    return { after, error: new ConnectionDead(`no answer to a PING: nothing was received for ${after / 1000} s`) };
  }

  tear(how: 'reset' | 'short', within: number): void {
    for (const { watch } of this.#open) watch.tear(how, within);
  }

  lag(kind: string, milliseconds: number): void {
    if (milliseconds > 0) this.#lags.set(kind, milliseconds);
    else this.#lags.delete(kind);
  }
}

function chosen<T>(all: Iterable<T>, whom: Whom): readonly T[] {
  return [...all].filter((_, i) => whom === 'all' || i % 2 === 0);
}
