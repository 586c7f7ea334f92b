/** Answers of an agent for tests: status, history, verification and exposure. */
import type { Exposure } from '../../../../src/inspect/wire/exposure.ts';
import type { History, RecordedChange } from '../../../../src/inspect/wire/history.ts';
import type { LastingDifference, Shadow } from '../../../../src/inspect/wire/shadow.ts';
import type { Status } from '../../../../src/inspect/wire/status.ts';
import type { Verification } from '../../../../src/inspect/wire/verification.ts';

export const NOW = '2026-11-22T12:03:04.567Z';

const byOf = (node: string) => ({ who: 'agent', mode: 'nftables', node, version: '1.2.3', at: NOW }) as const;

export function statusAnswer(node: string, more: Partial<Status> = {}): Status {
  return {
    apiVersion: 'slicewire/v1',
    kind: 'Status',
    by: byOf(node),
    pid: 4711,
    startedAt: '2026-11-22T08:00:00.000Z',
    families: ['IPv4'],
    source: 'the API server of /etc/kubeconfig',
    health: { live: true, ready: true, healthy: true, reasons: [] },
    heard: [{ of: 'EndpointSlices', at: NOW, lost: null }],
    objects: { services: 10_214, slices: 10_300 },
    syncs: [],
    latency: { changes: 10, p50: 3, p99: 6, most: 9, since: '2026-11-22T11:30:00.000Z' },
    faults: [],
    refused: [],
    drift: [],
    history: null,
    ...more,
  };
}

/** An agent that lost the API server 40 s ago. */
export function staleStatus(node: string): Status {
  const lost = { since: '2026-11-22T12:02:24.567Z', cause: 'connection refused' };
  return statusAnswer(node, { heard: [{ of: 'EndpointSlices', at: lost.since, lost }] });
}

/** Of a shadow that compared everything. */
export function shadowAnswer(node: string, differing: readonly LastingDifference[] = []): Shadow {
  const { by, source, heard, objects } = statusAnswer(node);
  const latency = { changes: 9, p50: 400, p99: 819, most: 1400, since: NOW };
  return {
    apiVersion: 'slicewire/v1',
    kind: 'Shadow',
    by: { ...by, mode: 'nftables', rules: 'kube-proxy' },
    pid: 7,
    startedAt: NOW,
    ...{ source, heard, objects, problem: '' },
    compared: { at: NOW, connections: 3003, milliseconds: 800 },
    differences: [...differing],
    count: differing.length,
    onPurpose: [],
    onPurposeCount: 0,
    waiting: { services: 0, oldest: null },
    latency: { theirs: latency, plan: { ...latency, p99: 1 }, sight: 'rules compared', unmeasured: 0 },
    change: null,
    cost: { processor: 1, memory: 1_000_000 },
  };
}

export function verificationAnswer(node: string, differing: readonly string[] = []): Verification {
  return {
    apiVersion: 'slicewire/v1',
    kind: 'Verification',
    by: byOf(node),
    equal: differing.length === 0,
    compared: 1000,
    differences: differing.map((object) => ({
      family: 'IPv4',
      object,
      service: 'shop/web',
      kind: 'missing',
      wanted: ['a line'],
      found: [],
      because: '',
      repaired: true,
    })),
    count: differing.length,
    lastWriter: null,
  };
}

export function change(more: Partial<RecordedChange> = {}): RecordedChange {
  return {
    number: 7,
    at: '2026-11-22T12:02:00.000Z',
    object: 'EndpointSlice shop/web-1',
    service: 'shop/web',
    resourceVersion: '900',
    what: ['endpoint 10.244.1.11:8080 added'],
    sync: 3,
    inKernelAt: '2026-11-22T12:02:00.006Z',
    milliseconds: 6,
    ...more,
  };
}

export function historyAnswer(node: string, changes: readonly RecordedChange[], more: Partial<History> = {}): History {
  return {
    apiVersion: 'slicewire/v1',
    kind: 'History',
    by: byOf(node),
    service: 'shop/web',
    reachesBackTo: '2026-11-22T11:00:00.000Z',
    changes: [...changes],
    syncs: [],
    omitted: 0,
    stood: [],
    ...more,
  };
}

export function exposureAnswer(node: string, problems: readonly string[] = []): Exposure {
  return {
    apiVersion: 'slicewire/v1',
    kind: 'Exposure',
    by: byOf(node),
    nodePortAddresses: ['192.168.77.2'],
    exposed: [
      {
        kind: 'node port',
        address: '',
        port: 30_080,
        protocol: 'TCP',
        family: 'IPv4',
        service: 'shop/web',
        to: [],
        answers: 'endpoints',
        problems: [...problems],
      },
    ],
    omitted: 0,
    problems: [],
  };
}
