/** Metrics of `slicewire controller`, under the names of kube-controller-manager (k8s.io/endpointslice/metrics and the mirroring controller's). */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { BUILD_INFO, buildLabels } from './metrics.ts';

/** A queue of work, read when metrics are asked for. */
export interface QueueSample {
  readonly name: string;
  readonly depth: number;
  readonly adds: number;
  readonly retries: number;
}

export interface ControllerMetricsOptions {
  readonly version: string;
  readonly queues: () => readonly QueueSample[];
  /** Whether this replica works. */
  readonly isLeader: () => boolean;
  readonly leaseName: string;
}

/** What of a Service or Endpoints object is summed up over all of them. */
interface Sizes {
  readonly endpoints: number;
  readonly slices: number;
  readonly needed: number;
}

interface Added extends Sizes {
  readonly added: number;
  readonly removed: number;
}

/** The Service whose slices were counted. */
interface Counted {
  readonly key: string;
  readonly wantsTopology: boolean;
  readonly distribution?: string | undefined;
}

/** 2, 4, 8, … 32768: upstream's. */
const COUNTS = Array.from({ length: 15 }, (_, i) => 2 ** (i + 1));
const SECONDS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i);
/** Milliseconds between two looks after the event loop. */
const LAG_RESOLUTION = 100;

/** Totals over many things of which each is known by its own numbers. */
class Totals {
  readonly #of = new Map<string, Sizes>();
  readonly #gauges: Readonly<Record<keyof Sizes, Gauge>>;

  constructor(gauges: Readonly<Record<keyof Sizes, Gauge>>) {
    this.#gauges = gauges;
  }

