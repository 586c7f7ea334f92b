/**
 * The truth about the agent, as three answers to three questions:
 *
 * - `livez`: would a restart help? Only when syncs hang, or a part of the agent does. A kernel that refuses, a lock that another holds and an
 *   API server that is away are mended by no restart.
 * - `readyz`: was a first sync complete, and can the kernel be written now? What a roll-out waits for on each node.
 * - `healthz`: should a load balancer send traffic here? As kube-proxy judges, and stricter where operators found it healthy while
 *   rules were stale (k8s#134648, k8s#105742, k8s#76338, k8s#83263): only a sync that wrote all but what the kernel
 *   refuses of single Services ends what is pending (invariant 8), rules that nobody could look at for long are not known to stand, and a
 *   kind that the API server refuses to be followed is not followed.
 *
 * A Service that the kernel refuses is told, and makes nothing unhealthy: one tenant must not take a node from all others. Nor does an API
 * server that cannot be reached, or is ill itself: what is programmed works on, and load balancers that ask every node would find all
 * of them ill at once. A watch that stands and says nothing is well: a quiet cluster has nothing to say.
 */
import type { Family } from '../model/address.ts';
import type { SourceKind, WatchStatus } from '../model/events.ts';
import type { NodeView } from '../model/objects.ts';

export interface HealthOptions {
  /** Milliseconds that never run backwards. */
  readonly now: () => number;
  /** Milliseconds since 1970. */
  readonly wall: () => number;
}

export interface HealthSettings {
  /** Milliseconds after which what is pending, refused or not verified is unhealthy: twice the syncPeriod. */
  readonly timeout: number;
  readonly families: readonly Family[];
  /** Families of this node: shown while it is not known yet which of them are served. */
  readonly expected: readonly Family[];
  /** Kinds whose first list has not come. */
  readonly waitingFor: () => readonly SourceKind[];
  readonly watches: () => readonly WatchStatus[];
  /** Own Node; undefined: not known. */
  readonly node: () => NodeView | undefined;
  /** Without a cluster nobody marks nodes, and this one is eligible. */
  readonly hasNodes: boolean;
}

interface FamilyHealth {
  /** Wall time of the last complete sync. */
  lastUpdated: number;
  pendingSince: number | undefined;
  /** When something was asked for last. */
  queuedAt: number;
  /** A sync was complete. */
  hasSynced: boolean;
  /** It came to an agent that served others already: its first sync is a change like any other. */
  readonly isLate: boolean;
  /** Why the last sync was not complete. */
  failure: string | undefined;
}

export type Question = 'livez' | 'readyz' | 'healthz';

export interface HealthState {
  /** `healthz`, but for the Node. */
  readonly healthy: boolean;
  readonly nodeEligible: boolean;
  readonly families: ReadonlyMap<Family, { readonly lastUpdated: number; readonly healthy: boolean }>;
  readonly lastUpdated: number;
  /** Why the answer is no, each as a sentence; none: it is yes. */
  readonly reasons: Readonly<Record<Question, readonly string[]>>;
  /** What is worth knowing and makes nothing unhealthy. */
  readonly notes: readonly string[];
}

/** Milliseconds: no sync takes longer. One in which Services are refused writes up to 64 times, and each may wait 5 s for the xtables lock. */
const LONGEST_SYNC = 360_000;

export class Health {
  readonly #options: HealthOptions;
  readonly #families = new Map<Family, FamilyHealth>();
  #settings: HealthSettings;
  #verifiedAt: number;
  #verifyCause: string | undefined;
  readonly #begunAt: number;
  /** The sync that goes on began then. */
  #syncingSince: number | undefined;
  /** A sync was asked for then, or could begin since then; undefined: none is asked for. */
  #askedAt: number | undefined;
  /** When the look after the kernel came round last. */
  #lookedAt: number;
  #refused: readonly string[] = [];

  constructor(options: HealthOptions, settings: HealthSettings) {
    this.#options = options;
    this.#settings = settings;
    this.#begunAt = options.now();
    this.#verifiedAt = this.#begunAt;
    this.#lookedAt = this.#begunAt;
    this.tune(settings);
  }

