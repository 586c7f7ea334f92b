/**
 * Judges the agent's health from the record of Health: every reason of an answer stands here, and docs/troubleshoot.md has a row for each.
 * Pure; health.ts explains the three answers.
 */
import type { Family } from '../base/address.ts';
import type { SourceKind, WatchStatus } from '../proxy/model/events.ts';
import type { NodeView } from '../proxy/model/objects.ts';

export type HealthCheck = 'livez' | 'readyz' | 'healthz' | 'datapath';

export interface HealthState {
  /** The answer of `healthz`, regardless of the Node. */
  readonly healthy: boolean;
  readonly nodeEligible: boolean;
  readonly families: ReadonlyMap<Family, { readonly lastUpdated: number; readonly healthy: boolean }>;
  readonly lastUpdated: number;
  /** The reasons for a negative answer, each as a sentence; empty for a positive one. */
  readonly reasons: Readonly<Record<HealthCheck, readonly string[]>>;
  /** Sentences that are worth knowing and make nothing unhealthy. */
  readonly notes: readonly string[];
  /** Whether the ways through the rules are checked at all. */
  readonly checksDatapath: boolean;
}

/** Milliseconds that no healthy sync exceeds. With refused Services a sync writes up to 64 times, and each write may wait 5 s for the xtables lock. */
const SYNC_TIMEOUT_MS = 360_000;

interface HealthNow {
  /** Milliseconds that never run backwards. */
  readonly now: number;
  /** Milliseconds since 1970. */
  readonly wall: number;
}

export function judge(record: HealthRecord, settings: HealthSettings, { now, wall }: HealthNow): HealthState {
  const at = { record, settings, now };
  const [hanging, unverified, watches] = [hangs(at), unverifiedRules(at), failingWatches(at)];
  const reasons = {
    livez: hanging,
    readyz: [
      ...hanging,
      // A takeover that went back writes nothing, which is no fault of the kernel.
      ...(record.takeover === undefined ? [...untilFirstSync(at, () => true), ...failing(at)] : [record.takeover]),
      ...unverified,
    ],
    healthz: [
      ...hanging,
      ...untilFirstSync(at, ({ isLate }) => !isLate),
      ...stale(at),
      ...unverified,
      ...watches.reasons,
      ...(settings.datapathCheck === 'healthz' ? record.brokenPaths : []),
    ],
    datapath: settings.datapathCheck === 'none' ? [] : record.brokenPaths,
  };
  const families = shown(at, wall);
  return {
    checksDatapath: settings.datapathCheck !== 'none',
    healthy: reasons.healthz.length === 0,
    nodeEligible: !settings.hasNodes || settings.node()?.isEligible === true,
    families,
    lastUpdated: Math.min(...[...families.values()].map((one) => one.lastUpdated)),
    reasons,
    notes: [...settings.unserved, ...record.refused, record.fight, record.beside, ...watches.notes].filter(
      (note) => note !== undefined,
    ),
  };
}

interface JudgedAt {
  readonly record: HealthRecord;
  readonly settings: HealthSettings;
  readonly now: number;
}

function shown({ record, settings, now }: JudgedAt, wall: number): HealthState['families'] {
  const families = new Map<Family, { lastUpdated: number; healthy: boolean }>();
  for (const [family, state] of record.families) {
    const healthy = (state.hasSynced || state.isLate) && age(state, now) < settings.timeout;
    families.set(family, { lastUpdated: state.lastUpdated, healthy });
  }
  if (families.size > 0) return families;
  const lastUpdated = wall - (now - record.begunAt);
  for (const family of settings.expected) families.set(family, { lastUpdated, healthy: false });
  return families;
}

/** Milliseconds for which something is pending. */
function age({ pendingSince }: FamilyHealth, now: number): number {
  return pendingSince === undefined ? 0 : now - pendingSince;
}

/** Reasons for work that has been running for so long that it will not end. */
function hangs({ record, settings, now }: JudgedAt): string[] {
  const { timeout } = settings;
  const limit = Math.max(timeout, SYNC_TIMEOUT_MS);
  const reasons: string[] = [];
  if (record.syncingSince !== undefined) {
    const age = now - record.syncingSince;
    if (age >= limit) reasons.push(`a sync hangs: it began ${seconds(age)} ago and has not ended`);
  } else if (record.requestedAt !== undefined && now - record.requestedAt >= limit) {
    reasons.push(`syncs hang: one was requested ${seconds(now - record.requestedAt)} ago and none has begun`);
  }
  const unchecked = now - record.checkedAt;
  // A check waits while a sync runs.
  if (record.families.size > 0 && unchecked >= limit + timeout) {
    reasons.push(`the check of the kernel hangs: the last one was ${seconds(unchecked)} ago`);
  }
  return reasons;
}

