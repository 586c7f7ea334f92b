/** Metrics of `slicewire shadow`. */
import type { TurnedAwayCount } from '../serve/clients.ts';
import { type Histogram, MetricRegistry, type Sample } from './registry.ts';

/** Differences of one Service and kind. */
interface CountedDifference {
  readonly service: string;
  readonly kind: string;
  readonly connections: number;
  /** Seconds since 1970. */
  readonly since: number;
}

export interface ShadowMetricsOptions {
  readonly version: string;
  /** The oldest first. */
  readonly differences: () => readonly CountedDifference[];
  /** Differences beyond those. */
  readonly others: () => number;
  readonly onPurpose: () => number;
  readonly waiting: () => number;
  readonly unmeasured: () => number;
  /** Connections that were followed since the start. */
  readonly followed: () => number;
  /** Seconds since 1970 of the end of the last comparison of all Services; 0 before the first. */
  readonly comparedAt: () => number;
  readonly isComparing: () => boolean;
  /** Clients of the servers that were refused, or whose connections were closed for others. */
  readonly turnedAway: () => readonly TurnedAwayCount[];
  readonly watches: () => readonly { readonly of: string; readonly failure: object | undefined }[];
}

/** Services that have series of their own: the oldest differences. */
const MAX_SERIES = 100;
/** Seconds: from a millisecond, which a plan takes, up to the minutes that a large ruleset takes. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600];

export class ShadowMetrics {
  readonly #registry: MetricRegistry;
  /** In seconds. */
  readonly theirs: Histogram;
  readonly plan: Histogram;

  constructor(options: ShadowMetricsOptions) {
    const registry = new MetricRegistry(options.version);
    this.#registry = registry;
    const series = () => options.differences().slice(0, MAX_SERIES);
    registry.readGauge(
      'slicewire_shadow_differences',
      'Connections that the other proxy leads elsewhere than the objects say, of those that are followed, by Service and kind: the 100 oldest, and the number of differences beyond them as the Service others',
      ['service', 'kind'],
      () => {
        const others = options.differences().length - MAX_SERIES + options.others();
        const rest: Sample[] = others > 0 ? [{ labels: { service: 'others', kind: '' }, value: others }] : [];
        return [
          ...series().map(({ service, kind, connections }) => ({ labels: { service, kind }, value: connections })),
          ...rest,
        ];
      },
    );
    registry.readGauge(
      'slicewire_shadow_difference_since_timestamp_seconds',
      'Since when a difference stands, as a Unix time',
      ['service', 'kind'],
      () => series().map(({ service, kind, since }) => ({ labels: { service, kind }, value: since })),
    );
    const read = (name: string, help: string, value: () => number) =>
      registry.readGauge(name, help, [], () => [{ labels: {}, value: value() }]);
    read(
      'slicewire_shadow_on_purpose',
      'Connections that the other proxy leads elsewhere on purpose, in the last comparison of all Services',
      options.onPurpose,
    );
    this.theirs = registry.histogram(
      'slicewire_shadow_programming_seconds',
      'Seconds from a change received to the commit of the other proxy that has it',
      [],
      BUCKETS,
    );
    this.plan = registry.histogram(
      'slicewire_shadow_plan_seconds',
      'Seconds that slicewire took to make its rules for the changes that came together, for each change',
      [],
      BUCKETS,
    );
    read(
      'slicewire_shadow_waiting',
      'Services with a change that no commit of the other proxy can have',
      options.waiting,
    );
    read('slicewire_shadow_comparing', '1 while the rules of the other proxy can be compared', () =>
      options.isComparing() ? 1 : 0,
    );
    read(
      'slicewire_shadow_compared_timestamp_seconds',
      'When the last comparison of all Services ended, as a Unix time; 0 before the first',
      options.comparedAt,
    );
    const count = (name: string, help: string, value: () => number) =>
      registry.readCounter(name, help, [], () => [{ labels: {}, value: value() }]);
    count('slicewire_shadow_followed_total', 'Connections that were followed', options.followed);
    count(
      'slicewire_shadow_unmeasured_total',
      'Changes whose time was not measured: the Service changed again, the rules had the change before, or too many came at once',
      options.unmeasured,
    );
    registry.readTurnedAway(options.turnedAway);
    registry.readGauge('slicewire_watch_failing', '1 while the watch of a kind fails', ['kind'], () =>
      options.watches().map(({ of, failure }) => ({ labels: { kind: of }, value: failure === undefined ? 0 : 1 })),
    );
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.text();
  }
}
