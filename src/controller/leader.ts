/**
 * Leader election as in client-go. The replica that holds and renews a Lease works. Another replica takes the Lease over when, by its own
 * clock, the Lease was not renewed for its duration: clocks of two machines are never compared.
 */

import { aborted, type Clock, sleep } from '../base/clock.ts';
import { type ApiClient, ApiError } from '../cluster/api/client.ts';

export interface LeaderSettings {
  readonly namespace: string;
  readonly name: string;
  /** Of this replica. */
  readonly identity: string;
  /** Milliseconds until others take over, until the holder gives up, which is sooner, and between two attempts. */
  readonly leaseDuration: number;
  readonly renewDeadline: number;
  readonly retryPeriod: number;
}

export interface LeaderOptions {
  readonly settings: LeaderSettings;
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly random: () => number;
  /** Called with the leader whenever it changes. */
  readonly onLeader: (identity: string) => void;
  /** Called when an attempt to get or renew the lease failed. */
  readonly onFailure: (error: Error) => void;
  /** Called when an attempt did not fail: this replica has the lease, or another one holds it. */
  readonly onAnswer?: () => void;
}

interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  readonly acquireTime?: string | null;
  readonly renewTime?: string | null;
  readonly leaseTransitions?: number;
}

interface Lease {
  readonly metadata: { readonly resourceVersion?: string; readonly [field: string]: unknown };
  readonly spec?: LeaseSpec;
}

/** The pause between attempts is extended by up to this many retry periods: client-go's jitter. */
const JITTER = 1.2;
/** Milliseconds for giving the lease back at the end of the program. */
const RELEASE_TIMEOUT_MS = 2000;

export class LeaderElector {
  readonly #options: LeaderOptions;
  /** The last state of the lease, and when this replica first saw it. */
  #seen: { readonly text: string; readonly at: number } = { text: '', at: Number.NEGATIVE_INFINITY };
  #leader: string | undefined;
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(options: LeaderOptions) {
    this.#options = options;
  }

  get isLeader(): boolean {
    return this.#leader === this.#options.settings.identity;
  }

  /** Milliseconds since this replica renewed the lease. */
  get age(): number {
    return this.#options.clock.now() - this.#renewedAt;
  }

  /**
   * Waits for the lease, calls `lead` while it is held, and waits again, until the signal aborts. The signal of `lead` aborts when the lease
   * may be lost, before another replica can hold it.
   */
  async run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#acquire(signal);
      const lost = new AbortController();
      const leading = AbortSignal.any([signal, lost.signal]);
      const work = lead(leading);
      try {
        await Promise.race([this.#keep(leading), work]);
      } finally {
        lost.abort(new Error('the lease is lost'));
        await work.catch(() => undefined);
        if (signal.aborted) await this.#release();
      }
    }
  }

  async #acquire(signal: AbortSignal): Promise<void> {
    const { clock, random, settings } = this.#options;
    while (!(await this.#try(settings.renewDeadline, signal))) {
      await sleep(clock, settings.retryPeriod * (1 + JITTER * random()), signal);
    }
  }

