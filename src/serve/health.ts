/**
 * The health of the agent, as answers to three questions:
 *
 * - `livez`: would a restart help? Only when syncs, or the checks of the kernel, hang. No restart mends a kernel that refuses rules, a
 *   lock that another program holds, or an API server that is away.
 * - `readyz`: was a first sync complete, and can the kernel be written now? A rollout waits for this on each node.
 * - `healthz`: should a load balancer send traffic to this node? Judged as kube-proxy does, and stricter where operators found it
 *   healthy with stale rules (k8s#134648, k8s#105742, k8s#76338, k8s#83263): a change is pending until a sync wrote everything but
 *   Services that the kernel refuses (invariant 8); rules that could not be checked for long are not verified; a kind that the API
 *   server refuses to list or watch is not followed.
 *
 * A Service that the kernel refuses is a note, and makes nothing unhealthy: one tenant must not take a node from all others. Neither does
 * an API server that is unreachable or broken: the programmed rules go on working, and load balancers that ask every node would find all
 * of them unhealthy at once. A silent watch is healthy: a quiet cluster sends no events.
 */
import type { Family } from '../base/address.ts';
import {
  type FamilyHealth,
  type HealthRecord,
  type HealthSettings,
  type HealthState,
  judge,
} from './health-judgement.ts';

export interface HealthOptions {
  /** Milliseconds that never run backwards. */
  readonly now: () => number;
  /** Milliseconds since 1970. */
  readonly wall: () => number;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class Health {
  readonly #options: HealthOptions;
  readonly #families = new Map<Family, FamilyHealth>();
  readonly #record: Mutable<HealthRecord>;
  #settings: HealthSettings;

  constructor(options: HealthOptions, settings: HealthSettings) {
    const now = options.now();
    this.#options = options;
    this.#settings = settings;
    this.#record = {
      families: this.#families,
      begunAt: now,
      verifiedAt: now,
      verifyFailure: undefined,
      syncingSince: undefined,
      requestedAt: undefined,
      checkedAt: now,
      refused: [],
      beside: undefined,
      fight: undefined,
      takeover: undefined,
      brokenPaths: [],
    };
    this.tune(settings);
  }

  /** Changes the settings. Pending changes stay pending, and a new family is pending at once. Without a family there is nothing to write yet. */
  tune(settings: HealthSettings): void {
    this.#settings = settings;
    const now = this.#options.now();
    // Without families there was nothing to check.
    if (this.#families.size === 0) {
      this.#record.verifiedAt = now;
      this.#record.checkedAt = now;
    }
    for (const family of this.#families.keys()) if (!settings.families.includes(family)) this.#families.delete(family);
    const isLate = [...this.#families.values()].some(({ hasSynced }) => hasSynced);
    for (const family of settings.families) {
      if (this.#families.has(family)) continue;
      const never = { hasSynced: false, isLate, failure: undefined };
      this.#families.set(family, { lastUpdated: this.#options.wall(), pendingSince: now, queuedAt: now, ...never });
    }
  }

  /** A sync was requested. */
  queued(): void {
    const now = this.#options.now();
    this.#record.requestedAt ??= now;
    for (const state of this.#families.values()) {
      state.queuedAt = now;
      state.pendingSince ??= now;
    }
  }

  syncBegan(): void {
    this.#record.syncingSince = this.#options.now();
    this.#record.requestedAt = undefined;
  }

  syncEnded(): void {
    this.#record.syncingSince = undefined;
    // A sync that was requested meanwhile could not begin before.
    if (this.#record.requestedAt !== undefined) this.#record.requestedAt = this.#options.now();
  }

  /**
   * A sync ended, complete for these families. `since`: when it began; later changes are still pending. `causes`: by family, the reason why
   * it is not complete.
   */
  synced(complete: readonly Family[], since: number, causes: ReadonlyMap<Family, string> = new Map()): void {
    for (const [family, state] of this.#families) {
      if (complete.includes(family)) {
        state.lastUpdated = this.#options.wall();
        state.pendingSince = state.queuedAt > since ? state.queuedAt : undefined;
        state.hasSynced = true;
        state.failure = undefined;
      } else {
        state.pendingSince ??= since;
        state.failure = causes.get(family) ?? 'not all was written';
      }
    }
  }

  /** The Services that the kernel refuses now, each as a sentence. */
  refused(sentences: readonly string[]): void {
    this.#record.refused = sentences;
  }

  /** A sentence about another service proxy that runs on this node; undefined where none was seen lately. */
  beside(sentence: string | undefined): void {
    this.#record.beside = sentence;
  }

  /** A sentence about another program that changes our rules again and again; undefined when none does any more. */
  fights(sentence: string | undefined): void {
    this.#record.fight = sentence;
  }

  /** Why the takeover of this node keeps the agent from being ready, as a sentence; undefined where it does not. */
  takeover(sentence: string | undefined): void {
    this.#record.takeover = sentence;
  }

  /** A sentence for each way through the rules that is broken. */
  brokenPaths(sentences: readonly string[]): void {
    this.#record.brokenPaths = sentences;
  }

  /** A check of the kernel is done, whatever it found. */
  checked(): void {
    this.#record.checkedAt = this.#options.now();
  }

  /** A check or a sync read the kernel, and it has the rules that are believed to be there. */
  verified(): void {
    this.#record.verifiedAt = this.#options.now();
    this.#record.verifyFailure = undefined;
  }

  /** The kernel could not be checked. */
  notVerified(cause: string): void {
    this.#record.verifyFailure = cause;
  }

  /** Judged from the record at each call, so that nothing can be forgotten. */
  get state(): HealthState {
    const { now, wall } = this.#options;
    return judge(this.#record, this.#settings, { now: now(), wall: wall() });
  }
}
