/** What health is judged by: the settings, and a record of what happened. */
import type { Family } from '../base/address.ts';
import type { SourceKind, WatchStatus } from '../proxy/model/events.ts';
import type { NodeView } from '../proxy/model/objects.ts';

export interface HealthSettings {
  /** Milliseconds after which pending changes, refused watches and unverified rules are unhealthy: twice the syncPeriod. */
  readonly timeout: number;
  readonly families: readonly Family[];
  /** Families of this node: shown until it is known which of them are served. */
  readonly expected: readonly Family[];
  /** What is not served because tools of this node do not work, each as a sentence. */
  readonly unserved: readonly string[];
  /** Kinds whose first list has not arrived. */
  readonly waitingFor: () => readonly SourceKind[];
  readonly watches: () => readonly WatchStatus[];
  /** Own Node; undefined: not known. */
  readonly node: () => NodeView | undefined;
  /** false: there is no cluster whose Nodes could be ineligible. */
  readonly hasNodes: boolean;
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
  /** Why the last sync was not complete. */
  failure: string | undefined;
}

/** What happened so far, as the judgement needs it. Times are those of `HealthOptions.now`. */
export interface HealthRecord {
  readonly families: ReadonlyMap<Family, FamilyHealth>;
  readonly begunAt: number;
  readonly verifiedAt: number;
  /** Why the last check of the kernel failed. */
  readonly verifyFailure: string | undefined;
  /** Begin of the sync that is running. */
  readonly syncingSince: number | undefined;
  /** The request for a sync that has not begun, or the moment since when it could begin. */
  readonly requestedAt: number | undefined;
  /** The last check of the kernel, whatever it found. */
  readonly checkedAt: number;
  /** Services that the kernel refuses, each as a sentence. */
  readonly refused: readonly string[];
  /** Another service proxy runs on this node, as a sentence; undefined: none was seen lately. */
  readonly beside: string | undefined;
  /** Another program changes our rules again and again, as a sentence; undefined: none does. */
  readonly fight: string | undefined;
}
