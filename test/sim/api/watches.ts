/** All answers that the simulated API server has under way: its watches, and the bodies of its lists. */
import { ConnectionDead } from '../../../src/cluster/api/http2.ts';
import { watchType } from '../../helpers/cluster/api/api-forms.ts';
import { bookmarkEvent, changeEvent } from '../../helpers/cluster/api/api-lists.ts';
import type { ApiStore, Change } from '../../helpers/cluster/api/api-store.ts';
import type { SimTime } from '../engine/time.ts';
import type { WatchAnswer, WholeAnswer } from './answers.ts';
import { SimBody } from './body.ts';
import { type Caller, incoming, wholeAnswer } from './connection.ts';
import { connectionReset } from './errors.ts';
import type { Answered, Cut } from './faults.ts';
import { SimWatch } from './watch.ts';

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

  constructor(time: SimTime, store: ApiStore) {
    this.#time = time;
    this.#store = store;
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

  reset(): void {
    for (const { watch } of [...this.#open]) watch.body.fail(connectionReset());
    for (const answered of [...this.#whole]) answered.reset();
  }

  end(): void {
    for (const { watch } of this.#open) watch.body.end();
  }

  silence(how: 'dead' | 'swallowed'): void {
    for (const { watch, caller } of this.#open) {
      const { every, answer } = caller.pings;
      const after = every + answer;
      const text = `no answer to a PING: nothing was received for ${after / 1000} s`;
      watch.silence(how === 'dead' ? { after, error: new ConnectionDead(text) } : undefined);
    }
  }

  tear(how: 'reset' | 'short', within: number): void {
    for (const { watch } of this.#open) watch.tear(how, within);
  }

  lag(kind: string, milliseconds: number): void {
    if (milliseconds > 0) this.#lags.set(kind, milliseconds);
    else this.#lags.delete(kind);
  }
}
