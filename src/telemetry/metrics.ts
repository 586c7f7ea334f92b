/**
 * Metrics in Prometheus' form: kube-proxy's under its names (its pkg/proxy/metrics), so that dashboards and alerts go on working, and
 * ours under `slicewire_`. Values that somebody else keeps are read when they are asked for (kr#1875).
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Text labels; prom-client takes no others. */
type Labels = Readonly<Record<string, string>>;
export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}
/** Read when metrics are asked for. */
export type Samples = () => readonly Sample[] | Promise<readonly Sample[]>;

export interface MetricsOptions {
  readonly mode: 'iptables' | 'ipvs' | 'nftables';
  readonly families: readonly string[];
  readonly version: string;
  /** What is read from elsewhere, by the name of its metric here. */
  readonly read: Readonly<Record<ReadName, Samples>>;
}

/** Metrics whose values are read, with their type, meaning and labels. */
const READ = {
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: [
    'gauge',
    'Services whose slices changed and that were not synced yet',
  ],
  kubeproxy_sync_proxy_rules_endpoint_changes_total: ['counter', 'EndpointSlice events'],
  kubeproxy_sync_proxy_rules_service_changes_pending: ['gauge', 'Services that changed and were not synced yet'],
  kubeproxy_sync_proxy_rules_service_changes_total: ['counter', 'Service events'],
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: [
    'gauge',
    'Service ports of policy Local with endpoints, but none on this node',
    'traffic_policy',
    'ip_family',
  ],
  kubeproxy_sync_proxy_rules_iptables_total: ['gauge', 'iptables rules that are owned', 'table', 'ip_family'],
  kubeproxy_sync_proxy_rules_iptables_last: [
    'gauge',
    'iptables rules written in the last sync that wrote any',
    'table',
    'ip_family',
  ],
  // Their names and words are kube-proxy's (k8s#122812, k8s#125015).
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: [
    'counter',
    'packets dropped by iptables to work around conntrack problems',
  ],
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: [
    'counter',
    'Number of packets accepted on nodeports of loopback interface',
  ],
  slicewire_nftables_rules: ['gauge', 'Rules in the table of slicewire', 'ip_family'],
  slicewire_nftables_elements: ['gauge', 'Elements of its maps and sets', 'ip_family'],
  slicewire_connections_total: [
    'counter',
    'Connections that came to a frontend (--nftables-count-connections), from 0 again when its endpoints are more or fewer',
    'service',
    'address',
    'protocol',
    'port',
    'ip_family',
  ],
  slicewire_faults: ['gauge', 'Faults of objects now, by what follows from them', 'effect'],
  slicewire_watch_age_seconds: ['gauge', 'Seconds since the API server said something about a kind of object', 'kind'],
  slicewire_watch_failing: ['gauge', '1 while a kind of object cannot be followed', 'kind'],
  slicewire_services_refused: ['gauge', 'Services that the kernel refuses: they stay as they were'],
  slicewire_healthy: ['gauge', '1 when /healthz answers 200, or would if the Node were eligible'],
  slicewire_ready: ['gauge', '1 when /readyz answers 200'],
  slicewire_config_reloads_total: ['counter', 'Changes of the configuration file, by what became of them', 'result'],
} as const satisfies Readonly<Record<string, readonly ['gauge' | 'counter', help: string, ...labels: string[]]>>;
export type ReadName = keyof typeof READ;

/**
 * Not kubernetes_build_info: its git_version is Kubernetes' own, and the version of another program among those sets off
 * the alert KubeVersionMismatch of the kubernetes-mixin.
 */
export const BUILD_INFO = {
  name: 'slicewire_build_info',
  help: 'Version of slicewire, and what it runs on',
  labels: ['version', 'node_version', 'platform'],
};

export function buildLabels(version: string): Labels {
  return { version, node_version: process.versions.node, platform: `${process.platform}/${process.arch}` };
}

/** Metrics of iptables mode alone. */
const OF_IPTABLES: readonly string[] = [
  'kubeproxy_sync_proxy_rules_iptables_total',
  'kubeproxy_sync_proxy_rules_iptables_last',
  'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
  'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
];
const OF_NFTABLES: readonly string[] = [
  'slicewire_nftables_rules',
  'slicewire_nftables_elements',
  'slicewire_connections_total',
];

