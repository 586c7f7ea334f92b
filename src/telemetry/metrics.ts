/**
 * The agent's metrics in Prometheus' form: kube-proxy's under their names, so that dashboards and alerts go on working, and those of
 * slicewire under `slicewire_`. Values that other parts keep are read on each scrape.
 */
import type { Counter, Gauge, Histogram } from 'prom-client';
import { MODE_NAMES, MODES, type ModeName } from '../proxy/model/modes.ts';
import { MetricRegistry, type Samples, TURNED_AWAY } from './registry.ts';

export interface MetricsOptions {
  readonly mode: ModeName;
  readonly families: readonly string[];
  readonly version: string;
  /** Readers of samples, called on each scrape, by the name of their metric. */
  readonly read: Readonly<Record<ReadName, Samples>>;
}

/** Metrics whose values are read, with their type, help text and labels. */
export const READ = {
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: [
    'gauge',
    'Services whose EndpointSlices changed since the last sync',
  ],
  kubeproxy_sync_proxy_rules_endpoint_changes_total: ['counter', 'EndpointSlice events'],
  kubeproxy_sync_proxy_rules_service_changes_pending: ['gauge', 'Services that changed since the last sync'],
  kubeproxy_sync_proxy_rules_service_changes_total: ['counter', 'Service events'],
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: [
    'gauge',
    'Service ports with policy Local that have endpoints, but none on this node',
    'traffic_policy',
    'ip_family',
  ],
  kubeproxy_sync_proxy_rules_iptables_total: ['gauge', 'iptables rules of slicewire', 'table', 'ip_family'],
  kubeproxy_sync_proxy_rules_iptables_last: [
    'gauge',
    'iptables rules written by the last sync that wrote any',
    'table',
    'ip_family',
  ],
  // Names and help texts are kube-proxy's (k8s#122812, k8s#125015).
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: [
    'counter',
    'packets dropped by iptables to work around conntrack problems',
  ],
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: [
    'counter',
    'Number of packets accepted on nodeports of loopback interface',
  ],
  // Names of kube-proxy 1.37 (KEP-6032).
  kubeproxy_nftables_localhost_nodeport_listeners: [
    'gauge',
    'Node ports on loopback at which the relay listens',
    'ip_family',
  ],
  kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: [
    'counter',
    'Times that the relay could not listen at a node port on loopback',
    'ip_family',
  ],
  slicewire_relay_listeners: ['gauge', 'Node ports on loopback at which the relay listens', 'ip_family'],
  slicewire_relay_listen_failures_total: [
    'counter',
    'Times that the relay could not listen at a node port on loopback',
    'ip_family',
  ],
  slicewire_relay_connections: ['gauge', 'Connections that the relay passes on at present', 'ip_family'],
  slicewire_relay_connections_total: ['counter', 'Connections of the relay that ended, by how', 'result'],
  slicewire_nftables_rules: ['gauge', 'Rules in the table of slicewire', 'ip_family'],
  slicewire_nftables_elements: ['gauge', 'Elements of the maps and sets in the table of slicewire', 'ip_family'],
  slicewire_ipvs_enlarged_set_maxelem: [
    'gauge',
    'Largest number of entries of a set that is larger than that of kube-proxy, which cannot take it over',
    'set',
  ],
  slicewire_connections_total: [
    'counter',
    'Connections to a frontend (--nftables-count-connections); starts from 0 when it is new or gets its first endpoint',
    'service',
    'address',
    'protocol',
    'port',
    'ip_family',
  ],
  slicewire_connections_over_limit_total: [
    'counter',
    'New connections that a limit of their Service refused; starts from 0 when the limit is written anew',
    'service',
    'port',
    'protocol',
    'limit',
    'ip_family',
  ],
  slicewire_faults: ['gauge', 'Faults of objects at present, by effect', 'effect'],
  slicewire_watch_age_seconds: ['gauge', 'Seconds since the API server last answered about a kind', 'kind'],
  slicewire_watch_failing: ['gauge', '1 while the watch of a kind fails', 'kind'],
  slicewire_failover_suspects: ['gauge', 'Nodes that do not answer, whose endpoints get no new connections'],
  slicewire_failover_ejections_total: ['counter', 'Times that a Node became such a suspect'],
  slicewire_datapath_broken: [
    'gauge',
    '1 while connections of the agent to itself through its rules fail (--datapath-check)',
    'from',
    'ip_family',
  ],
  slicewire_datapath_connections_total: [
    'counter',
    'Connections of the agent to itself through its rules, by result',
    'from',
    'ip_family',
    'result',
  ],
  slicewire_takeover: ['gauge', '1 for the stage of the takeover of this node (--takeover=confirm)', 'stage'],
  slicewire_services_refused: ['gauge', 'Services that the kernel refuses; their former rules stay'],
  slicewire_programmed_behind_services: [
    'gauge',
    'Services of which /programmed says that an older version is in the kernel',
  ],
  slicewire_programmed_waiters: ['gauge', 'Questions of /programmed that wait for a version'],
  slicewire_http_clients_turned_away_total: ['counter', TURNED_AWAY.help, ...TURNED_AWAY.labels],
  slicewire_healthy: ['gauge', '1 when /healthz answers 200, regardless of the eligibility of the Node'],
  slicewire_ready: ['gauge', '1 when /readyz answers 200'],
  slicewire_config_reloads_total: ['counter', 'Reloads of the configuration file, by result', 'result'],
} as const satisfies Readonly<Record<string, readonly ['gauge' | 'counter', help: string, ...labels: string[]]>>;
export type ReadName = keyof typeof READ;

