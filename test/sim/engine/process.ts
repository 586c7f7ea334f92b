/**
 * A simulated process: what it calls outside is numbered, and a fault may happen at each number. It can be killed at any of these calls,
 * as by SIGKILL: nothing of it has an effect afterwards, and what it had open is closed by the kernel.
 */
import { NOBODY, type SimTime } from './time.ts';

/** A fault at a call. `variant` chooses among the errors that the call can give. */
export type Fault =
  /** It fails, before it had its effect or after it: then only the answer is lost. */
  | { readonly kind: 'fails'; readonly when: 'before' | 'after'; readonly variant: number }
  /** Its answer takes so long. */
  | { readonly kind: 'slow'; readonly milliseconds: number }
  /** Its answer ends in the middle. Calls whose answers cannot be cut fail after their effect. */
  | { readonly kind: 'cut'; readonly variant: number }
  /** SIGKILL. */
  | { readonly kind: 'kill'; readonly when: 'before' | 'after' };

export interface Call<T> {
  /** For people: `iptables-restore`, `GET /api/v1/services`, `nft transaction`. */
  readonly what: string;
  readonly effect: () => T;
  /** Throws, or returns the answer of a failure. */
  readonly fail: (variant: number) => T;
  readonly cut?: (answer: T, variant: number) => T;
}

/** A call whose answer comes later. */
export interface LaterCall<T> {
  readonly what: string;
  readonly effect: () => T | Promise<T>;
  readonly fail: (variant: number) => T | Promise<T>;
  readonly cut?: (answer: T, variant: number) => T | Promise<T>;
  /** It changes nothing, or a thread waits for it: the process may end meanwhile. */
  readonly mayOutlive?: boolean;
  /** It loads a module, and then opens something in one call of the system: where it is slow, nothing is open until its end, and the process may end before. */
  readonly loadsFirst?: boolean;
  /** What failed opens nothing: closes it where the call fails after its effect. */
  readonly undo?: (answer: T) => void;
}

/** The process is dead: its code runs on for a moment in this simulation, and cannot do anything. */
export class Killed extends Error {
  readonly code = 'KILLED';
}

/** Decides the fault of a numbered call. Numbers begin with 1 and go on from process to process. */
export type FaultAt = (number: number, what: string, of: SimProcess) => Fault | undefined;

export interface CallLog {
  readonly number: number;
  readonly at: number;
  readonly process: string;
  readonly what: string;
  readonly fault: Fault | undefined;
}

/** Counts the calls of all processes of a history. */
export class Calls {
  readonly time: SimTime;
  /** Replaced when faults begin or end. */
  faultAt: FaultAt = () => undefined;
  onCall: (call: CallLog) => void = () => undefined;
  #count = 0;

  constructor(time: SimTime) {
    this.time = time;
  }

  get count(): number {
    return this.#count;
  }

  next(what: string, of: SimProcess): Fault | undefined {
    this.#count += 1;
    const fault = this.faultAt(this.#count, what, of);
    this.onCall({ number: this.#count, at: this.time.now, process: of.name, what, fault });
    return fault;
  }
}

export class SimProcess {
  readonly name: string;
  readonly pid: number;
  readonly #calls: Calls;
  #answering = 0;
  /** What it has open, each with how the kernel closes it. */
  readonly #open = new Map<object, { readonly what: string; readonly close: () => void }>();
  #isDead = false;
  #onDeath: () => void = () => undefined;

  constructor(name: string, pid: number, calls: Calls) {
    this.name = name;
    this.pid = pid;
    this.#calls = calls;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** What it has open now, for people. */
  get open(): readonly string[] {
    return [...this.#open.values()].map(({ what }) => what);
  }

  /** Requests of clients that are not answered yet. */
  get answering(): number {
    return this.#answering;
  }

  get time(): SimTime {
    return this.#calls.time;
  }

  /** Answers a request of a client. The answer of a dead process never comes. */
  async answer<T>(work: () => Promise<T>): Promise<T> {
    this.#answering += 1;
    return await this.run(work).finally(() => {
      this.#answering -= 1;
    });
  }

  /** Runs code as this process: timers that it makes are the process's. */
  run<T>(code: () => T): T {
    return this.time.owners.run(this, code);
  }

  onDeath(call: () => void): void {
    this.#onDeath = call;
  }

  /** As SIGKILL. The kernel closes what it has open. */
  kill(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    for (const { close } of this.#open.values()) close();
    this.#open.clear();
    this.#onDeath();
  }

  /** It opened something: the result forgets it, when the process closes it itself. */
  opened(what: string, close: () => void): () => void {
    const key = {};
    if (this.#isDead) close();
    else this.#open.set(key, { what, close });
    return () => this.#open.delete(key);
  }

  /** A call that does not return before its answer: a system call. Slow ones stall the process. */
  callSync<T>({ what, effect, fail, cut }: Call<T>): T {
    this.#mustLive();
    const fault = this.#calls.next(what, this);
    this.time.stir();
    if (fault === undefined) return effect();
    if (fault.kind === 'slow') {
      this.time.stall(fault.milliseconds);
      return effect();
    }
    if (fault.kind === 'kill') {
      if (fault.when === 'after') effect();
      this.kill();
      this.#mustLive();
    }
    if (fault.kind === 'fails' && fault.when === 'before') return fail(fault.variant);
    const answer = effect();
    const { variant } = fault as { readonly variant: number };
    return fault.kind === 'cut' && cut !== undefined ? cut(answer, variant) : fail(variant);
  }

  /** A call whose answer comes later. That of a dead process never comes. */
  async call<T>(call: LaterCall<T>, signal?: AbortSignal): Promise<T> {
    if (this.#isDead) return await never<T>();
    signal?.throwIfAborted();
    const fault = this.#calls.next(call.what, this);
    const answer = await this.#answer(fault, call, signal);
    this.time.stir();
    if (this.#isDead) return await never<T>();
    return answer;
  }

  async #answer<T>(
    fault: Fault | undefined,
    { effect, fail, cut, undo, mayOutlive = false, loadsFirst = false }: LaterCall<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const wait = (milliseconds: number): Promise<void> =>
      milliseconds === 0
        ? Promise.resolve()
        : this.time.pause(milliseconds, { owner: mayOutlive || loadsFirst ? NOBODY : this, signal });
    // The answer of no call is there before others run.
    const share = loadsFirst ? 1 : 0.5;
    await wait(fault?.kind === 'slow' ? fault.milliseconds * share : 0);
    // Another call killed the process meanwhile: this one has no effect.
    if (this.#isDead) return await never<T>();
    if (fault === undefined) return await effect();
    if (fault.kind === 'slow') {
      const answer = await effect();
      await wait(fault.milliseconds * (1 - share));
      return answer;
    }
    if (fault.kind === 'kill') {
      if (fault.when === 'after') await effect();
      this.kill();
      return await never<T>();
    }
    if (fault.kind === 'fails' && fault.when === 'before') return await fail(fault.variant);
    const answer = await effect();
    if (fault.kind === 'cut' && cut !== undefined) return await cut(answer, fault.variant);
    undo?.(answer);
    return await fail(fault.variant);
  }

  #mustLive(): void {
    if (this.#isDead) throw new Killed(`${this.name} was killed`);
  }
}

function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}
