/**
 * Answers of the flight recorder: the changes, when each came into the kernel, and the objects at a moment; its part of `status`; and the
 * Service that had an address before.
 */

import type { Address } from '../../base/address.ts';
import { breath } from '../../base/clock.ts';
import { annotationTexts } from '../../proxy/model/labels.ts';
import type { Service, ServiceKey, Slice } from '../../proxy/model/objects.ts';
import { momentOf } from '../wire/envelope.ts';
import type { History, RecordedChange } from '../wire/history.ts';
import type { Status } from '../wire/status.ts';
import { endpointName, servicePortText, slicePortText, stateOf } from './changes.ts';
import { type FlightData, objectsAt, timeline, type WrittenChange } from './past.ts';
import type { PresentObjects } from './past-objects.ts';
import type { Recorder } from './recorder.ts';
import { driftForm, type LogRecord, recordedSync, type SyncRecord } from './records.ts';

export interface HistoryQuery {
  /** undefined for all Services. */
  readonly service?: ServiceKey | undefined;
  /** Milliseconds since 1970: changes that were received before are left out. */
  readonly since?: number | undefined;
  /** Milliseconds since 1970: the objects then, and the changes until then. */
  readonly at?: number | undefined;
  /** Milliseconds since 1970: changes and syncs that came later are left out; `at` by default. */
  readonly until?: number | undefined;
  /** The latest changes that are listed; 200 by default. */
  readonly most?: number | undefined;
}

/** The answer without its envelope. */
export type HistoryContent = Omit<History, 'apiVersion' | 'kind' | 'by'>;

const MAX_CHANGES_ANSWERED = 200;
/** Syncs that are listed. */
const MAX_SYNCS_ANSWERED = 50;

/** Throws BeforeHistory when the history does not know of `at`. */
export async function historyOf(flight: FlightData, query: HistoryQuery): Promise<HistoryContent> {
  const { service, at } = query;
  const store = at === undefined ? undefined : await objectsAt(flight, at);
  const found = await search(flight, query);
  return {
    service: service ?? '',
    reachesBackTo: momentOf(flight.log.reachesBackTo),
    ...found,
    stood: store === undefined || service === undefined ? [] : linesAt(store, service),
  };
}

/** A Service and its slices at the moment, as lines. */
function linesAt(objects: PresentObjects, key: ServiceKey): History['stood'] {
  const service = objects.service(key);
  const slices = objects
    .slicesOf(key)
    .map((slice) => ({ object: `EndpointSlice ${slice.key}`, lines: sliceLines(slice) }));
  return [
    { object: `Service ${key}`, lines: service === undefined ? ['it did not exist'] : serviceLines(service) },
    ...slices,
  ];
}

async function search(
  flight: FlightData,
  { service, since = 0, at = Number.POSITIVE_INFINITY, until = at, most = MAX_CHANGES_ANSWERED }: HistoryQuery,
): Promise<Pick<HistoryContent, 'changes' | 'syncs' | 'omitted'>> {
  let records: LogRecord[] = [];
  let [found, omitted] = [0, 0];
  for (const block of flight.log.blocks) {
    const parsed: LogRecord[] = [];
    for (const line of block.lines().toReversed()) {
      const isSync = line.startsWith(SYNC);
      if (!isSync && !isAbout(line, service)) continue;
      // Changes beyond the limit are counted without parsing them.
      const received = receivedAt(line);
      if (!isSync && (received < since || received > until)) continue;
      if (!isSync && found >= most) omitted += 1;
      else {
        if (!isSync) found += 1;
        parsed.push(JSON.parse(line));
      }
    }
    records = [...parsed.reverse(), ...records];
    await breath();
  }
  const changes = timeline(records);
  const written = new Set(changes.flatMap(({ sync }) => sync ?? []));
  const isListed = (record: LogRecord): record is SyncRecord =>
    record.type === 'sync' &&
    record.at >= since &&
    record.at <= until &&
    (service === undefined || written.has(record));
  const syncs = records.filter(isListed);
  return { changes: changes.map(recordedChange), syncs: syncs.slice(-MAX_SYNCS_ANSWERED).map(recordedSync), omitted };
}

const SYNC = '{"type":"sync"';

function isAbout(line: string, service: ServiceKey | undefined): boolean {
  return service === undefined || line.includes(`"service":${JSON.stringify(service)},`);
}

function receivedAt(line: string): number {
  return Number(/"at":(\d+)/.exec(line)?.[1] ?? 0);
}

