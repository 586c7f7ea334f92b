/** The flight recorder's part of the answer of `status`. */
import { momentOf } from '../wire/envelope.ts';
import type { Status } from '../wire/status.ts';
import type { Recorder } from './recorder.ts';
import { driftForm, recordedSync } from './sync-record.ts';

/** Syncs that `status` lists. */
const SYNCS = 10;

export interface FlightFacts {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** The folder of --record-dir; "" without one. */
  readonly folder: string;
}

export function flightStatus(
  recorder: Recorder,
  { now, folder }: FlightFacts,
): Pick<Status, 'syncs' | 'latency' | 'drift' | 'history'> {
  const { statistics, log, bytes } = recorder;
  const latency = statistics.latency(now);
  return {
    syncs: statistics.lastSyncs.slice(0, SYNCS).map(recordedSync),
    latency: latency === undefined ? null : { ...latency, since: momentOf(latency.since) },
    drift: statistics.lastDrifts.map(driftForm),
    history: { reachesBackTo: momentOf(log.reachesBackTo), bytes, folder },
  };
}