  /** Renews until renewals fail for the deadline, or another replica holds the lease. */
  async #keep(signal: AbortSignal): Promise<void> {
    const { clock, settings } = this.#options;
    const left = () => settings.renewDeadline - this.age;
    while (this.isLeader && left() > 0) {
      await sleep(clock, Math.min(settings.retryPeriod, left()), signal);
      if (left() > 0) await this.#try(left(), signal);
    }
    if (this.isLeader) this.#leader = undefined;
  }

  /** Gets or renews the lease once. An answer after the limit is too late, because another replica may hold the lease then. */
  async #try(limit: number, signal: AbortSignal): Promise<boolean> {
    const { clock, onAnswer, onFailure, settings } = this.#options;
    const sentAt = clock.now();
    try {
      const held = await this.#within(limit, signal, (until) => this.#hold(until));
      if (held) {
        this.#renewedAt = sentAt;
        this.#lead(settings.identity);
      }
      onAnswer?.();
      return held;
    } catch (error) {
      if (signal.aborted) throw error;
      onFailure(error as Error);
      return false;
    }
  }

  /** Rejects when the limit is over or the signal aborts, even where `ask` ignores its signal. */
  async #within<T>(limit: number, signal: AbortSignal, ask: (until: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const { clock } = this.#options;
    const end = clock.now() + limit;
    const until = new AbortController();
    const stop = () => until.abort(signal.reason);
    const isLate = () => new Error(`no answer within ${(limit / 1000).toFixed(1)} s`);
    const cancel = clock.after(limit, () => until.abort(isLate()));
    signal.addEventListener('abort', stop, { once: true });
    try {
      const answer = await Promise.race([ask(until.signal), aborted(until.signal)]);
      // The process may have been suspended, and its timers with it.
      if (clock.now() >= end) throw isLate();
      return answer;
    } finally {
      cancel();
      signal.removeEventListener('abort', stop);
    }
  }

  /** Takes or renews the lease. Returns whether this replica holds it now, and reports another holder. */
  async #hold(signal: AbortSignal): Promise<boolean> {
    const { settings, clock } = this.#options;
    const lease = await this.#read(signal);
    signal.throwIfAborted();
    const now = new Date(clock.wall()).toISOString().replace('Z', '000Z');
    const { identity } = settings;
    const spec: LeaseSpec = {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(settings.leaseDuration / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: 0,
    };
    if (lease === undefined) {
      const metadata = { name: settings.name, namespace: settings.namespace };
      await this.#write('POST', this.#path, { metadata, spec }, signal);
    } else {
      const { holderIdentity = '', leaseTransitions = 0, acquireTime } = lease.spec ?? {};
      if (holderIdentity !== identity && this.#isHeld(lease)) {
        this.#lead(holderIdentity);
        return false;
      }
      const isOurs = holderIdentity === identity;
      const changed = isOurs
        ? { acquireTime: acquireTime ?? now, leaseTransitions }
        : { leaseTransitions: leaseTransitions + 1 };
      await this.#write('PUT', `${this.#path}/${settings.name}`, { ...lease, spec: { ...spec, ...changed } }, signal);
    }
    return true;
  }

  /** Whether another replica holds the lease, which expires once it was unchanged for its duration. */
  #isHeld({ spec = {} }: Lease): boolean {
    if ((spec.holderIdentity ?? '') === '') return false;
    const text = JSON.stringify(spec);
    const now = this.#options.clock.now();
    if (text !== this.#seen.text) this.#seen = { text, at: now };
    const duration = (spec.leaseDurationSeconds ?? 0) * 1000 || this.#options.settings.leaseDuration;
    return now - this.#seen.at < duration;
  }

  /** Gives the lease back at the end, so that the next replica need not wait. */
  async #release(): Promise<void> {
    if (!this.isLeader) return;
    this.#leader = undefined;
    try {
      await this.#within(RELEASE_TIMEOUT_MS, new AbortController().signal, (until) => this.#giveBack(until));
    } catch (error) {
      this.#options.onFailure(error as Error);
    }
  }

  async #giveBack(signal: AbortSignal): Promise<void> {
    const lease = await this.#read(signal);
    if (lease?.spec?.holderIdentity !== this.#options.settings.identity) return;
    const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1 };
    await this.#write('PUT', `${this.#path}/${this.#options.settings.name}`, { ...lease, spec }, signal);
  }

  #lead(identity: string): void {
    if (this.#leader === identity) return;
    this.#leader = identity;
    this.#options.onLeader(identity);
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    try {
      return (await this.#options.client.get(`${this.#path}/${this.#options.settings.name}`, {}, signal)) as Lease;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async #write(method: 'POST' | 'PUT', path: string, lease: object, signal: AbortSignal): Promise<void> {
    const body = { ...lease, apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
    await this.#options.client.write({ method, path, body }, signal);
  }

  get #path(): string {
    return `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(this.#options.settings.namespace)}/leases`;
  }
}
