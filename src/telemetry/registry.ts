/** A registry of metrics, which it makes and writes in Prometheus' form, with those of the process and of slicewire's build. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { TurnedAwayCount } from '../serve/clients.ts';

export type { Counter, Gauge, Histogram } from 'prom-client';

/** prom-client accepts only texts as labels. */
export type MetricLabels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: MetricLabels;
  readonly value: number;
}

/** A histogram since the start. The sum is in the unit of the buckets. */
export interface HistogramCounts {
  /** Upper bounds, each with the number of values that do not exceed it. */
  readonly buckets: readonly { readonly upTo: number; readonly count: number }[];
  readonly count: number;
  readonly sum: number;
}

/** Reads the samples of a metric, on each scrape. */
export type Samples = () => readonly Sample[] | Promise<readonly Sample[]>;

/**
 * Milliseconds between two measurements of the event loop's lag. Each wakes the process: prom-client's own 10 ms cost an idle process a
 * percent of a core.
 */
const LAG_RESOLUTION_MS = 250;

/**
 * Not kubernetes_build_info: its git_version is Kubernetes' own, and another program's version among those sets off the alert
 * KubeVersionMismatch of the kubernetes-mixin.
 */
const BUILD_INFO = {
  name: 'slicewire_build_info',
  help: 'Version of slicewire, of Node.js, and the platform',
  labels: ['version', 'node_version', 'platform'],
};

/** The counter of every program that serves HTTP. */
export const TURNED_AWAY = {
  name: 'slicewire_http_clients_turned_away_total',
  help: 'Connections that were refused or closed to keep the limits on clients, by remote address (64 of them, then others) and reason',
  labels: ['address', 'reason'],
} as const;

/** The samples of TURNED_AWAY. */
export function turnedAwaySamples(counts: readonly TurnedAwayCount[]): Sample[] {
  return counts.map(({ address, reason, count }) => ({ labels: { address, reason }, value: count }));
}

let ofProcess: Registry | undefined;

/** One registry for the whole process: prom-client never ends the observers that it starts for these metrics. */
function processRegistry(): Registry {
  if (ofProcess !== undefined) return ofProcess;
  ofProcess = new Registry();
  collectDefaultMetrics({ register: ofProcess, eventLoopMonitoringPrecision: LAG_RESOLUTION_MS });
  return ofProcess;
}

export class MetricRegistry {
  readonly #registry = new Registry();

  /** `version`: of slicewire. */
  constructor(version: string) {
    const platform = `${process.platform}/${process.arch}`;
    this.gauge(BUILD_INFO.name, BUILD_INFO.help, BUILD_INFO.labels).set(
      { version, node_version: process.versions.node, platform },
      1,
    );
    processRegistry();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  async text(): Promise<string> {
    return `${await this.#registry.metrics()}\n${await processRegistry().metrics()}`;
  }

  histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] });
  }

  gauge(name: string, help: string, labelNames: string[] = []): Gauge {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }

  counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  /** A histogram whose counts are read on each scrape. */
  readHistogram(name: string, help: string, read: () => HistogramCounts): void {
    this.#registry.registerMetric(new CountedHistogram(name, help, read));
  }

  /** A gauge whose samples are read on each scrape. */
  readGauge(name: string, help: string, labelNames: string[], samples: Samples): void {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      async collect() {
        const now = await samples();
        this.reset();
        for (const { labels, value } of now) this.set(labels, value);
      },
    });
  }

  /** The counter TURNED_AWAY. */
  readTurnedAway(counts: () => readonly TurnedAwayCount[]): void {
    const { name, help, labels } = TURNED_AWAY;
    this.readCounter(name, help, [...labels], () => turnedAwaySamples(counts()));
  }

  /** A counter whose samples are read on each scrape. */
  readCounter(name: string, help: string, labelNames: string[], samples: Samples): void {
    new Counter({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      async collect() {
        const now = await samples();
        this.reset();
        for (const { labels, value } of now) this.inc(labels, value);
      },
    });
  }
}

/** prom-client's own histogram takes one observation at a time, and the fleet counts hundreds at once. */
class CountedHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #read: () => HistogramCounts;

  constructor(name: string, help: string, read: () => HistogramCounts) {
    super({ name, help, registers: [] });
    this.#name = name;
    this.#help = help;
    this.#read = read;
  }

  /** Overrides the method by which the registry reads a histogram for its text. */
  getForPromString() {
    const [name, help] = [this.#name, this.#help];
    const { buckets, count, sum } = this.#read();
    const ends = [...buckets, { upTo: '+Inf', count }];
    const values = ends.map(({ upTo, count: value }) => ({
      labels: { le: upTo },
      value,
      metricName: `${name}_bucket`,
    }));
    const whole = [
      { labels: {}, value: sum, metricName: `${name}_sum` },
      { labels: {}, value: count, metricName: `${name}_count` },
    ];
    return { name, help, type: 'histogram', values: [...values, ...whole], aggregator: 'sum' };
  }
}