/** kube-proxy's: from 1 ms on, 15 times doubled. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i);
/** kube-proxy's, from its pkg/proxy/metrics. */
const LATENCY_BUCKETS = [
  ...[0.25, 0.5],
  ...Array.from({ length: 59 }, (_, i) => i + 1),
  ...Array.from({ length: 12 }, (_, i) => 60 + 5 * i),
  ...Array.from({ length: 7 }, (_, i) => 120 + 30 * i),
];

/** Flows that a sweep deleted, by family; undefined: it was not one of that kind. */
export interface DeletedFlows {
  readonly udp: ReadonlyMap<string, number> | undefined;
  readonly opening: ReadonlyMap<string, number> | undefined;
}

/** What a sync has to tell. Milliseconds. */
export interface SyncFacts {
  /** Families of which all was written. */
  readonly complete: readonly string[];
  /** Families of which a write of rules failed. */
  readonly failedWrites: readonly string[];
  readonly duration: number;
  readonly writing: number;
  readonly isFull: boolean;
  readonly steps: number;
  /** What it had to look at. */
  readonly work: { readonly services: number; readonly rendered: number };
  readonly drift: number;
  /** How long each change took from its cause to the kernel. */
  readonly latencies: readonly number[];
  readonly outcome: string;
}

/** Milliseconds between two looks after the event loop. prom-client's own 10 wake a process at rest a hundred times a second. */
const LAG_RESOLUTION = 100;

export class Metrics {
  readonly #registry = new Registry();
  readonly #options: MetricsOptions;
  readonly #sync: Histogram;
  readonly #full: Histogram;
  readonly #partial: Histogram;
  readonly #latency: Histogram;
  readonly #lastSync: Gauge;
  readonly #lastQueued: Gauge;
  readonly #answers: Readonly<Record<'healthz' | 'livez' | 'readyz', Counter>>;
  readonly #restoreFailures: Counter;
  /** None in nftables mode: there, all writes are of changes alone. */
  readonly #partialFailures: Counter | undefined;
  readonly #sweep: Histogram;
  readonly #swept: Counter;
  readonly #sweptOpening: Counter;
  readonly #plan: Histogram;
  readonly #steps: Counter;
  readonly #visited: Counter;
  readonly #rendered: Counter;
  readonly #outcomes: Counter;
  readonly #drift: Counter;

