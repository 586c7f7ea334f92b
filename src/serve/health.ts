/**
 * The truth about the agent: whether what should be in the kernel is there. Counts as kube-proxy does (reference 9.1), and
 * is stricter where operators found it healthy while rules were stale (k8s#134648, k8s#105742, k8s#76338, k8s#83263):
 *
 * - only a complete sync ends what is pending (invariant 8), and the first sync is pending from the start;
 * - rules that nobody could look at for long are not known to stand;
 * - a watch that is refused, or silent for long though it seems open, is stuck.
 *
 * An API server that cannot be reached, or is ill itself, is told in the answer but is not this node's illness: what is programmed works on,
 * and load balancers that ask every node would find all of them ill at once.
 */
import type { Family } from '../model/address.ts';
import type { WatchStatus } from '../model/events.ts';
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
}

export interface HealthState {
  readonly healthy: boolean;
  readonly nodeEligible: boolean;
  readonly families: ReadonlyMap<Family, { readonly lastUpdated: number; readonly healthy: boolean }>;
  readonly lastUpdated: number;
  /** Why it is not healthy, each as a sentence. */
  readonly reasons: readonly string[];
  /** What is worth knowing and makes nothing unhealthy. */
  readonly notes: readonly string[];
}

/** Milliseconds: bookmarks come about once a minute, and a silent watch is opened again after 90 s. */
const SILENT = 120_000;

export class Health {
  readonly #options: HealthOptions;
  readonly #families = new Map<Family, FamilyHealth>();
  #settings: HealthSettings;
  #verifiedAt: number;
  #verifyCause: string | undefined;

  constructor(options: HealthOptions, settings: HealthSettings) {
    this.#options = options;
    this.#settings = settings;
    this.#verifiedAt = options.now();
    this.tune(settings);
  }

  /** Other settings from now on: what is pending stays so, and a new family is pending at once. Without any, there is nothing to write yet. */
  tune(settings: HealthSettings): void {
    this.#settings = settings;
    // What was not there yet could not be looked at.
    if (this.#families.size === 0) this.#verifiedAt = this.#options.now();
    for (const family of this.#families.keys()) if (!settings.families.includes(family)) this.#families.delete(family);
    for (const family of settings.families) {
      if (this.#families.has(family)) continue;
      const now = this.#options.now();
      this.#families.set(family, { lastUpdated: this.#options.wall(), pendingSince: now, queuedAt: now });
    }
  }

  /** There is something to write. */
  queued(): void {
    for (const state of this.#families.values()) {
      state.queuedAt = this.#options.now();
      state.pendingSince ??= state.queuedAt;
    }
  }

  /** A sync ended: complete for these families, and not for the others. `since`: when it began; what came later is still to be written. */
  synced(complete: readonly Family[], since: number): void {
    for (const [family, state] of this.#families) {
      if (complete.includes(family)) {
        state.lastUpdated = this.#options.wall();
        state.pendingSince = state.queuedAt > since ? state.queuedAt : undefined;
      } else state.pendingSince ??= since;
    }
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
    const reasons: string[] = [];
    const notes: string[] = [];
    const families = new Map<Family, { lastUpdated: number; healthy: boolean }>();
    for (const [family, { lastUpdated, pendingSince }] of this.#families) {
      const age = pendingSince === undefined ? 0 : this.#options.now() - pendingSince;
      const healthy = age < this.#settings.timeout;
      if (!healthy) reasons.push(`${family}: changes are not in the kernel since ${seconds(age)}`);
      families.set(family, { lastUpdated, healthy });
    }
    this.#judgeRules(reasons);
    this.#judgeWatches(reasons, notes);
    const { node, hasNodes } = this.#settings;
    return {
      healthy: reasons.length === 0,
      nodeEligible: !hasNodes || node()?.isEligible === true,
      families,
      lastUpdated: Math.min(...[...families.values()].map((one) => one.lastUpdated)),
      reasons,
      notes,
    };
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
    for (const { of, heardAt, failure } of watches()) {
      const silence = now - heardAt;
      if (failure === undefined) {
        if (silence >= Math.max(timeout, SILENT))
          reasons.push(`the watch of ${nameOf(of)} is stuck: silent since ${seconds(silence)}`);
        continue;
      }
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