/** Metrics that one mode alone has. */
const OF_MODE: Readonly<Record<ModeName, readonly string[]>> = {
  iptables: [
    'kubeproxy_sync_proxy_rules_iptables_total',
    'kubeproxy_sync_proxy_rules_iptables_last',
    'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
    'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
  ],
  ipvs: ['slicewire_ipvs_enlarged_set_maxelem'],
  nftables: [
    'kubeproxy_nftables_localhost_nodeport_listeners',
    'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total',
    'slicewire_nftables_rules',
    'slicewire_nftables_elements',
    'slicewire_connections_total',
  ],
};

/** Metrics of the modes in which the relay serves node ports on loopback. */
const OF_RELAY = 'slicewire_relay_';

export class Metrics {
  readonly #registry: MetricRegistry;
  readonly #syncs: SyncMetrics;
  readonly #sweeps: SweepMetrics;
  readonly #notices: Counter;
  readonly #triggers: Counter;
  readonly #answers: Readonly<Record<'healthz' | 'livez' | 'readyz' | 'datapath', Counter>>;

  constructor({ mode, families, version, read }: MetricsOptions) {
    const registry = new MetricRegistry(version);
    this.#registry = registry;
    this.#syncs = new SyncMetrics(registry, families, mode);
    this.#sweeps = new SweepMetrics(registry, families);
    this.#notices = registry.counter(
      'slicewire_foreign_writes_total',
      'Checks at once after a write of another program, by what it had touched',
      ['touched'],
    );
    this.#triggers = registry.counter('slicewire_sync_triggers_total', 'Syncs that began, by what asked for them', [
      'trigger',
    ]);
    this.#answers = {
      healthz: registry.counter('kubeproxy_proxy_healthz_total', 'Answers of /healthz, by status', ['code']),
      livez: registry.counter('kubeproxy_proxy_livez_total', 'Answers of /livez, by status', ['code']),
      readyz: registry.counter('slicewire_readyz_total', 'Answers of /readyz, by status', ['code']),
      datapath: registry.counter('slicewire_healthz_datapath_total', 'Answers of /healthz/datapath, by status', [
        'code',
      ]),
    };
    addRead(registry, mode, read);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.text();
  }

  /** A sync was requested; seconds since 1970. */
  queued(seconds: number): void {
    this.#syncs.queued(seconds);
  }

  /** `now`: seconds since 1970. */
  synced(facts: SyncFacts, now: number): void {
    this.#syncs.synced(facts, now);
  }

  /** A sync begins. `trigger` must be from a small set of words. */
  triggered(trigger: string): void {
    this.#triggers.inc({ trigger });
  }

  /** A check after a write of another program is done. */
  noticed(touched: string): void {
    this.#notices.inc({ touched });
  }

  answered(path: 'healthz' | 'livez' | 'readyz' | 'datapath', status: number): void {
    this.#answers[path].inc({ code: String(status) });
  }

  /** A sweep of stale flows ended; milliseconds. */
  swept(duration: number, deleted: DeletedFlows): void {
    this.#sweeps.swept(duration, deleted);
  }
}