function recordedChange({ record, sync }: WrittenChange): RecordedChange {
  const { number, at, service, version, what } = record;
  const object = record.type === 'lists' ? 'the initial lists' : `${record.undo.kind} ${record.undo.key}`;
  const head = { number, at: momentOf(at), object, service, resourceVersion: version, what: [...what] };
  if (record.type === 'lists' && record.wasWritten === true) {
    return { ...head, sync: null, inKernelAt: momentOf(at), milliseconds: null };
  }
  return {
    ...head,
    sync: sync?.number ?? null,
    inKernelAt: sync === undefined ? null : momentOf(sync.endedAt),
    milliseconds: sync === undefined ? null : Math.max(0, sync.endedAt - at),
  };
}

/** Syncs that `status` lists. */
const MAX_STATUS_SYNCS = 10;

interface FlightFacts {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** The folder of --record-dir; "" without one. */
  readonly folder: string;
}

/** The flight recorder's part of the answer of `status`. */
export function flightStatus(
  recorder: Recorder,
  { now, folder }: FlightFacts,
): Pick<Status, 'syncs' | 'latency' | 'drift' | 'history'> {
  const { statistics, log, bytes } = recorder;
  const latency = statistics.latency(now);
  return {
    syncs: statistics.lastSyncs.slice(0, MAX_STATUS_SYNCS).map(recordedSync),
    latency: latency === undefined ? null : { ...latency, since: momentOf(latency.since) },
    drift: statistics.lastDrifts.map(driftForm),
    history: { reachesBackTo: momentOf(log.reachesBackTo), bytes, folder },
  };
}

interface FormerOwnerFound {
  readonly service: ServiceKey;
  /** RFC 3339: when the agent received the change by which it lost the address. */
  readonly until: string;
}

/**
 * Finds the Service that lost an address last; undefined when the history has none. The answer is wrong for an address that a Service has
 * now.
 */
export async function formerOwner(recorder: Recorder, address: Address): Promise<FormerOwnerFound | undefined> {
  const quoted = JSON.stringify(address);
  for (const block of recorder.log.blocks) {
    for (const line of block.lines().toReversed()) {
      // Undoing the change would give the address back; the last such change took it.
      if (!line.includes(quoted)) continue;
      const record: LogRecord = JSON.parse(line);
      if (record.type !== 'change' || record.undo.kind !== 'Service') continue;
      if (JSON.stringify(record.undo).includes(quoted)) {
        return { service: record.undo.key, until: momentOf(record.at) };
      }
    }
    await breath();
  }
  return undefined;
}

// Objects as lines for people.

/** Endpoints of a slice that have a line of their own. */
const MAX_ENDPOINT_LINES = 100;

/** A Service: a line for each field that is set. */
function serviceLines(service: Service): string[] {
  const { type, clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, ports, affinitySeconds } = service;
  const listed = (field: string, values: readonly string[]) =>
    values.length === 0 ? [] : [`${field}: ${values.join(', ')}`];
  return [
    `spec.type: ${type}`,
    ...listed('spec.clusterIPs', clusterIPs),
    ...ports.map((port) => `port ${`${port.name} ${servicePortText(port)}`.trim()}`),
    ...listed('spec.externalIPs', externalIPs),
    ...listed('status.loadBalancer.ingress', loadBalancerIPs),
    ...(sourceRanges === undefined
      ? []
      : [`spec.loadBalancerSourceRanges: ${sourceRanges.join(', ') || 'none valid'}`]),
    ...(service.internalTrafficPolicy === 'Local' ? ['spec.internalTrafficPolicy: Local'] : []),
    ...(service.externalTrafficPolicy === 'Local' ? ['spec.externalTrafficPolicy: Local'] : []),
    ...(affinitySeconds === 0 ? [] : [`spec.sessionAffinity: ClientIP, ${affinitySeconds} s`]),
    ...(service.healthCheckNodePort === 0 ? [] : [`spec.healthCheckNodePort: ${service.healthCheckNodePort}`]),
    ...annotationTexts(service),
  ];
}

/** A slice: its ports, and a line for each endpoint. */
function sliceLines(slice: Slice): string[] {
  const ports = slice.ports.map((port) => `port ${`${port.name} ${slicePortText(port)}`.trim()}`);
  const lines = slice.endpoints.slice(0, MAX_ENDPOINT_LINES).map((endpoint) => {
    const { nodeName, zoneHints, nodeHints, address, weight, isBackup } = endpoint;
    const parts = [
      `${endpointName(address, slice)} ${stateOf(endpoint)}`,
      ...(nodeName === '' ? [] : [`node ${nodeName}`]),
      ...(zoneHints.length === 0 ? [] : [`hints of zones ${zoneHints.join(', ')}`]),
      ...(nodeHints.length === 0 ? [] : [`hints of nodes ${nodeHints.join(', ')}`]),
      ...(weight === undefined ? [] : [`weight ${weight}`]),
      ...(isBackup === true ? ['backup'] : []),
    ];
    return parts.join('; ');
  });
  const more = slice.endpoints.length - lines.length;
  return [...ports, ...lines, ...(more > 0 ? [`and ${more} more endpoints`] : [])];
}
