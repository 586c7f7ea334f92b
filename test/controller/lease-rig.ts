/** Replicas that share a Lease, each with its own clock and its own way to the API server; time is in the test's hands. */
import { setImmediate as breath } from 'node:timers/promises';
import { aborted, type Clock } from '../../src/base/clock.ts';
import { type ApiClient, ApiError, type WriteRequest } from '../../src/cluster/api/client.ts';
import { LeaderElector, type LeaderSettings } from '../../src/controller/leader.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

/** Milliseconds; every time in these tests is a multiple of it. */
export const STEP = 50;

export interface LeaseObject {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** The API server, as far as one Lease goes. */
export class LeaseStore {
  lease: LeaseObject | undefined;
  /** Bodies of all writes that came through. */
  readonly writes: LeaseObject[] = [];
  #version = 0;

  read(path: string): LeaseObject {
    if (this.lease === undefined) throw new ApiError(`${path}: 404 not found`, 404);
    return this.lease;
  }

  write({ method, path, body }: WriteRequest): LeaseObject {
    const sent = body as LeaseObject;
    if (method === 'POST' && this.lease !== undefined) throw new ApiError(`${path}: 409 already exists`, 409);
    if (method === 'PUT' && this.read(path).metadata.resourceVersion !== sent.metadata.resourceVersion) {
      throw new ApiError(`${path}: 409 the object has been modified`, 409);
    }
    this.writes.push(sent);
    return this.edit(sent);
  }

  /** By hand. */
  edit(lease: LeaseObject): LeaseObject {
    this.#version += 1;
    this.lease = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(this.#version) } };
    return this.lease;
  }
}

/** A replica's way to the API server; tests change it as they go. */
export interface Line {
  /** Nothing comes through. */
  isCut: boolean;
  /** What is asked comes through, answers do not. */
  losesAnswers: boolean;
  /** Milliseconds to the server, and back. */
  to: number;
  back: number;
  /** Requests end when their signal aborts. What is under way comes through nevertheless. */
  heedsSignals: boolean;
  onWrite: () => void;
}

export interface ReplicaOptions {
  readonly settings?: Partial<LeaderSettings>;
  /** Milliseconds by which its clocks differ from those of others. */
  readonly wallSkew?: number;
  readonly nowSkew?: number;
}

export const SETTINGS = { leaseDuration: 15_000, renewDeadline: 10_000, retryPeriod: 2000 } as const;

export class LeaseRig {
  readonly clock = new FakeClock();
  readonly store = new LeaseStore();
  /** Who leads now. */
  readonly leading = new Set<string>();
  /** How many led at a time at most. */
  mostLeading = 0;
  /** `12.5 a leads`, with the seconds. */
  readonly log: string[] = [];

  replica(identity: string, options: ReplicaOptions = {}): Replica {
    return new Replica(this, identity, options);
  }

  /** Let time pass, so that whatever is due is done when it is due. */
  async pass(milliseconds: number): Promise<void> {
    await breath();
    for (let left = milliseconds; left > 0; left -= STEP) {
      this.clock.advance(STEP);
      await breath();
    }
  }

  /** Time passes, as some give the lease back over slow lines. */
  async stop(...replicas: readonly Replica[]): Promise<void> {
    const stopped = Promise.all(replicas.map((replica) => replica.stop()));
    await this.pass(2000);
    await stopped;
  }

  note(what: string): void {
    this.log.push(`${this.clock.now() / 1000} ${what}`);
    this.mostLeading = Math.max(this.mostLeading, this.leading.size);
  }
}

export class Replica {
  readonly line: Line = {
    isCut: false,
    losesAnswers: false,
    to: 0,
    back: 0,
    heedsSignals: true,
    onWrite: () => undefined,
  };
  /** The leaders that were reported, in order. */
  readonly leaders: string[] = [];
  readonly failures: string[] = [];
  /** Attempts that did not fail, after the last one that did. */
  answers = 0;
  readonly elector: LeaderElector;
  /** Milliseconds that it lost to standing still. */
  nowSkew: number;
  readonly #rig: LeaseRig;
  readonly #identity: string;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(rig: LeaseRig, identity: string, { settings, wallSkew = 0, nowSkew = 0 }: ReplicaOptions) {
    this.#rig = rig;
    this.#identity = identity;
    this.nowSkew = nowSkew;
    const clock: Clock = {
      now: () => rig.clock.now() + this.nowSkew,
      wall: () => rig.clock.wall() + wallSkew,
      after: (milliseconds, call) => rig.clock.after(milliseconds, call),
    };
    this.elector = new LeaderElector({
      settings: { namespace: 'kube-system', name: 'controller', identity, ...SETTINGS, ...settings },
      client: this.#client(),
      clock,
      random: () => 0.5,
      onLeader: (leader) => this.leaders.push(leader),
      onFailure: ({ message }) => {
        this.failures.push(message);
        this.answers = 0;
      },
      onAnswer: () => {
        this.answers += 1;
      },
    });
  }

  start(lead = (signal: AbortSignal) => this.#lead(signal)): this {
    this.#running = this.elector.run(lead, this.#stop.signal);
    this.#running.catch(() => undefined);
    return this;
  }

  /** Resolves when it has stopped; rejects with what ended it but for the stop. */
  async stop(): Promise<void> {
    const reason = new Error('stopped');
    this.#stop.abort(reason);
    await this.#running.catch((error) => {
      if (error !== reason) throw error;
    });
  }

  async #lead(signal: AbortSignal): Promise<void> {
    this.#rig.leading.add(this.#identity);
    this.#rig.note(`${this.#identity} leads`);
    await aborted(signal).catch(() => undefined);
    this.#rig.leading.delete(this.#identity);
    this.#rig.note(`${this.#identity} stops`);
  }

  #client(): ApiClient {
    const { store } = this.#rig;
    return {
      server: 'https://api',
      get: (path, _query, signal) => this.#ask(() => store.read(path), signal),
      write: (request, signal) =>
        this.#ask(() => {
          const written = store.write(request);
          this.line.onWrite();
          return written;
        }, signal),
      watch: () => {
        throw new Error('nothing is watched');
      },
    };
  }

  #ask(act: () => LeaseObject, signal: AbortSignal): Promise<LeaseObject> {
    const { isCut, losesAnswers, to, back, heedsSignals } = this.line;
    return new Promise((resolve, reject) => {
      if (isCut) return reject(new ApiError('https://api cannot be reached', 0, { lack: 'unreachable' }));
      if (heedsSignals) aborted(signal).catch(reject);
      const answer = (give: () => void) => {
        if (losesAnswers) reject(new ApiError('connection lost', 0));
        else this.#after(back, give);
      };
      this.#after(to, () => {
        try {
          const made = act();
          answer(() => resolve(made));
        } catch (error) {
          answer(() => reject(error));
        }
      });
    });
  }

  #after(milliseconds: number, call: () => void): void {
    if (milliseconds === 0) call();
    else this.#rig.clock.after(milliseconds, call);
  }
}