  /** Other settings from now on: what is pending stays so, and a new family is pending at once. Without any, there is nothing to write yet. */
  tune(settings: HealthSettings): void {
    this.#settings = settings;
    // What was not there yet could not be looked at.
    if (this.#families.size === 0) {
      this.#verifiedAt = this.#options.now();
      this.#lookedAt = this.#verifiedAt;
    }
    for (const family of this.#families.keys()) if (!settings.families.includes(family)) this.#families.delete(family);
    const isLate = [...this.#families.values()].some(({ hasSynced }) => hasSynced);
    for (const family of settings.families) {
      if (this.#families.has(family)) continue;
      const now = this.#options.now();
      const never = { hasSynced: false, isLate, failure: undefined };
      this.#families.set(family, { lastUpdated: this.#options.wall(), pendingSince: now, queuedAt: now, ...never });
    }
  }

  /** There is something to write. */
  queued(): void {
    const now = this.#options.now();
    this.#askedAt ??= now;
    for (const state of this.#families.values()) {
      state.queuedAt = now;
      state.pendingSince ??= now;
    }
  }

  syncBegan(): void {
    this.#syncingSince = this.#options.now();
    this.#askedAt = undefined;
  }

  syncEnded(): void {
    this.#syncingSince = undefined;
    // What was asked for meanwhile could not begin before.
    if (this.#askedAt !== undefined) this.#askedAt = this.#options.now();
  }

  /**
   * A sync ended: complete for these families, and not for the others. `since`: when it began; what came later is still to be
   * written. `causes`: why it is not complete, by family.
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

  /** What the kernel refuses of single Services now, each as a sentence. */
  refused(sentences: readonly string[]): void {
    this.#refused = sentences;
  }

  /** The look after the kernel came round, whatever it saw. */
  checked(): void {
    this.#lookedAt = this.#options.now();
  }

  /** The kernel was looked at, and what is believed stands there. */
  verified(): void {
    this.#verifiedAt = this.#options.now();
    this.#verifyCause = undefined;
  }

  /** The kernel could not be looked at. */
  notVerified(cause: string): void {
    this.#verifyCause = cause;
  }

  get state(): HealthState {
    const [hanging, failing, stale] = [this.#hanging(), this.#failing(), this.#stale()];
    const rules: string[] = [];
    this.#judgeRules(rules);
    const watches: string[] = [];
    const notes = [...this.#refused];
    this.#judgeWatches(watches, notes);
    const reasons = {
      livez: hanging,
      readyz: [...hanging, ...this.#untilFirst(() => true), ...failing, ...rules],
      healthz: [...hanging, ...this.#untilFirst(({ isLate }) => !isLate), ...stale, ...rules, ...watches],
    };
    const families = this.#shown();
    const { node, hasNodes } = this.#settings;
    return {
      healthy: reasons.healthz.length === 0,
      nodeEligible: !hasNodes || node()?.isEligible === true,
      families,
      lastUpdated: Math.min(...[...families.values()].map((one) => one.lastUpdated)),
      reasons,
      notes,
    };
  }

  #shown(): HealthState['families'] {
    const families = new Map<Family, { lastUpdated: number; healthy: boolean }>();
    for (const [family, state] of this.#families) {
      const healthy = (state.hasSynced || state.isLate) && this.#age(state) < this.#settings.timeout;
      families.set(family, { lastUpdated: state.lastUpdated, healthy });
    }
    if (families.size > 0) return families;
    const lastUpdated = this.#options.wall() - (this.#options.now() - this.#begunAt);
    for (const family of this.#settings.expected) families.set(family, { lastUpdated, healthy: false });
    return families;
  }

  /** Milliseconds for which something is pending. */
  #age({ pendingSince }: FamilyHealth): number {
    return pendingSince === undefined ? 0 : this.#options.now() - pendingSince;
  }

  /** What goes on for so long that it will not end. */
  #hanging(): string[] {
    const now = this.#options.now();
    const { timeout } = this.#settings;
    const limit = Math.max(timeout, LONGEST_SYNC);
    const reasons: string[] = [];
    if (this.#syncingSince !== undefined) {
      const age = now - this.#syncingSince;
      if (age >= limit) reasons.push(`a sync hangs: it began ${seconds(age)} ago and has not ended`);
    } else if (this.#askedAt !== undefined && now - this.#askedAt >= limit) {
      reasons.push(`syncs hang: one was asked for ${seconds(now - this.#askedAt)} ago and none began`);
    }
    const unseen = now - this.#lookedAt;
    // It waits its turn while a sync goes on.
    if (this.#families.size > 0 && unseen >= limit + timeout) {
      reasons.push(`the look after the kernel hangs: it came round last ${seconds(unseen)} ago`);
    }
    return reasons;
  }

  /** What the first sync waits for, of families that count. */
  #untilFirst(counts: (state: FamilyHealth) => boolean): string[] {
    if (this.#families.size > 0) {
      return [...this.#families]
        .filter(([, state]) => !state.hasSynced && counts(state))
        .map(([family, { failure }]) => `${family}: the first sync is not complete yet${because(failure)}`);
    }
    const { waitingFor, watches } = this.#settings;
    const kinds = waitingFor();
    if (kinds.length === 0) return ['the first sync has not begun yet: the Node and this machine are being looked at'];
    const causes = watches().flatMap(({ of, failure }) =>
      (of === 'manifests' || kinds.includes(of)) && failure !== undefined ? [failure.cause] : [],
    );
    const age = seconds(this.#options.now() - this.#begunAt);
    const cause = causes.length === 0 ? undefined : [...new Set(causes)].join('; ');
    return [`the first lists of ${inWords(kinds.map(nameOf))} have not come since ${age}${because(cause)}`];
  }

  /** Families that cannot be written now. */
  #failing(): string[] {
    return [...this.#families]
      .filter(([, { hasSynced, failure }]) => hasSynced && failure !== undefined)
      .map(([family, { failure }]) => `${family}: the kernel cannot be written${because(failure)}`);
  }

  /** Families whose changes wait for too long. */
  #stale(): string[] {
    return [...this.#families]
      .filter(([, state]) => (state.hasSynced || state.isLate) && this.#age(state) >= this.#settings.timeout)
      .map(([family, state]) => {
        return `${family}: changes are not in the kernel since ${seconds(this.#age(state))}${because(state.failure)}`;
      });
  }

  #judgeRules(reasons: string[]): void {
    const age = this.#options.now() - this.#verifiedAt;
    if (age < this.#settings.timeout || this.#families.size === 0) return;
    const why = this.#verifyCause === undefined ? '' : `: ${this.#verifyCause}`;
    reasons.push(`the rules could not be verified since ${seconds(age)}${why}`);
  }

  #judgeWatches(reasons: string[], notes: string[]): void {
    const { timeout, watches } = this.#settings;
    const now = this.#options.now();
    for (const { of, failure } of watches()) {
      if (failure === undefined) continue;
      const text = `${nameOf(of)} cannot be followed since ${seconds(now - failure.since)}: ${failure.cause}`;
      if (!failure.isServers && now - failure.since >= timeout) reasons.push(text);
      else notes.push(text);
    }
  }
}

function nameOf(of: WatchStatus['of']): string {
  if (of === 'manifests') return 'the manifests';
  return of === 'slices' ? 'EndpointSlices' : of === 'services' ? 'Services' : 'Nodes';
}

function seconds(milliseconds: number): string {
  return `${Math.round(milliseconds / 1000)} s`;
}

function because(cause: string | undefined): string {
  return cause === undefined ? '' : `: ${cause}`;
}

/** `a, b and c` */
function inWords(words: readonly string[]): string {
  return [words.slice(0, -1).join(', '), words.at(-1) ?? ''].filter((part) => part !== '').join(' and ');
}