function addRead(registry: MetricRegistry, mode: MetricsOptions['mode'], read: MetricsOptions['read']): void {
  for (const [name, [type, help, ...labels]] of Object.entries(READ)) {
    if (MODE_NAMES.some((other) => other !== mode && OF_MODE[other].includes(name))) continue;
    if (MODES[mode].loopbackBy === 'rules' && name.startsWith(OF_RELAY)) continue;
    const samples = read[name as ReadName];
    if (type === 'gauge') registry.readGauge(name, help, [...labels], samples);
    else registry.readCounter(name, help, [...labels], samples);
  }
}

// Syncs, and sweeps of stale flows.

/** kube-proxy's: 15 buckets, from 1 ms, each twice the one before. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i);
/** kube-proxy's, from its pkg/proxy/metrics. */
const LATENCY_BUCKETS = [
  ...[0.25, 0.5],
  ...Array.from({ length: 59 }, (_, i) => i + 1),
  ...Array.from({ length: 12 }, (_, i) => 60 + 5 * i),
  ...Array.from({ length: 7 }, (_, i) => 120 + 30 * i),
];
const FAMILY = ['ip_family'];
const OF_SYNC = 'kubeproxy_sync';

/** Numbers of flows that a sweep deleted, by family; undefined for a kind that the sweep did not cover. */
interface DeletedFlows {
  readonly udp: ReadonlyMap<string, number> | undefined;
  readonly opening: ReadonlyMap<string, number> | undefined;
  readonly gone: ReadonlyMap<string, number> | undefined;
}

/** The result of one sync. Times are in milliseconds. */
interface SyncFacts {
  /** Families of which everything was written. */
  readonly complete: readonly string[];
  /** Families of which a write of rules failed. */
  readonly failedWrites: readonly string[];
  readonly duration: number;
  readonly writing: number;
  /** Whether the sync read the kernel. */
  readonly isFull: boolean;
  readonly steps: number;
  /** Services visited, and kernel objects rendered. */
  readonly work: { readonly services: number; readonly rendered: number };
  readonly drift: number;
  /** Time of each change from its cause to the kernel. */
  readonly latencies: readonly number[];
  readonly outcome: string;
}

class SyncMetrics {
  readonly #families: readonly string[];
  readonly #durations: SyncDurations;
  readonly #counts: SyncCounts;
  readonly #lastSync: Gauge;
  readonly #lastQueued: Gauge;
  readonly #writeFailures: Counter;
  /** undefined in nftables mode, where all writes are partial. */
  readonly #partialFailures: Counter | undefined;

  constructor(registry: MetricRegistry, families: readonly string[], mode: ModeName) {
    this.#families = families;
    this.#durations = new SyncDurations(registry);
    this.#counts = new SyncCounts(registry);
    const rules = `${OF_SYNC}_proxy_rules`;
    this.#lastSync = registry.gauge(`${rules}_last_timestamp_seconds`, 'Time of the last complete sync', FAMILY);
    this.#lastQueued = registry.gauge(
      `${rules}_last_queued_timestamp_seconds`,
      'Time of the last request for a sync',
      FAMILY,
    );
    const isNft = MODES[mode].rulesBy === 'nftables';
    const failures = isNft ? 'nftables_sync_failures' : 'iptables_restore_failures';
    this.#writeFailures = registry.counter(`${rules}_${failures}_total`, 'Failed writes of rules', FAMILY);
    const partial = `${rules}_iptables_partial_restore_failures_total`;
    this.#partialFailures = isNft
      ? undefined
      : registry.counter(partial, 'Failed writes in syncs that did not read the kernel', FAMILY);
  }

  /** A sync was requested; seconds since 1970. */
  queued(seconds: number): void {
    for (const ip_family of this.#families) this.#lastQueued.set({ ip_family }, seconds);
  }

  /** `now`: seconds since 1970. */
  synced(facts: SyncFacts, now: number): void {
    this.#durations.observe(facts, this.#families);
    for (const ip_family of facts.complete) this.#lastSync.set({ ip_family }, now);
    for (const ip_family of facts.failedWrites) {
      this.#writeFailures.inc({ ip_family });
      if (!facts.isFull) this.#partialFailures?.inc({ ip_family });
    }
    this.#counts.add(facts);
  }
}

