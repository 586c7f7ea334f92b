/** Makes the answer of `slicewire status` from the facts of an agent. Pure. */

import type { Family } from '../../base/address.ts';
import type { SourceConfig } from '../../config/config.ts';
import { API_VERSION, momentOf } from '../../inspect/wire/envelope.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import type { Status } from '../../inspect/wire/status.ts';
import type { WatchStatus } from '../../proxy/model/events.ts';
import { type Fault, shownFault } from '../../proxy/model/objects.ts';
import type { HealthState } from '../../serve/health-judgement.ts';

export interface StatusFacts {
  readonly by: AnsweredBy;
  /** Milliseconds since 1970. */
  readonly startedAt: number | undefined;
  readonly families: readonly Family[];
  readonly source: string;
  readonly health: Status['health'];
  readonly watches: readonly WatchStatus[];
  /** Milliseconds since 1970 when the clock of `watches` was 0. */
  readonly wallAtZero: number;
  /** undefined without an agent. */
  readonly programmed?: Status['programmed'];
  readonly objects: Status['objects'];
  readonly faults: readonly Fault[];
  /** Services that the kernel refuses, with the cause. */
  readonly refused: ReadonlyMap<string, string>;
  /** The flight recorder's part; undefined where nothing is recorded. */
  readonly flight: HistoryOfStatus | undefined;
}

/** Made by `flightStatus` of inspect/history/history-content.ts. */
export type HistoryOfStatus = Pick<Status, 'syncs' | 'latency' | 'drift' | 'history'>;

const NO_FLIGHT: HistoryOfStatus = { syncs: [], latency: null, drift: [], history: null };

export function statusOf(facts: StatusFacts): Status {
  const { by, startedAt, families, source, health, watches, wallAtZero, objects, faults, refused, flight } = facts;
  return {
    apiVersion: API_VERSION,
    kind: 'Status',
    by,
    pid: process.pid,
    startedAt: startedAt === undefined ? null : momentOf(startedAt),
    families: [...families],
    source,
    health,
    heard: watches.map((watch) => heardOf(watch, wallAtZero)),
    ...(facts.programmed === undefined ? {} : { programmed: facts.programmed }),
    objects,
    faults: faults.map(shownFault),
    refused: [...refused].map(([service, cause]) => ({ service, cause })),
    ...(flight ?? NO_FLIGHT),
  };
}

export function heardOf({ of, heardAt, failure }: WatchStatus, wallAtZero: number): Status['heard'][number] {
  const lost = failure === undefined ? null : { since: momentOf(wallAtZero + failure.since), cause: failure.cause };
  return { of: SOURCE_TEXTS[of], at: heardAt > 0 ? momentOf(wallAtZero + heardAt) : null, lost };
}

const SOURCE_TEXTS: Readonly<Record<WatchStatus['of'], string>> = {
  services: 'Services',
  slices: 'EndpointSlices',
  nodes: 'Nodes',
  servicecidrs: 'ServiceCIDRs',
  manifests: 'manifests',
};

/** The health of a running agent: the three answers, the reasons against them, and the notes. */
export function healthOf({ reasons, notes, nodeEligible, healthy }: HealthState): Status['health'] {
  const all = new Set([...reasons.livez, ...reasons.healthz, ...reasons.readyz, ...reasons.datapath]);
  const node = nodeEligible
    ? []
    : ['load balancers should not send traffic to this node: it is terminating, or about to be deleted'];
  return {
    live: reasons.livez.length === 0,
    ready: reasons.readyz.length === 0,
    healthy,
    reasons: [...all, ...node, ...notes],
  };
}

/** The source of objects, without credentials. */
export function sourceText(source: SourceConfig): string {
  if (source.kind === 'manifests')
    return source.path === '-' ? 'manifests from standard input' : `manifests in ${source.path}`;
  if (source.master !== undefined) return `the API server ${URL.parse(source.master)?.origin ?? source.master}`;
  return source.kubeconfig === undefined
    ? "the API server of the pod's service account"
    : `the API server of ${source.kubeconfig}`;
}
