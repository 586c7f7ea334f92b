/** What agents, controllers and the fleet serve at /metrics, with a sample of each metric and of each of its labels. */
import { ControllerMetrics } from '../../../src/controller/monitoring.ts';
import { FleetMetrics } from '../../../src/telemetry/fleet-metrics.ts';
import { Metrics, type MetricsOptions, READ, type ReadName } from '../../../src/telemetry/metrics.ts';
import type { Sample } from '../../../src/telemetry/registry.ts';
import { serviceText } from './service-metrics-text.ts';

export const MODES = ['iptables', 'ipvs', 'nftables'] as const;

export async function agentText(mode: MetricsOptions['mode']): Promise<string> {
  const sample = (name: ReadName): Sample => {
    const [, , ...labels] = READ[name];
    return { labels: Object.fromEntries(labels.map((label) => [label, 'x'])), value: 1 };
  };
  const read = new Proxy({}, { get: (_, name: ReadName) => () => [sample(name)] });
  const metrics = new Metrics({
    ...{ mode, families: ['IPv4', 'IPv6'], version: '9.9.9' },
    read: read as MetricsOptions['read'],
  });
  metrics.queued(100);
  metrics.triggered('changes');
  for (const isFull of [true, false]) {
    metrics.synced(
      {
        ...{ complete: ['IPv4'], failedWrites: ['IPv6'], duration: 15, writing: 10, isFull, steps: 4 },
        ...{ work: { services: 3, rendered: 9 }, drift: 1, latencies: [300], outcome: 'partial' },
      },
      101,
    );
  }
  metrics.noticed('ours');
  for (const path of ['healthz', 'livez', 'readyz'] as const) metrics.answered(path, 200);
  metrics.swept(20, { udp: new Map([['IPv4', 5]]), opening: new Map([['IPv6', 2]]), gone: new Map([['IPv4', 3]]) });
  return `${await metrics.text()}${await serviceText()}`;
}

export async function controllerText(): Promise<string> {
  const metrics = new ControllerMetrics({
    version: '9.9.9',
    queues: () => [{ name: 'endpoint_slice', depth: 1, adds: 2, retries: 3 }],
    isLeader: () => true,
    leaseName: 'slicewire-controller',
    turnedAway: () => [{ address: '10.244.1.9', reason: 'share', count: 3 }],
    watches: () => [{ of: 'Services', failure: undefined }],
  });
  metrics.synced('success');
  metrics.sliceChanged('slices', 'create');
  metrics.sliceChanged('mirror', 'create');
  const counts = { endpoints: 3, slices: 1, needed: 1, added: 3, removed: 0 };
  metrics.slicesCounted({ key: 'a/b', wantsTopology: false, distribution: 'PreferSameZone' }, counts, 1);
  metrics.mirrored('a/b', { ...counts, updated: 0, skipped: 0 }, 5);
  return await metrics.text();
}

export async function fleetText(): Promise<string> {
  const counts = { buckets: [{ upTo: 0.5, count: 2 }], count: 3, sum: 4.5 };
  const metrics = new FleetMetrics({
    version: '9.9.9',
    programming: () => counts,
    lastNode: () => counts,
    states: () => ({ current: 1, 'left out': 2 }),
    waiting: () => 1,
    drained: () => ({ yes: 3, late: 1 }),
    events: () => 7,
    connections: () => 2,
    turnedAway: () => [{ address: '10.244.1.9', reason: 'share', count: 3 }],
    watches: () => [{ of: 'slices', failure: undefined }],
  });
  return await metrics.text();
}

/** The labels of each name that a query can ask for: those of buckets, sums and counts too. */
export function seriesOf(text: string): ReadonlyMap<string, ReadonlySet<string>> {
  const series = new Map<string, Set<string>>();
  for (const line of text.split('\n')) {
    const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (name === undefined) continue;
    const known = series.get(name) ?? new Set();
    for (const [, label = ''] of labels.matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g)) known.add(label);
    series.set(name, known);
  }
  return series;
}
