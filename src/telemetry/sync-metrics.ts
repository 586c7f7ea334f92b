/** Metrics of syncs and of sweeps of stale flows. */

import type { Counter, Gauge, Histogram } from 'prom-client';
import { MODES, type ModeName } from '../proxy/model/modes.ts';
import type { MetricRegistry } from './registry.ts';

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

/** Flows that a sweep deleted, by family; undefined: the sweep did not cover this kind. */
export interface DeletedFlows {
  readonly udp: ReadonlyMap<string, number> | undefined;
  readonly opening: ReadonlyMap<string, number> | undefined;
}

/** The result of one sync. Times in milliseconds. */
export interface SyncFacts {
  /** Families of which all was written. */
  readonly complete: readonly string[];
  /** Families of which a write of rules failed. */
  readonly failedWrites: readonly string[];
  readonly duration: number;
  readonly writing: number;
  /** The sync read the kernel. */
  readonly isFull: boolean;
  readonly steps: number;
  /** Services visited, and kernel objects rendered. */
  readonly work: { readonly services: number; readonly rendered: number };
  readonly drift: number;
  /** Time of each change from its cause to the kernel. */
  readonly latencies: readonly number[];
  readonly outcome: string;
}

export class SyncMetrics {
  readonly #families: readonly string[];
  readonly #durations: SyncDurations;
  readonly #counts: SyncCounts;
  readonly #lastSync: Gauge;
  readonly #lastQueued: Gauge;
  readonly #writeFailures: Counter;
  /** None in nftables mode: there, all writes are partial. */
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

export class SweepMetrics {
  readonly #families: readonly string[];
  readonly #duration: Histogram;
  readonly #udp: Counter;
  readonly #opening: Counter;

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
  }

  /** `duration`: milliseconds. */
  swept(duration: number, { udp, opening }: DeletedFlows): void {
    for (const ip_family of this.#families) {
      this.#duration.observe({ ip_family }, duration / 1000);
      this.#udp.inc({ ip_family }, udp?.get(ip_family) ?? 0);
      this.#opening.inc({ ip_family }, opening?.get(ip_family) ?? 0);
    }
  }
}
