/**
 * The monitoring of `slicewire controller`: its metrics under the names of kube-controller-manager (k8s.io/endpointslice/metrics and the
 * mirroring controller's), and the server that answers with them and with its health.
 */
import type { SelectingService } from '../cluster/producers/api-objects.ts';
import type { MirrorCounts } from '../cluster/producers/mirror.ts';
import type { SliceCounts } from '../cluster/producers/slices.ts';
import type { TurnedAwayCount } from '../serve/clients.ts';
import { FOLLOWER_PATHS, type FollowingProgram, followerAnswer } from '../serve/following-program.ts';
import { type Handler, NOT_FOUND } from '../serve/http.ts';
import { type Component, type ComponentInfo, zpageAnswer } from '../serve/zpages.ts';
import { type Counter, type Gauge, type Histogram, MetricRegistry } from '../telemetry/registry.ts';
import type { Operation } from './object-writer.ts';
import type { SyncResult } from './queue.ts';

export interface ControllerMetricsOptions {
  readonly version: string;
  /** The work queues, by their names in metrics. */
  readonly queues: () => readonly {
    readonly name: string;
    readonly depth: number;
    readonly adds: number;
    readonly retries: number;
  }[];
  /** Whether this replica holds the lease. */
  readonly isLeader: () => boolean;
  readonly leaseName: string;
  readonly watches: () => readonly { readonly of: string; readonly failure: object | undefined }[];
  /** Clients of the servers that were refused, or whose connections were closed for others. */
  readonly turnedAway: () => readonly TurnedAwayCount[];
}

/** Numbers of one Service or Endpoints object; the gauges are their sums. */
type Sizes = Pick<SliceCounts, 'endpoints' | 'slices' | 'needed'>;

/** The Service whose slices were counted. */
type CountedService = Pick<SelectingService, 'key' | 'wantsTopology' | 'distribution'>;

/** 2, 4, 8, … 32768: upstream's. */
const COUNTS = Array.from({ length: 15 }, (_, i) => 2 ** (i + 1));
const SECONDS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i);
const OF_SLICES = 'endpoint_slice_controller';
const OF_MIRROR = 'endpoint_slice_mirroring_controller';

export class ControllerMetrics {
  readonly #registry: MetricRegistry;
  readonly #slices: SliceMetrics;
  readonly #mirror: MirrorMetrics;

  constructor(options: ControllerMetricsOptions) {
    this.#registry = new MetricRegistry(options.version);
    this.#slices = new SliceMetrics(this.#registry);
    this.#mirror = new MirrorMetrics(this.#registry);
    addRead(this.#registry, options);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.text();
  }

  /** A sync of the slices of a Service ended. */
  synced(result: SyncResult): void {
    this.#slices.syncs.inc({ result });
  }

  /** An EndpointSlice was written. */
  sliceChanged(of: 'slices' | 'mirror', operation: Operation): void {
    if (of === 'slices') this.#slices.written(operation);
    else this.#mirror.writes.inc({ operation });
  }

  /** `changed`: slices that were written or deleted. */
  slicesCounted(service: CountedService, counts: SliceCounts, changed: number): void {
    this.#slices.counted(service, counts, changed);
  }

  forgetService(key: string): void {
    this.#slices.forget(key);
  }

  /** `duration`: milliseconds. */
  mirrored(key: string, counts: MirrorCounts, duration: number): void {
    this.#mirror.mirrored(key, counts, duration);
  }

  forgetMirror(key: string): void {
    this.#mirror.totals.set(key, undefined);
  }

  /** This replica stops writing: another replica counts from now on. */
  stopped(of: 'slices' | 'mirror'): void {
    if (of === 'mirror') this.#mirror.totals.clear();
    else this.#slices.clear();
  }
}

/** Metrics of the slices of Services with a selector. */
class SliceMetrics {
  readonly syncs: Counter;
  readonly #totals: Totals;
  readonly #added: Histogram;
  readonly #removed: Histogram;
  readonly #changed: Histogram;
  readonly #writes: readonly Counter[];
  readonly #distributions: Gauge;
  readonly #distributionOf = new Map<string, string>();