  constructor(options: MetricsOptions) {
    this.#options = options;
    const histogram = (name: string, help: string, labels: string[], buckets = SYNC_BUCKETS) =>
      new Histogram({ name, help, labelNames: labels, buckets, registers: [this.#registry] });
    const gauge = (name: string, help: string, labels: string[]) =>
      new Gauge({ name, help, labelNames: labels, registers: [this.#registry] });
    const counter = (name: string, help: string, labels: string[]) =>
      new Counter({ name, help, labelNames: labels, registers: [this.#registry] });
    const F = ['ip_family'];
    const of = 'kubeproxy_sync';
    this.#sync = histogram(`${of}_proxy_rules_duration_seconds`, 'Time of one sync', F);
    this.#full = histogram(`${of}_full_proxy_rules_duration_seconds`, 'Time of a sync that read the kernel', F);
    this.#partial = histogram(
      `${of}_partial_proxy_rules_duration_seconds`,
      'Time of a sync that wrote changes alone',
      F,
    );
    this.#latency = histogram(
      'kubeproxy_network_programming_duration_seconds',
      'Time from a change of a Service or Pod to the kernel',
      F,
      LATENCY_BUCKETS,
    );
    this.#lastSync = gauge(`${of}_proxy_rules_last_timestamp_seconds`, 'When a sync was complete last', F);
    this.#lastQueued = gauge(`${of}_proxy_rules_last_queued_timestamp_seconds`, 'When a sync was asked for last', F);
    this.#answers = {
      healthz: counter('kubeproxy_proxy_healthz_total', 'Answers of /healthz, by status', ['code']),
      livez: counter('kubeproxy_proxy_livez_total', 'Answers of /livez, by status', ['code']),
      readyz: counter('slicewire_readyz_total', 'Answers of /readyz, by status', ['code']),
    };
    const isNft = options.mode === 'nftables';
    const failures = isNft ? 'nftables_sync_failures' : 'iptables_restore_failures';
    this.#restoreFailures = counter(`${of}_proxy_rules_${failures}_total`, 'Failed writes of rules', F);
    const partial = `${of}_proxy_rules_iptables_partial_restore_failures_total`;
    this.#partialFailures = isNft ? undefined : counter(partial, 'Failed writes of changes alone', F);
    this.#sweep = histogram('kubeproxy_conntrack_reconciler_sync_duration_seconds', 'Time to delete stale flows', F);
    this.#swept = counter(
      'kubeproxy_conntrack_reconciler_deleted_entries_total',
      'Stale UDP flows that were deleted',
      F,
    );
    this.#sweptOpening = counter(
      'slicewire_unanswered_connections_deleted_total',
      'Connections of TCP and SCTP that were never answered, towards endpoints that left, that were deleted',
      F,
    );
    this.#plan = histogram('slicewire_apply_duration_seconds', 'Time to plan and write, of each sync', []);
    this.#steps = counter('slicewire_steps_total', 'Steps written: chains, servers, sets, settings', []);
    this.#visited = counter('slicewire_sync_services_visited_total', 'Services that syncs looked at', []);
    this.#rendered = counter(
      'slicewire_sync_objects_rendered_total',
      'Kernel objects whose desired value syncs made',
      [],
    );
    this.#outcomes = counter('slicewire_syncs_total', 'Syncs by their outcome', ['outcome']);
    this.#drift = counter('slicewire_drift_total', 'Kernel objects of ours that another program had changed', []);
    gauge(BUILD_INFO.name, BUILD_INFO.help, BUILD_INFO.labels).set(buildLabels(options.version), 1);
    this.#addRead();
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: LAG_RESOLUTION });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** A sync was asked for; seconds since 1970. */
  queued(seconds: number): void {
    for (const ip_family of this.#options.families) this.#lastQueued.set({ ip_family }, seconds);
  }

  /** `now`: seconds since 1970. */
  synced({ isFull, duration, ...facts }: SyncFacts, now: number): void {
    for (const ip_family of this.#options.families) {
      this.#sync.observe({ ip_family }, duration / 1000);
      (isFull ? this.#full : this.#partial).observe({ ip_family }, duration / 1000);
    }
    for (const ip_family of facts.complete) {
      this.#lastSync.set({ ip_family }, now);
      for (const latency of facts.latencies) this.#latency.observe({ ip_family }, latency / 1000);
    }
    for (const ip_family of facts.failedWrites) {
      this.#restoreFailures.inc({ ip_family });
      if (!isFull) this.#partialFailures?.inc({ ip_family });
    }
    this.#plan.observe(facts.writing / 1000);
    this.#steps.inc(facts.steps);
    this.#visited.inc(facts.work.services);
    this.#rendered.inc(facts.work.rendered);
    this.#drift.inc(facts.drift);
    this.#outcomes.inc({ outcome: facts.outcome });
  }

  answered(path: 'healthz' | 'livez' | 'readyz', status: number): void {
    this.#answers[path].inc({ code: String(status) });
  }

  /** Stale flows were looked for; milliseconds. */
  swept(duration: number, { udp, opening }: DeletedFlows): void {
    for (const ip_family of this.#options.families) {
      this.#sweep.observe({ ip_family }, duration / 1000);
      this.#swept.inc({ ip_family }, udp?.get(ip_family) ?? 0);
      this.#sweptOpening.inc({ ip_family }, opening?.get(ip_family) ?? 0);
    }
  }

  #addRead(): void {
    const { mode, read } = this.#options;
    for (const [name, [type, help, ...labels]] of Object.entries(READ)) {
      if (mode !== 'iptables' && OF_IPTABLES.includes(name)) continue;
      if (mode !== 'nftables' && OF_NFTABLES.includes(name)) continue;
      const samples = read[name as ReadName];
      const labelNames = [...labels];
      const registers = [this.#registry];
      if (type === 'gauge') {
        new Gauge({
          name,
          help,
          labelNames,
          registers,
          async collect() {
            const now = await samples();
            this.reset();
            for (const { labels, value } of now) this.set(labels, value);
          },
        });
      } else {
        new Counter({
          name,
          help,
          labelNames,
          registers,
          async collect() {
            const now = await samples();
            this.reset();
            for (const { labels, value } of now) this.inc(labels, value);
          },
        });
      }
    }
  }
}
