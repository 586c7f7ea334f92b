/** Metrics of `slicewire fleet`. */
import type { TurnedAwayCount } from '../serve/clients.ts';
import { type HistogramCounts, MetricRegistry } from './registry.ts';

export interface FleetMetricsOptions {
  readonly version: string;
  /** Each change counted once for each node. */
  readonly programming: () => HistogramCounts;
  /** Each change counted once, when the last node has it. */
  readonly lastNode: () => HistogramCounts;
  /** Numbers of nodes by state. */
  readonly states: () => Readonly<Record<string, number>>;
  /** The number of `/drained` questions that wait. */
  readonly waiting: () => number;
  /** The numbers of `/drained` answers. */
  readonly drained: () => { readonly yes: number; readonly late: number };
  /** The number of events that agents sent. */
  readonly events: () => number;
  /** The number of agents whose stream is open. */
  readonly connections: () => number;
  readonly watches: () => readonly { readonly of: string; readonly failure: object | undefined }[];
  /** Clients of the servers that were refused, or whose connections were closed for others. */
  readonly turnedAway: () => readonly TurnedAwayCount[];
}

export class FleetMetrics {
  readonly #registry: MetricRegistry;

  constructor(options: FleetMetricsOptions) {
    const registry = new MetricRegistry(options.version);
    this.#registry = registry;
    registry.readHistogram(
      'slicewire_fleet_programming_seconds',
      'Seconds from a change that the fleet saw to the moment that a node had it in its kernel, for each node',
      options.programming,
    );
    registry.readHistogram(
      'slicewire_fleet_last_node_seconds',
      'Seconds from a change that the fleet saw to the moment that the last node had it in its kernel',
      options.lastNode,
    );
    registry.readGauge('slicewire_fleet_nodes', 'Nodes that have or had an agent, by state', ['state'], () =>
      Object.entries(options.states()).map(([state, value]) => ({ labels: { state }, value })),
    );
    registry.readGauge('slicewire_fleet_connections', 'Agents whose stream is open', [], () => [
      { labels: {}, value: options.connections() },
    ]);
    registry.readCounter('slicewire_fleet_events_total', 'Events that agents sent', [], () => [
      { labels: {}, value: options.events() },
    ]);
    registry.readGauge('slicewire_fleet_drains_waiting', 'Questions of /drained that wait', [], () => [
      { labels: {}, value: options.waiting() },
    ]);
    registry.readCounter(
      'slicewire_fleet_drained_total',
      'Answers of /drained: drained, or late where some node was still behind when the time was over',
      ['result'],
      () => {
        const { yes, late } = options.drained();
        return [
          { labels: { result: 'drained' }, value: yes },
          { labels: { result: 'late' }, value: late },
        ];
      },
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