  constructor(registry: MetricRegistry) {
    const histogram = (what: string, help: string, labels: string[] = []) =>
      registry.histogram(`${OF_SLICES}_${what}_per_sync`, help, labels, COUNTS);
    this.#totals = new Totals(registry, OF_SLICES);
    this.#added = histogram('endpoints_added', 'Endpoints added by the sync of a Service');
    this.#removed = histogram('endpoints_removed', 'Endpoints removed by the sync of a Service');
    this.#changed = histogram('endpointslices_changed', 'EndpointSlices changed by the sync of a Service', [
      'topology',
      'traffic_distribution',
    ]);
    this.syncs = registry.counter(`${OF_SLICES}_syncs`, 'Syncs of Services, by result', ['result']);
    this.#distributions = registry.gauge(
      `${OF_SLICES}_services_count_by_traffic_distribution`,
      'Services, by trafficDistribution',
      ['traffic_distribution'],
    );
    // Upstream's older name lacks the suffix of counters.
    this.#writes = [`${OF_SLICES}_changes`, `${OF_SLICES}_changes_total`].map((name) =>
      registry.counter(name, 'Writes of EndpointSlices', ['operation']),
    );
  }

  written(operation: Operation): void {
    for (const counter of this.#writes) counter.inc({ operation });
  }

  /** Topology mode wins over a trafficDistribution. */
  counted({ key, wantsTopology, distribution: given }: CountedService, counts: SliceCounts, changed: number): void {
    const distribution = wantsTopology ? '' : (given ?? '');
    this.#totals.set(key, counts);
    this.#added.observe(counts.added);
    this.#removed.observe(counts.removed);
    const labels = { topology: wantsTopology ? 'Auto' : 'Disabled', traffic_distribution: distribution };
    this.#changed.observe(labels, changed);
    this.#setDistribution(key, distribution);
  }

  forget(key: string): void {
    this.#totals.set(key, undefined);
    this.#setDistribution(key, '');
  }

  clear(): void {
    this.#totals.clear();
    for (const key of [...this.#distributionOf.keys()]) this.#setDistribution(key, '');
  }

  #setDistribution(key: string, now: string): void {
    const before = this.#distributionOf.get(key) ?? '';
    if (before === now) return;
    if (before !== '') this.#distributions.dec({ traffic_distribution: before });
    if (now !== '') this.#distributions.inc({ traffic_distribution: now });
    if (now === '') this.#distributionOf.delete(key);
    else this.#distributionOf.set(key, now);
  }
}

/** Metrics of the slices that mirror Endpoints. */
class MirrorMetrics {
  readonly totals: Totals;
  readonly writes: Counter;
  readonly #changes: Readonly<Record<'added' | 'updated' | 'removed' | 'skipped', Histogram>>;
  readonly #duration: Histogram;

  constructor(registry: MetricRegistry) {
    const histogram = (what: string, help: string) =>
      registry.histogram(`${OF_MIRROR}_${what}_per_sync`, help, [], COUNTS);
    this.totals = new Totals(registry, OF_MIRROR);
    this.writes = registry.counter(`${OF_MIRROR}_changes`, 'Writes of mirrored EndpointSlices', ['operation']);
    this.#changes = {
      added: histogram('endpoints_added', 'Endpoints added by the sync of an Endpoints object'),
      updated: histogram('endpoints_updated', 'Endpoints updated by the sync of an Endpoints object'),
      removed: histogram('endpoints_removed', 'Endpoints removed by the sync of an Endpoints object'),
      skipped: histogram('addresses_skipped', 'Addresses skipped because they are invalid, or beyond the limit'),
    };
    this.#duration = registry.histogram(
      `${OF_MIRROR}_endpoints_sync_duration`,
      'Seconds to sync one Endpoints object',
      [],
      SECONDS,
    );
  }

  /** `duration`: milliseconds. */
  mirrored(key: string, counts: MirrorCounts, duration: number): void {
    this.totals.set(key, counts);
    for (const what of ['added', 'updated', 'removed', 'skipped'] as const) this.#changes[what].observe(counts[what]);
    this.#duration.observe(duration / 1000);
  }
}

/** Gauges that are sums over objects. The numbers of each object are kept, so that a change adds the difference. */
class Totals {
  readonly #sizes = new Map<string, Sizes>();
  readonly #gauges: Readonly<Record<keyof Sizes, Gauge>>;

  /** `of`: the beginning of the metrics' names. */
  constructor(registry: MetricRegistry, of: string) {
    this.#gauges = {
      endpoints: registry.gauge(`${of}_endpoints_desired`, 'Endpoints that belong in EndpointSlices'),
      slices: registry.gauge(`${of}_num_endpoint_slices`, 'EndpointSlices'),
      needed: registry.gauge(
        `${of}_desired_endpoint_slices`,
        'EndpointSlices that would be needed if all but the last were full',
      ),
    };
  }

  clear(): void {
    for (const key of [...this.#sizes.keys()]) this.set(key, undefined);
  }

  /** undefined: the object is gone. */
  set(key: string, after: Sizes | undefined): void {
    const before = this.#sizes.get(key);
    for (const what of ['endpoints', 'slices', 'needed'] as const) {
      this.#gauges[what].inc((after?.[what] ?? 0) - (before?.[what] ?? 0));
    }
    if (after === undefined) this.#sizes.delete(key);
    else this.#sizes.set(key, { endpoints: after.endpoints, slices: after.slices, needed: after.needed });
  }
}

function addRead(registry: MetricRegistry, options: ControllerMetricsOptions): void {
  const { queues, isLeader, leaseName, watches, turnedAway } = options;
  registry.readTurnedAway(turnedAway);
  const samples = (of: 'depth' | 'adds' | 'retries') => () =>
    queues().map((queue) => ({ labels: { name: queue.name }, value: queue[of] }));
  registry.readGauge('workqueue_depth', 'Keys that wait for a worker', ['name'], samples('depth'));
  registry.readCounter('workqueue_adds_total', 'Keys added', ['name'], samples('adds'));
  registry.readCounter('workqueue_retries_total', 'Keys retried', ['name'], samples('retries'));
  registry.readGauge('leader_election_master_status', '1 while this replica holds the lease', ['name'], () => [
    { labels: { name: leaseName }, value: isLeader() ? 1 : 0 },
  ]);
  registry.readGauge('slicewire_watch_failing', '1 while the watch of a kind fails', ['kind'], () =>
    watches().map(({ of, failure }) => ({ labels: { kind: of }, value: failure === undefined ? 0 : 1 })),
  );
}

interface ControllerServerParts extends Omit<FollowingProgram, 'unready'> {
  readonly component: ComponentInfo;
  /** The server listens at loopback. */
  readonly isLocal: boolean;
}

const PATHS = [...FOLLOWER_PATHS, '/statusz', '/flagz'];

export function controllerHandler(parts: ControllerServerParts): Handler {
  const component: Component = {
    name: 'slicewire-controller',
    flag: '--bind-address',
    ...parts.component,
    paths: () => PATHS,
    isLocal: () => parts.isLocal,
  };
  return async (request) =>
    (await followerAnswer(parts, request, component.flag)) ?? zpageAnswer(component, request) ?? NOT_FOUND;
}