/** Reasons why the first sync is not complete, for the families that count. */
function untilFirstSync({ record, settings, now }: JudgedAt, counts: (state: FamilyHealth) => boolean): string[] {
  if (record.families.size > 0) {
    return [...record.families]
      .filter(([, state]) => !state.hasSynced && counts(state))
      .map(([family, { failure }]) => `${family}: the first sync is not complete yet${because(failure)}`);
  }
  const { waitingFor, watches } = settings;
  const kinds = waitingFor();
  if (kinds.length === 0) return ['the first sync has not begun yet: the agent is checking the Node and this machine'];
  const causes = watches().flatMap(({ of, failure }) =>
    (of === 'manifests' || kinds.includes(of)) && failure !== undefined ? [failure.cause] : [],
  );
  const cause = causes.length === 0 ? undefined : [...new Set(causes)].join('; ');
  const waited = seconds(now - record.begunAt);
  return [`the first lists of ${inWords(kinds.map(nameOf))} have not arrived for ${waited}${because(cause)}`];
}

/** Families that cannot be written now. */
function failing({ record }: JudgedAt): string[] {
  return [...record.families]
    .filter(([, { hasSynced, failure }]) => hasSynced && failure !== undefined)
    .map(([family, { failure }]) => `${family}: the kernel cannot be written${because(failure)}`);
}

/** Families whose changes have been pending for too long. */
function stale({ record, settings, now }: JudgedAt): string[] {
  return [...record.families]
    .filter(([, state]) => (state.hasSynced || state.isLate) && age(state, now) >= settings.timeout)
    .map(([family, state]) => {
      return `${family}: changes have not reached the kernel for ${seconds(age(state, now))}${because(state.failure)}`;
    });
}

function unverifiedRules({ record, settings, now }: JudgedAt): string[] {
  const age = now - record.verifiedAt;
  if (age < settings.timeout || record.families.size === 0) return [];
  return [`the rules could not be verified for ${seconds(age)}${because(record.verifyFailure)}`];
}

/** A watch that the server refuses is a reason; a server that is away or broken itself is a note. */
function failingWatches({ settings, now }: JudgedAt): { readonly reasons: string[]; readonly notes: string[] } {
  const reasons: string[] = [];
  const notes: string[] = [];
  for (const { of, failure } of settings.watches()) {
    if (failure === undefined) continue;
    const text = `${nameOf(of)} could not be followed for ${seconds(now - failure.since)}: ${failure.cause}`;
    if (!failure.isServers && now - failure.since >= settings.timeout) reasons.push(text);
    else notes.push(text);
  }
  return { reasons, notes };
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

// The input of the judgement: the settings, and a record of what happened.

export interface HealthSettings {
  /** Milliseconds after which pending changes, refused watches and unverified rules are unhealthy: twice the syncPeriod. */
  readonly timeout: number;
  readonly families: readonly Family[];
  /** Families of this node: shown until it is known which of them are served. */
  readonly expected: readonly Family[];
  /** Parts that are not served because tools of this node do not work, each as a sentence. */
  readonly unserved: readonly string[];
  /** Kinds whose first list has not arrived. */
  readonly waitingFor: () => readonly SourceKind[];
  readonly watches: () => readonly WatchStatus[];
  /** Own Node; undefined while it is not known. */
  readonly node: () => NodeView | undefined;
  /** Whether there is a cluster, whose Nodes may be ineligible. */
  readonly hasNodes: boolean;
  /** Whether the ways through the rules are checked, and whether `healthz` depends on them. */
  readonly datapathCheck: 'none' | 'report' | 'healthz';
}

/** Times are those of `HealthOptions.now`, but for `lastUpdated`. */
export interface FamilyHealth {
  /** Wall time of the last complete sync. */
  lastUpdated: number;
  pendingSince: number | undefined;
  /** The last request for a sync. */
  queuedAt: number;
  /** A sync was complete. */
  hasSynced: boolean;
  /** The family joined an agent that served others already: its first sync is a change like any other. */
  readonly isLate: boolean;
  /** The reason why the last sync was not complete. */
  failure: string | undefined;
}

/** Events so far, as far as the judgement needs them. Times are those of `HealthOptions.now`. */
export interface HealthRecord {
  readonly families: ReadonlyMap<Family, FamilyHealth>;
  readonly begunAt: number;
  readonly verifiedAt: number;
  /** The reason why the last check of the kernel failed. */
  readonly verifyFailure: string | undefined;
  /** When the running sync began. */
  readonly syncingSince: number | undefined;
  /** The time of the request for a sync that has not begun, or the time at which it could begin. */
  readonly requestedAt: number | undefined;
  /** The time of the last check of the kernel, whatever it found. */
  readonly checkedAt: number;
  /** Services that the kernel refuses, each as a sentence. */
  readonly refused: readonly string[];
  /** A sentence about another service proxy that runs on this node; undefined where none was seen lately. */
  readonly beside: string | undefined;
  /** A sentence about another program that changes our rules again and again; undefined without one. */
  readonly fight: string | undefined;
  /** Why the takeover of this node keeps the agent from being ready, as a sentence: the next node waits for that. */
  readonly takeover: string | undefined;
  /** A sentence for each way through the rules on which connections fail. */
  readonly brokenPaths: readonly string[];
}
