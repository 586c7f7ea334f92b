/** Feeds the metrics of a running agent: results of syncs and sweeps, and the samples that are read on each scrape. */
import { FAMILIES, type Family } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { realClock } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/program-version.ts';
import { MODES, type ModeName } from '../proxy/model/modes.ts';
import type { ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';
import type { ConnectionCount, PacketCount } from '../proxy/modes/mode.ts';
import type { SweepReport } from '../proxy/sync/flow-sweeper.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';
import type { HealthState } from '../serve/health-judgement.ts';
import { LocalGaps } from '../serve/local-gaps.ts';
import type { Log } from '../telemetry/log.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { TurnedAwayCount } from '../telemetry/registry.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import type { Agent } from './agent.ts';
import type { ObjectFeed } from './feed.ts';
import { faultCounts } from './log-lines.ts';
import { metricSamples } from './metric-samples.ts';
import type { RelayCounts } from './relay/relay.ts';

export interface MetricsFeedOptions {
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly health: () => HealthState;
  /** Services that the kernel refused in the last sync. */
  readonly refused: () => number;
  /** Of the relay of node ports on loopback. */
  readonly relay: () => RelayCounts;
  /** Of the versions in the kernel: Services that are behind, and questions that wait. */
  readonly programmed: () => { readonly behind: number; readonly waiters: number };
  /** Clients of the servers that were refused, or whose connections were closed for others. */
  readonly turnedAway: () => readonly TurnedAwayCount[];
}

/** The mode and families decide which metrics there are, and their labels. */
interface Shape {
  readonly mode: ModeName;
  readonly families: readonly Family[];
  /** Connections are reported frontend by frontend. */
  readonly countsFrontends: boolean;
}

export type ReloadResult = 'applied' | 'refused' | 'unchanged' | 'failed';

export class MetricsFeed {
  readonly #options: MetricsFeedOptions;
  readonly #reloads = new Map<string, number>();
  readonly #packets = new PacketTotals();
  readonly #uncounted: TroubleLog;
  #gaps = new LocalGaps();
  #agent: Agent | undefined;
  #feed: ObjectFeed;
  #shape: Shape;
  #metrics: Metrics;

  constructor({ mode, countsConnections }: Config, feed: ObjectFeed, options: MetricsFeedOptions) {
    this.#options = options;
    this.#uncounted = new TroubleLog({ log: options.log, clock: realClock, level: 'error' });
    this.#feed = feed;
    // Until it is known which families work on this node.
    this.#shape = { mode, families: FAMILIES, countsFrontends: countsConnections };
    this.#metrics = this.#newMetrics(this.#shape);
  }

  /** The metrics of the present mode and families. */
  get current(): Metrics {
    return this.#metrics;
  }

  /** Take samples from this agent. Counters begin anew only where the mode or the families changed. */
  use(agent: Agent, { countsConnections }: Config): void {
    const shape = { mode: agent.mode.name, families: agent.onNode.families, countsFrontends: countsConnections };
    this.#agent = agent;
    this.#feed = agent.feed;
    if (!sameData(shape, this.#shape)) this.#metrics = this.#newMetrics(shape);
    this.#shape = shape;
  }

  /** Forget the ServicePorts of the former generation: the next one reports all of them. */
  renew(): void {
    this.#gaps = new LocalGaps();
  }

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    this.#gaps.update(changes);
  }

  swept({ duration, kinds }: SweepReport): void {
    this.#metrics.swept(duration, { udp: kinds.get('udp')?.deletedIn, opening: kinds.get('opening')?.deletedIn });
  }

  queued(): void {
    this.#metrics.queued(realClock.wall() / 1000);
  }

  /** `complete`: families of which all was written, but for Services that the kernel refused. */
  synced(report: SyncReport, complete: readonly Family[]): void {
    const families = this.#agent?.onNode.families ?? [];
    const now = realClock.wall();
    this.#metrics.synced(
      {
        complete,
        failedWrites: families.filter((family) =>
          report.failed.some((step) => step.kind === 'rules' && step.family === family),
        ),
        duration: report.duration,
        writing: report.writing,
        isFull: report.reading > 0,
        steps: report.applied,
        work: report.work,
        drift: report.drift.length,
        latencies: report.triggers.map((at) => Math.max(0, now - at)),
        outcome: report.outcome,
      },
      now / 1000,
    );
  }

  /** The configuration file was read again. */
  reloaded(result: ReloadResult): void {
    this.#reloads.set(result, (this.#reloads.get(result) ?? 0) + 1);
  }

  #newMetrics({ mode, families }: Shape): Metrics {
    const { health, refused, relay, programmed, turnedAway } = this.#options;
    const read = metricSamples({
      feed: () => this.#feed,
      rules: () => this.#agent?.mode.metrics.ruleCounts() ?? [],
      enlargedSets: () => this.#agent?.mode.metrics.enlargedSets() ?? [],
      connections: () => this.#connections(),
      packets: (what) => this.#packetsOf(what),
      clock: realClock,
      health,
      refused,
      relay,
      programmed,
      turnedAway,
      gaps: () => this.#gaps.counts,
      reloads: () => this.#reloads,
      faults: () => (this.#agent === undefined ? {} : faultCounts(this.#agent)),
    });
    return new Metrics({ mode, families, version: version(), read });
  }

  async #connections(): Promise<readonly ConnectionCount[]> {
    if (!this.#shape.countsFrontends || this.#agent === undefined || !MODES[this.#agent.mode.name].countsFrontends)
      return [];
    try {
      const { mode, kernelLock } = this.#agent;
      const counts = await mode.metrics.connectionCounts({ signal: this.#options.signal, between: kernelLock.between });
      this.#uncounted.over({ text: 'connections can be counted again' });
      return counts;
    } catch (error) {
      const cause = causeOf(error);
      // Each scrape tries again.
      this.#uncounted.tell({ cause, text: `connections cannot be counted: ${cause}` });
      return [];
    }
  }

  /** The packets that rules counted; when the rules cannot be read, the last values. */
  async #packetsOf(what: PacketCount['what']): Promise<number> {
    const { log, signal } = this.#options;
    await this.#packets.read(
      async () => (await this.#agent?.mode.metrics.packetCounts(signal)) ?? [],
      (cause) =>
        log.warn({ cause }, `packet counters of rules cannot be read: ${cause}; metrics keep their last values`),
    );
    return this.#packets.total(what);
  }
}

/**
 * Packet counters of rules as totals that only grow. The kernel's counters start at 0 whenever a rule is written, such as after a change
 * of the settings or a flush by another program; packets between the last reading and that moment are lost.
 */
export class PacketTotals {
  /** By kind and family: the kernel's counter as read last, and the total. */
  readonly #seen = new Map<string, { last: number; total: number }>();

  /** Why the counters cannot be read at present. */
  #failure: string | undefined;

  /** Read the counters. When that fails, the totals stay, and `onFailure` gets each new cause once. */
  async read(counts: () => Promise<readonly PacketCount[]>, onFailure: (cause: string) => void): Promise<void> {
    try {
      this.take(await counts());
      this.#failure = undefined;
    } catch (error) {
      const cause = causeOf(error);
      if (cause !== this.#failure) onFailure(cause);
      this.#failure = cause;
    }
  }

  take(counts: readonly PacketCount[]): void {
    for (const { what, family, packets } of counts) {
      const seen = this.#seen.get(`${what} ${family}`) ?? { last: 0, total: 0 };
      const grown = packets >= seen.last ? packets - seen.last : packets;
      this.#seen.set(`${what} ${family}`, { last: packets, total: seen.total + grown });
    }
  }

  /** The sum over all families. */
  total(of: PacketCount['what']): number {
    let sum = 0;
    for (const [key, { total }] of this.#seen) if (key.startsWith(`${of} `)) sum += total;
    return sum;
  }
}