class SyncDurations {
  readonly #sync: Histogram;
  readonly #full: Histogram;
  readonly #partial: Histogram;
  readonly #latency: Histogram;
  readonly #writing: Histogram;

  constructor(registry: MetricRegistry) {
    const histogram = (name: string, help: string, buckets = SYNC_BUCKETS) =>
      registry.histogram(name, help, FAMILY, buckets);
    this.#sync = histogram(`${OF_SYNC}_proxy_rules_duration_seconds`, 'Duration of syncs');
    this.#full = histogram(`${OF_SYNC}_full_proxy_rules_duration_seconds`, 'Duration of syncs that read the kernel');
    this.#partial = histogram(
      `${OF_SYNC}_partial_proxy_rules_duration_seconds`,
      'Duration of syncs that wrote changes without reading the kernel',
    );
    this.#latency = histogram(
      'kubeproxy_network_programming_duration_seconds',
      'Time from the change of a Service or Pod until the kernel has it',
      LATENCY_BUCKETS,
    );
    this.#writing = registry.histogram(
      'slicewire_apply_duration_seconds',
      'Time of each sync to plan and write',
      [],
      SYNC_BUCKETS,
    );
  }

  observe({ duration, isFull, writing, complete, latencies }: SyncFacts, families: readonly string[]): void {
    for (const ip_family of families) {
      this.#sync.observe({ ip_family }, duration / 1000);
      (isFull ? this.#full : this.#partial).observe({ ip_family }, duration / 1000);
    }
    for (const ip_family of complete) {
      for (const latency of latencies) this.#latency.observe({ ip_family }, latency / 1000);
    }
    this.#writing.observe(writing / 1000);
  }
}

class SyncCounts {
  readonly #steps: Counter;
  readonly #visited: Counter;
  readonly #rendered: Counter;
  readonly #outcomes: Counter;
  readonly #drift: Counter;

  constructor(registry: MetricRegistry) {
    this.#steps = registry.counter('slicewire_steps_total', 'Steps written: chains, servers, sets, settings');
    this.#visited = registry.counter('slicewire_sync_services_visited_total', 'Services that syncs visited');
    this.#rendered = registry.counter('slicewire_sync_objects_rendered_total', 'Kernel objects that syncs rendered');
    this.#outcomes = registry.counter('slicewire_syncs_total', 'Syncs, by outcome', ['outcome']);
    this.#drift = registry.counter(
      'slicewire_drift_total',
      'Kernel objects of slicewire that another program had changed',
    );
  }

  add({ steps, work, drift, outcome }: SyncFacts): void {
    this.#steps.inc(steps);
    this.#visited.inc(work.services);
    this.#rendered.inc(work.rendered);
    this.#drift.inc(drift);
    this.#outcomes.inc({ outcome });
  }
}

class SweepMetrics {
  readonly #families: readonly string[];
  readonly #duration: Histogram;
  readonly #udp: Counter;
  readonly #opening: Counter;
  readonly #gone: Counter;

  constructor(registry: MetricRegistry, families: readonly string[]) {
    this.#families = families;
    this.#duration = registry.histogram(
      'kubeproxy_conntrack_reconciler_sync_duration_seconds',
      'Time to find and delete stale flows',
      FAMILY,
      SYNC_BUCKETS,
    );
    this.#udp = registry.counter(
      'kubeproxy_conntrack_reconciler_deleted_entries_total',
      'Stale UDP flows that were deleted',
      FAMILY,
    );
    this.#opening = registry.counter(
      'slicewire_unanswered_connections_deleted_total',
      'Unanswered TCP and SCTP connections to removed endpoints that were deleted',
      FAMILY,
    );
    this.#gone = registry.counter(
      'slicewire_gone_endpoint_connections_deleted_total',
      'Established TCP connections to endpoints that are gone that were deleted (--reset-gone)',
      FAMILY,
    );
  }

  /** `duration`: milliseconds. */
  swept(duration: number, { udp, opening, gone }: DeletedFlows): void {
    for (const ip_family of this.#families) {
      this.#duration.observe({ ip_family }, duration / 1000);
      this.#udp.inc({ ip_family }, udp?.get(ip_family) ?? 0);
      this.#opening.inc({ ip_family }, opening?.get(ip_family) ?? 0);
      this.#gone.inc({ ip_family }, gone?.get(ip_family) ?? 0);
    }
  }
}