  clear(): void {
    for (const key of [...this.#of.keys()]) this.set(key, undefined);
  }

  set(key: string, after: Sizes | undefined): void {
    const before = this.#of.get(key);
    for (const what of ['endpoints', 'slices', 'needed'] as const) {
      this.#gauges[what].inc((after?.[what] ?? 0) - (before?.[what] ?? 0));
    }
    if (after === undefined) this.#of.delete(key);
    else this.#of.set(key, { endpoints: after.endpoints, slices: after.slices, needed: after.needed });
  }
}

export class ControllerMetrics {
  readonly #registry = new Registry();
  readonly #slices: Totals;
  readonly #mirror: Totals;
  readonly #added: Histogram;
  readonly #removed: Histogram;
  readonly #changed: Histogram;
  readonly #syncs: Counter;
  readonly #changes: Readonly<Record<'slices' | 'mirror', Counter[]>>;
  readonly #distributions: Gauge;
  readonly #distributionOf = new Map<string, string>();
  readonly #mirrorHistograms: Readonly<Record<'added' | 'updated' | 'removed' | 'skipped', Histogram>>;
  readonly #mirrorDuration: Histogram;

  constructor(options: ControllerMetricsOptions) {
    const registers = [this.#registry];
    const histogram = (name: string, help: string, labelNames: string[] = [], buckets = COUNTS) =>
      new Histogram({ name, help, labelNames, buckets, registers });
    const gauge = (name: string, help: string, labelNames: string[] = []) =>
      new Gauge({ name, help, labelNames, registers });
    const counter = (name: string, help: string, labelNames: string[]) =>
      new Counter({ name, help, labelNames, registers });
    const totals = (of: string) =>
      new Totals({
        endpoints: gauge(`${of}_endpoints_desired`, 'Endpoints that should be in slices'),
        slices: gauge(`${of}_num_endpoint_slices`, 'EndpointSlices'),
        needed: gauge(`${of}_desired_endpoint_slices`, 'EndpointSlices if all but the last were full'),
      });
    const of = 'endpoint_slice_controller';
    this.#slices = totals(of);
    this.#added = histogram(`${of}_endpoints_added_per_sync`, 'Endpoints added by the sync of a Service');
    this.#removed = histogram(`${of}_endpoints_removed_per_sync`, 'Endpoints removed by the sync of a Service');
    this.#changed = histogram(
      `${of}_endpointslices_changed_per_sync`,
      'EndpointSlices changed by the sync of a Service',
      ['topology', 'traffic_distribution'],
    );
    this.#syncs = counter(`${of}_syncs`, 'Syncs of Services, by result', ['result']);
    this.#distributions = gauge(
      `${of}_services_count_by_traffic_distribution`,
      'Services by their trafficDistribution',
      ['traffic_distribution'],
    );
    const mirror = 'endpoint_slice_mirroring_controller';
    this.#mirror = totals(mirror);
    const mirrored = (what: string, help: string) => histogram(`${mirror}_${what}_per_sync`, help);
    this.#mirrorHistograms = {
      added: mirrored('endpoints_added', 'Endpoints added by the sync of an Endpoints object'),
      updated: mirrored('endpoints_updated', 'Endpoints updated by the sync of an Endpoints object'),
      removed: mirrored('endpoints_removed', 'Endpoints removed by the sync of an Endpoints object'),
      skipped: mirrored('addresses_skipped', 'Addresses that are none, or too many'),
    };
    this.#mirrorDuration = histogram(
      `${mirror}_endpoints_sync_duration`,
      'Seconds for one Endpoints object',
      [],
      SECONDS,
    );
    this.#changes = {
      // The old name lacks the suffix of counters.
      slices: [`${of}_changes`, `${of}_changes_total`].map((name) =>
        counter(name, 'Writes of EndpointSlices', ['operation']),
      ),
      mirror: [counter(`${mirror}_changes`, 'Writes of mirrored EndpointSlices', ['operation'])],
    };
    gauge(BUILD_INFO.name, BUILD_INFO.help, BUILD_INFO.labels).set(buildLabels(options.version), 1);
    this.#addRead(options);
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: LAG_RESOLUTION });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  synced(result: 'success' | 'stale' | 'error'): void {
    this.#syncs.inc({ result });
  }

  sliceChanged(of: 'slices' | 'mirror', operation: 'create' | 'update' | 'delete'): void {
    for (const counter of this.#changes[of]) counter.inc({ operation });
  }

  /** `changed`: slices that were written or deleted. Topology mode wins over a distribution. */
  slicesCounted({ key, wantsTopology, distribution: asked = '' }: Counted, counts: Added, changed: number): void {
    const distribution = wantsTopology ? '' : asked;
    this.#slices.set(key, counts);
    this.#added.observe(counts.added);
    this.#removed.observe(counts.removed);
    const labels = { topology: wantsTopology ? 'Auto' : 'Disabled', traffic_distribution: distribution };
    this.#changed.observe(labels, changed);
    this.#setDistribution(key, distribution);
  }

  forgetService(key: string): void {
    this.#slices.set(key, undefined);
    this.#setDistribution(key, '');
  }

  /** `duration`: milliseconds. */
  mirrored(
    key: string,
    counts: Added & { readonly updated: number; readonly skipped: number },
    duration: number,
  ): void {
    this.#mirror.set(key, counts);
    for (const what of ['added', 'updated', 'removed', 'skipped'] as const)
      this.#mirrorHistograms[what].observe(counts[what]);
    this.#mirrorDuration.observe(duration / 1000);
  }

  forgetMirror(key: string): void {
    this.#mirror.set(key, undefined);
  }

  /** This replica writes no more. */
  stopped(of: 'slices' | 'mirror'): void {
    if (of === 'mirror') this.#mirror.clear();
    else {
      this.#slices.clear();
      for (const key of [...this.#distributionOf.keys()]) this.#setDistribution(key, '');
    }
  }

  #setDistribution(key: string, now: string): void {
    const before = this.#distributionOf.get(key) ?? '';
    if (before === now) return;
    if (before !== '') this.#distributions.dec({ traffic_distribution: before });
    if (now !== '') this.#distributions.inc({ traffic_distribution: now });
    if (now === '') this.#distributionOf.delete(key);
    else this.#distributionOf.set(key, now);
  }

  #addRead({ queues, isLeader, leaseName }: ControllerMetricsOptions): void {
    const registers = [this.#registry];
    const read = (name: string, help: string, of: 'depth' | 'adds' | 'retries') => {
      const options = { name, help, labelNames: ['name'], registers };
      const collect = (metric: { reset(): void; inc(labels: object, by: number): void }) => {
        metric.reset();
        for (const queue of queues()) metric.inc({ name: queue.name }, queue[of]);
      };
      if (of === 'depth')
        new Gauge({
          ...options,
          collect() {
            collect(this);
          },
        });
      else
        new Counter({
          ...options,
          collect() {
            collect(this);
          },
        });
    };
    read('workqueue_depth', 'Keys that wait for a worker', 'depth');
    read('workqueue_adds_total', 'Keys that were added', 'adds');
    read('workqueue_retries_total', 'Keys that are tried again', 'retries');
    new Gauge({
      name: 'leader_election_master_status',
      help: '1 while this replica holds the lease',
      labelNames: ['name'],
      registers,
      collect() {
        this.set({ name: leaseName }, isLeader() ? 1 : 0);
      },
    });
  }
}
