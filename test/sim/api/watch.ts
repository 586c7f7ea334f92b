/** One watch of the simulated API server: events in order, late or not at all, torn, and its end. */
import { eventBytes, type Form } from '../../helpers/cluster/api/api-forms.ts';
import {
  changeEvent,
  errorEvent,
  initialEvents,
  type ToldEvent,
  type Watched,
} from '../../helpers/cluster/api/api-lists.ts';
import type { ApiStore } from '../../helpers/cluster/api/api-store.ts';
import type { SimTime, TimerOwner } from '../engine/time.ts';
import type { WatchAnswer } from './answers.ts';
import type { SimBody } from './body.ts';

/** The timers of the server are nobody's. */
export const SERVER: TimerOwner = { isDead: false };

/** Milliseconds from bookmark to bookmark. */
export const BOOKMARKS = 60_000;

export interface WatchOptions {
  readonly answer: WatchAnswer;
  readonly body: SimBody;
  readonly time: SimTime;
  /** Milliseconds until an event of this watch arrives. */
  readonly lag: () => number;
  /** undefined when there is no bookmark now. */
  readonly bookmark: () => ToldEvent | undefined;
}

export class SimWatch {
  readonly watched: Watched;
  readonly body: SimBody;
  readonly #options: WatchOptions;
  readonly #underWay: Buffer[] = [];
  /** When the last event arrives. */
  #due = 0;
  readonly #cancels = new Set<() => void>();
  #isSilent = false;
  #tear: 'reset' | 'short' | undefined;

  constructor(options: WatchOptions) {
    const { answer, body } = options;
    this.watched = answer.watched;
    this.body = body;
    this.#options = options;
  }

  /** Send what it begins with; it goes on until its time is up. */
  begin(store: ApiStore): void {
    const { answer } = this.#options;
    const { problem, timeout, wantsBookmarks, isStream } = answer;
    if (problem !== undefined) {
      this.say(errorEvent(problem));
      this.body.end();
      return;
    }
    if (isStream || this.watched.after === 0)
      for (const event of initialEvents(store, this.watched, isStream)) this.say(event);
    else for (const change of store.changesSince(this.watched.after)) this.say(changeEvent(this.watched, change));
    if (wantsBookmarks) this.#bookmarkLater();
    if (timeout > 0) this.#after(timeout * 1000, () => this.body.end());
  }

  /** An event arrives behind those before it. */
  say(event: ToldEvent | undefined): void {
    if (event === undefined) return;
    const { now } = this.#options.time;
    const due = Math.max(now + this.#options.lag(), this.#due);
    this.#due = due;
    this.#underWay.push(eventBytes(event, this.#options.answer.form));
    if (due > now) this.#after(due - now, () => this.#deliver());
    else if (this.#underWay.length === 1) this.#deliver();
    // Those before it are due at this moment as well; it follows them.
    else this.#after(1, () => this.#deliver());
  }

  /** It says nothing any more. Its end, when its time is up, is still heard, unless `error` ends it before. */
  silence(error?: { readonly after: number; readonly error: Error }): void {
    this.#isSilent = true;
    if (error !== undefined) this.#after(error.after, () => this.body.fail(error.error));
  }

  /** Its next event ends in the middle; what a quiet watch would say is the beginning of an event. */
  tear(how: 'reset' | 'short', within: number): void {
    this.#tear = how;
    this.#after(within, () => {
      if (this.#tear !== undefined) this.#send(beginning(this.#options.answer.form));
    });
  }

  /** What is told from now on arrives after so many milliseconds. */
  pause(milliseconds: number): void {
    this.#due = this.#options.time.now + milliseconds;
  }

  /** The body is closed. */
  closed(): void {
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }

  /** The next event arrives. */
  #deliver(): void {
    const bytes = this.#underWay.shift();
    if (bytes !== undefined && !this.#isSilent) this.#send(bytes);
  }

  #send(bytes: Buffer): void {
    if (this.#tear === undefined) {
      this.body.send(bytes);
      return;
    }
    this.body.send(bytes.subarray(0, bytes.length >> 1));
    this.body.cut(this.#tear);
    this.#tear = undefined;
  }

  #bookmarkLater(): void {
    this.#after(BOOKMARKS, () => {
      this.say(this.#options.bookmark());
      this.#bookmarkLater();
    });
  }

  #after(milliseconds: number, call: () => void): void {
    if (this.body.isOver) return;
    const cancel = this.#options.time.after(
      milliseconds,
      () => {
        this.#cancels.delete(cancel);
        call();
      },
      SERVER,
    );
    this.#cancels.add(cancel);
  }
}

/** Of an event of which less than a half arrives. */
function beginning({ isProtobuf }: Form): Buffer {
  return isProtobuf
    ? Buffer.from('\x00\x00\x01\x00\x0a\x08MODIFIED', 'latin1')
    : Buffer.from('{"type":"MODIFIED","object":{"kind":"');
}
