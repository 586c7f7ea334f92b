/**
 * Simulated time for a whole process: no code, of slicewire or of a library, can read another clock, wait for another timer, or throw other
 * dice. Timers belong to the simulated process that made them. Time passes only in `runUntil`, when nothing is left to do.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { setImmediate as realImmediate } from 'node:timers';

/** Who makes timers: a simulated process. A dead one's timers never call. */
export interface TimerOwner {
  readonly isDead: boolean;
}

/** No simulated process: such timers always call. */
export const NOBODY: TimerOwner = { isDead: false };

/** Milliseconds since 1970 when a history begins. */
const BEGINNING = Date.UTC(2026, 10, 22, 12);
/** Turns of the event loop in which nothing may happen before time passes. */
const QUIET_TURNS = 2;
/** So many turns without a pause in time mean that the code under test never rests. */
const MAX_TURNS = 50_000;

interface Timer {
  readonly id: number;
  at: number;
  readonly every: number | undefined;
  readonly delay: number;
  readonly call: () => void;
  readonly owner: TimerOwner | undefined;
}

/** Signals that abort by time: nobody ends them, and they keep no process alive. */
const SIGNALS: TimerOwner = { isDead: false };

/** Something went on without an end, and time could not pass. */
export class NeverRests extends Error {
  readonly code = 'NEVER_RESTS';
}

export class SimTime {
  readonly owners = new AsyncLocalStorage<TimerOwner>();
  readonly #random: () => number;
  readonly #timers = new Map<number, Timer>();
  #breaths: (() => void)[] = [];
  /** Joined signals: those that aborted may be forgotten meanwhile. */
  #joined: WeakRef<AbortSignal>[] = [];
  readonly #listeners = new WeakMap<AbortSignal, Parameters<AbortSignal['addEventListener']>[]>();
  #now = 0;
  #wallOffset = 0;
  #stalled = 0;
  #ids = 0;
  #activity = 0;

  /** `random` answers Math.random. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** Milliseconds since the history began. */
  get now(): number {
    return this.#now;
  }

  get wall(): number {
    return Math.floor(BEGINNING + this.#now + this.#wallOffset);
  }

  /** Somebody sets the machine's clock. */
  setWallBy(milliseconds: number): void {
    this.#wallOffset += milliseconds;
  }

  /** A call that does not return for a while: time passes, and nobody else runs. */
  stall(milliseconds: number): void {
    this.#now += milliseconds;
    this.#stalled += milliseconds;
  }

  /** Milliseconds in which somebody could run. */
  get running(): number {
    return this.#now - this.#stalled;
  }

  /** Something happened that is no timer: a quiet turn begins again. */
  stir(): void {
    this.#activity += 1;
  }

  /** The number of timers of an owner that is alive. */
  timersOf(owner: TimerOwner): number {
    return [...this.#timers.values()].filter((timer) => timer.owner === owner).length;
  }

  after(milliseconds: number, call: () => void, owner = this.owners.getStore()): () => void {
    const { id } = this.#add(call, { delay: milliseconds, owner });
    return () => this.#timers.delete(id);
  }

  /** Resolves after so many milliseconds, unless the owner is dead then. Rejects with the signal's reason. */
  pause(
    milliseconds: number,
    { owner, signal }: { readonly owner?: TimerOwner; readonly signal?: AbortSignal | undefined },
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const onAbort = () => {
        cancel();
        reject(signal?.reason);
      };
      const done = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      const cancel = this.after(milliseconds, done, owner);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Runs everything that is due until then. `onTurn` is called after each quiet moment; it may throw. */
  async runUntil(end: number, onQuiet: () => void = () => undefined): Promise<void> {
    for (;;) {
      await this.settle();
      onQuiet();
      const next = this.#next();
      if (next === undefined || next.at > end) break;
      this.#now = Math.max(this.#now, next.at);
      this.#fire(next);
    }
    this.#now = Math.max(this.#now, end);
  }

  /** Resolves when nothing is left to do at this moment. Throws NeverRests. */
  async settle(): Promise<void> {
    let quiet = 0;
    for (let turns = 0; quiet < QUIET_TURNS; turns++) {
      if (turns > MAX_TURNS) throw new NeverRests(`at ${this.#now} ms something goes on without an end`);
      const before = this.#activity;
      await new Promise<void>((resolve) => realImmediate(resolve));
      const breaths = this.#breaths;
      this.#breaths = [];
      for (const breathe of breaths) breathe();
      quiet = breaths.length === 0 && before === this.#activity ? quiet + 1 : 0;
    }
  }

  /** Replaces the clocks, timers and dice of this process; the result puts the real ones back. */
  install(): () => void {
    const timersPromises = createRequire(import.meta.url)('node:timers/promises') as Record<string, unknown>;
    const RealDate = Date;
    const wall = () => this.wall;
    class SimDate extends RealDate {
      constructor(...parts: readonly unknown[]) {
        if (parts.length === 0) super(wall());
        else super(...(parts as [number]));
      }
      static override now(): number {
        return wall();
      }
    }
    const undo = [
      replace(globalThis, {
        setTimeout: (call: (...args: unknown[]) => void, delay = 0, ...args: unknown[]) =>
          this.#handle(this.#add(() => call(...args), { delay })),
        setInterval: (call: (...args: unknown[]) => void, delay = 1, ...args: unknown[]) =>
          this.#handle(this.#add(() => call(...args), { delay, every: Math.max(1, delay) })),
        clearTimeout: (handle: unknown) => this.#clear(handle),
        clearInterval: (handle: unknown) => this.#clear(handle),
        Date: SimDate,
      }),
      replace(performance, { now: () => this.#now }),
      replace(Math, { random: this.#random }),
      replace(crypto, { randomUUID: () => this.#uuid() }),
      replace(AbortSignal, {
        timeout: (delay: number) => this.#timeoutSignal(delay),
        any: this.#joinedSignals(AbortSignal.any.bind(AbortSignal)),
      }),
      replace(timersPromises, {
        setImmediate: (value: unknown) =>
          new Promise((resolve) => {
            this.#breaths.push(() => resolve(value));
          }),
        setTimeout: (delay: number, value: unknown, options: { readonly signal?: AbortSignal } = {}) =>
          this.pause(delay, options).then(() => value),
      }),
    ];
    syncBuiltinESMExports();
    return () => {
      for (const back of undo) back();
      syncBuiltinESMExports();
    };
  }

  /** Forget all timers, and what waits for signals: the history is over. */
  end(): void {
    this.#timers.clear();
    this.#breaths = [];
    for (const reference of this.#joined) {
      const signal = reference.deref();
      if (signal === undefined) continue;
      for (const [type, call, options] of this.#listeners.get(signal) ?? [])
        signal.removeEventListener(type, call, options);
    }
    this.#joined = [];
  }

  #add(
    call: () => void,
    { delay, every, owner = this.owners.getStore() }: { delay: number; every?: number; owner?: TimerOwner | undefined },
  ): Timer {
    const wait = Number.isFinite(delay) && delay > 0 ? delay : 1;
    const timer: Timer = { id: ++this.#ids, at: this.#now + wait, delay: wait, every, call, owner };
    this.#timers.set(timer.id, timer);
    return timer;
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers.values()) {
      if (timer.owner?.isDead === true) this.#timers.delete(timer.id);
      else if (next === undefined || timer.at < next.at) next = timer;
    }
    return next;
  }

  #fire(timer: Timer): void {
    if (timer.every === undefined) this.#timers.delete(timer.id);
    else timer.at = this.#now + timer.every;
    const { owner, call } = timer;
    try {
      if (owner === undefined) call();
      else this.owners.run(owner, call);
    } catch (error) {
      // It was killed in the middle of it.
      if (owner?.isDead !== true) throw error;
    }
  }

  #handle(timer: Timer): object {
    const handle = {
      [Symbol.toPrimitive]: () => timer.id,
      hasRef: () => true,
      ref: () => handle,
      unref: () => handle,
      close: () => {
        this.#timers.delete(timer.id);
        return handle;
      },
      refresh: () => {
        timer.at = this.#now + timer.delay;
        this.#timers.set(timer.id, timer);
        return handle;
      },
    };
    return handle;
  }

  #uuid(): string {
    const hex = () =>
      Math.floor(this.#random() * 2 ** 16)
        .toString(16)
        .padStart(4, '0');
    return `${hex()}${hex()}-${hex()}-4${hex().slice(1)}-8${hex().slice(1)}-${hex()}${hex()}${hex()}`;
  }

  #clear(handle: unknown): void {
    if (handle !== undefined && handle !== null) this.#timers.delete(Number(handle));
  }

  /**
   * AbortSignal.any: Node.js keeps a joined signal, and so all that waits for it, until it aborts. That of a process which was killed never
   * does, so that each history would stay in memory.
   */
  #joinedSignals(join: typeof AbortSignal.any): typeof AbortSignal.any {
    return (signals) => {
      const signal = join(signals);
      const add = signal.addEventListener.bind(signal);
      const listeners: Parameters<typeof add>[] = [];
      signal.addEventListener = (...listener: Parameters<typeof add>) => {
        add(...listener);
        listeners.push(listener);
      };
      this.#joined.push(new WeakRef(signal));
      this.#listeners.set(signal, listeners);
      return signal;
    };
  }

  #timeoutSignal(delay: number): AbortSignal {
    const abort = new AbortController();
    this.#add(() => abort.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), {
      delay,
      owner: SIGNALS,
    });
    return abort.signal;
  }
}

/** Replaces properties; the result puts the former ones back. */
function replace(target: object, properties: Readonly<Record<string, unknown>>): () => void {
  const before = Object.keys(properties).map((name) => [name, Object.getOwnPropertyDescriptor(target, name)] as const);
  for (const [name, value] of Object.entries(properties)) {
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: true });
  }
  return () => {
    for (const [name, descriptor] of before) {
      if (descriptor === undefined) Reflect.deleteProperty(target, name);
      else Object.defineProperty(target, name, descriptor);
    }
  };
}
