/** Feeds the metrics of a running agent: results of syncs and sweeps, and the samples that are read on each scrape. */
import { FAMILIES, type Family } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { type Clock, endsWithin, realClock } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import { shared } from '../base/mutex.ts';
import type { Config } from '../config/config.ts';
import { version } from '../config/program-version.ts';
import type { ChangesAtEnd } from '../proxy/ledger/change-ledger.ts';
import type { FlowKind } from '../proxy/model/flows.ts';
import { MODES, type ModeName } from '../proxy/model/modes.ts';
import type { ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';
import type { ConnectionCount, EnlargedSet, LimitCount, PacketCount, RuleCount } from '../proxy/modes/mode.ts';
import type { SweepReport } from '../proxy/sync/flow-sweeper.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';
import type { TurnedAwayCount } from '../serve/clients.ts';
import type { HealthState } from '../serve/health-judgement.ts';
import { LocalGaps } from '../serve/service-health.ts';
import type { Log } from '../telemetry/log.ts';
import { Metrics, type ReadName } from '../telemetry/metrics.ts';
import { type Sample, type Samples, turnedAwaySamples } from '../telemetry/registry.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import type { Agent } from './agent.ts';
import type { PathState } from './datapath/path-health.ts';
import type { AskedPaths } from './datapath-watch.ts';
import type { ObjectFeed } from './feed.ts';
import { faultCounts } from './log-lines.ts';
import type { RelayCounts } from './relay/relay.ts';
import { STAGES, type TakeoverStage } from './takeover/takeover.ts';

/** Milliseconds that a scrape waits for the kernel's counters. A reading that takes longer goes on, and the scrape has the last values. */
const READ_TIMEOUT_MS = 2000;

interface MetricsFeedOptions {
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly health: () => HealthState;
  /** Services that the kernel refused in the last sync. */
  readonly refused: () => number;
  readonly takeover: () => TakeoverStage;
  /** Counters of the relay of node ports on loopback. */
  readonly relay: () => RelayCounts;
  /** The number of Services whose newest version is not in the kernel, and of requests that wait for a version. */
  readonly programmed: () => { readonly behind: number; readonly waiters: number };
  /** Clients that were refused, or whose connections were closed in favour of others. */
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
  readonly #gaps = new LocalGaps();
  readonly #late: TroubleLog;
  /** Read the counters of the present agent. Never reject. */
  #readPackets = () => Promise.resolve();
  #readConnections = () => Promise.resolve();
  #connections: readonly ConnectionCount[] = [];
  #readLimits = () => Promise.resolve();
  #limits: readonly LimitCount[] = [];
  readonly #paths = new PathCounts();
  #agent: Agent | undefined;
  #feed: ObjectFeed;
  #shape: Shape;
  #metrics: Metrics;

  constructor({ mode, countsConnections }: Config, feed: ObjectFeed, options: MetricsFeedOptions) {
    this.#options = options;
    this.#uncounted = new TroubleLog({ log: options.log, clock: realClock, level: 'error' });
    this.#late = new TroubleLog({ log: options.log, clock: realClock, level: 'warn' });
    this.#feed = feed;
    // Both families, until it is known which ones work on this node.
    this.#shape = { mode, families: FAMILIES, countsFrontends: countsConnections };
    this.#metrics = this.#newMetrics(this.#shape);
  }

  /** The metrics of the present mode and families. */
  get current(): Metrics {
    return this.#metrics;
  }

  /** Read samples from this agent. Counters restart only where the mode or the families changed. */
  use(agent: Agent, { countsConnections }: Config): void {
    const shape = { mode: agent.mode.name, families: agent.onNode.families, countsFrontends: countsConnections };
    this.#agent = agent;
    this.#feed = agent.feed;
    // A reading of the former agent that hangs holds up none of this one.
    this.#readPackets = shared(() => this.#packetsFrom(agent));
    this.#readConnections = shared(() => this.#connectionsFrom(agent));
    this.#readLimits = shared(() => this.#limitsFrom(agent));
    if (!sameData(shape, this.#shape)) {
      this.#metrics = this.#newMetrics(shape);
      this.#connections = [];
      this.#limits = [];
    }
    this.#shape = shape;
  }

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    this.#gaps.update(changes);
  }

  swept({ duration, kinds }: SweepReport): void {
    const deletedIn = (kind: FlowKind) => kinds.get(kind)?.deletedIn;
    const deleted = { udp: deletedIn('udp'), opening: deletedIn('opening'), gone: deletedIn('gone') };
    this.#metrics.swept(duration, deleted);
  }

  queued(): void {
    this.#metrics.queued(realClock.wall() / 1000);
  }

  /** `complete`: families that were written in full, apart from Services that the kernel refused. */
  synced(report: SyncReport, complete: readonly Family[], changes: ChangesAtEnd | undefined): void {
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
        latencies: (changes?.triggers ?? []).map((at) => Math.max(0, now - at)),
        outcome: report.outcome,
      },
      now / 1000,
    );
  }

  /** The agent asked itself through its rules. */
  askedPaths({ paths }: AskedPaths): void {
    this.#paths.add(paths);
  }

  /** The configuration file was read again. */
  reloaded(result: ReloadResult): void {
    this.#reloads.set(result, (this.#reloads.get(result) ?? 0) + 1);
  }

  #newMetrics({ mode, families }: Shape): Metrics {
    const { health, refused, takeover, relay, programmed, turnedAway } = this.#options;
    const read = metricSamples({
      feed: () => this.#feed,
      rules: () => this.#agent?.mode.metrics.ruleCounts() ?? [],
      enlargedSets: () => this.#agent?.mode.metrics.enlargedSets() ?? [],
      connections: () => this.#connectionsNow(),
      limits: () => this.#limitsNow(),
      packets: (what) => this.#packetsOf(what),
      clock: realClock,
      health,
      refused,
      takeover,
      paths: this.#paths,
      relay,
      programmed,
      turnedAway,
      gaps: () => this.#gaps.counts,
      reloads: () => this.#reloads,
      faults: () => (this.#agent === undefined ? {} : faultCounts(this.#agent)),
    });
    return new Metrics({ mode, families, version: version(), read });
  }

  async #connectionsNow(): Promise<readonly ConnectionCount[]> {
    const agent = this.#agent;
    if (!this.#shape.countsFrontends || agent === undefined || !MODES[agent.mode.name].countsFrontends) return [];
    await this.#inTime('connections', this.#readConnections());
    return this.#connections;
  }

  async #limitsNow(): Promise<readonly LimitCount[]> {
    if (this.#agent === undefined) return [];
    await this.#inTime('limits', this.#readLimits());
    return this.#limits;
  }

  /** Never rejects. */
  async #limitsFrom(agent: Agent): Promise<void> {
    try {
      const counts = await agent.mode.metrics.limitCounts(this.#options.signal);
      if (agent === this.#agent) this.#limits = counts;
      this.#uncounted.over({ of: 'limits', text: 'connections beyond limits can be counted again' });
    } catch (error) {
      const cause = causeOf(error);
      this.#uncounted.tell({ of: 'limits', cause, text: `connections beyond limits cannot be counted: ${cause}` });
    }
  }

  /** The packets that rules counted. While the rules cannot be read, the last values stay. */
  async #packetsOf(what: PacketCount['what']): Promise<number> {
    await this.#inTime('packets', this.#readPackets());
    return this.#packets.total(what);
  }

  async #inTime(of: string, reading: Promise<void>): Promise<void> {
    if (await endsWithin(READ_TIMEOUT_MS, reading, realClock))
      return this.#late.over({ of, text: `the kernel tells its counters of ${of} in time again` });
    const cause = `the kernel has not told its counters of ${of} within ${READ_TIMEOUT_MS / 1000} s`;
    this.#late.tell({ of, cause, text: `${cause}; metrics keep their last values` });
  }

  /** Never rejects. */
  async #connectionsFrom(agent: Agent): Promise<void> {
    const { mode, kernelLock } = agent;
    let counts: readonly ConnectionCount[] = [];
    try {
      counts = await mode.metrics.connectionCounts({ signal: this.#options.signal, between: kernelLock.between });
      this.#uncounted.over({ text: 'connections can be counted again' });
    } catch (error) {
      const cause = causeOf(error);
      // Each scrape tries again.
      this.#uncounted.tell({ cause, text: `connections cannot be counted: ${cause}` });
    }
    if (agent === this.#agent) this.#connections = counts;
  }

  /** Never rejects. */
  async #packetsFrom(agent: Agent): Promise<void> {
    const { log, signal } = this.#options;
    await this.#packets.read(
      async () => {
        const counts = await agent.mode.metrics.packetCounts(signal);
        return agent === this.#agent ? counts : [];
      },
      (cause) =>
        log.warn({ cause }, `packet counters of rules cannot be read: ${cause}; metrics keep their last values`),
    );
  }
}

/**
 * Turns packet counters of rules into totals that only grow. The kernel's counters restart at 0 whenever a rule is written, such as after a
 * change of the settings or a flush by another program. Packets between the last reading and that moment are lost.
 */
export class PacketTotals {
  /** The kernel's counter as read last, and the total, by kind and family. */
  readonly #seen = new Map<string, { last: number; total: number }>();

  /** The cause while the counters cannot be read. */
  #failure: string | undefined;

  /** Read the counters. After a failure the totals stay, and `onFailure` receives each new cause once. */
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

/** The results of connections through the rules, by path. */
class PathCounts {
  #paths: readonly PathState[] = [];
  readonly #connections = new Map<string, Sample>();

  add(paths: readonly PathState[]): void {
    this.#paths = paths;
    for (const { from, family: ip_family, kind: result } of paths) {
      const key = `${from} ${ip_family} ${result}`;
      const value = (this.#connections.get(key)?.value ?? 0) + 1;
      this.#connections.set(key, { labels: { from, ip_family, result }, value });
    }
  }

  get broken(): readonly Sample[] {
    return this.#paths.map(({ from, family, isBroken }) => ({
      labels: { from, ip_family: family },
      value: isBroken ? 1 : 0,
    }));
  }

  get connections(): readonly Sample[] {
    return [...this.#connections.values()];
  }
}

/** Sources of the samples that are read on each scrape. */
interface SampleSources {
  readonly feed: () => ObjectFeed;
  readonly rules: () => readonly RuleCount[];
  readonly enlargedSets: () => readonly EnlargedSet[];
  readonly connections: () => Promise<readonly ConnectionCount[]>;
  readonly limits: () => Promise<readonly LimitCount[]>;
  /** Packets that rules counted so far. */
  readonly packets: (what: PacketCount['what']) => Promise<number>;
  readonly clock: Clock;
  readonly health: () => HealthState;
  /** Services that the kernel refuses. */
  readonly refused: () => number;
  readonly takeover: () => TakeoverStage;
  readonly paths: PathCounts;
  readonly gaps: () => readonly (readonly [policy: string, family: string, count: number])[];
  readonly reloads: () => ReadonlyMap<string, number>;
  readonly faults: () => Readonly<Record<string, number>>;
  readonly relay: () => RelayCounts;
  /** The number of Services whose newest version is not in the kernel, and of requests that wait for a version. */
  readonly programmed: () => { readonly behind: number; readonly waiters: number };
  readonly turnedAway: () => readonly TurnedAwayCount[];
}

function metricSamples({
  feed,
  rules: ruleCounts,
  enlargedSets,
  connections,
  limits,
  packets,
  clock,
  health,
  refused,
  takeover,
  paths,
  gaps,
  reloads,
  faults,
  relay,
  programmed,
  turnedAway,
}: SampleSources): Record<ReadName, Samples> {
  const one = (value: number): readonly Sample[] => [{ labels: {}, value }];
  const counts = (of: 'services' | 'slices') => feed().cache.counts(of);
  const rules = (field: 'total' | 'last') =>
    ruleCounts()
      .filter(({ table }) => table === 'filter' || table === 'nat')
      .map(({ family, table, ...count }) => ({ labels: { table, ip_family: family }, value: count[field] }));
  const inNftables = (field: 'total' | 'elements') =>
    ruleCounts().map(({ family, ...count }) => ({ labels: { ip_family: family }, value: count[field] ?? 0 }));
  const watches = () => feed().watches();
  const relayed = (field: 'listeners' | 'failed' | 'connections') => () =>
    relay().families.map(({ family, ...count }) => ({ labels: { ip_family: family }, value: count[field] }));
  return {
    kubeproxy_sync_proxy_rules_endpoint_changes_pending: () => one(counts('slices').pending),
    kubeproxy_sync_proxy_rules_endpoint_changes_total: () => one(counts('slices').total),
    kubeproxy_sync_proxy_rules_service_changes_pending: () => one(counts('services').pending),
    kubeproxy_sync_proxy_rules_service_changes_total: () => one(counts('services').total),
    kubeproxy_sync_proxy_rules_no_local_endpoints_total: () =>
      gaps().map(([traffic_policy, ip_family, value]) => ({ labels: { traffic_policy, ip_family }, value })),
    kubeproxy_sync_proxy_rules_iptables_total: () => rules('total'),
    kubeproxy_sync_proxy_rules_iptables_last: () => rules('last'),
    kubeproxy_iptables_ct_state_invalid_dropped_packets_total: async () => one(await packets('invalid-dropped')),
    kubeproxy_iptables_localhost_nodeports_accepted_packets_total: async () =>
      one(await packets('localhost-node-ports')),
    kubeproxy_nftables_localhost_nodeport_listeners: relayed('listeners'),
    kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: relayed('failed'),
    slicewire_relay_listeners: relayed('listeners'),
    slicewire_relay_listen_failures_total: relayed('failed'),
    slicewire_relay_connections: relayed('connections'),
    slicewire_relay_connections_total: () =>
      [...relay().outcomes].map(([result, value]) => ({ labels: { result }, value })),
    slicewire_nftables_rules: () => inNftables('total'),
    slicewire_nftables_elements: () => inNftables('elements'),
    slicewire_ipvs_enlarged_set_maxelem: () =>
      enlargedSets().map(({ set, maxelem }) => ({ labels: { set }, value: maxelem })),
    slicewire_connections_total: async () =>
      (await connections()).map(({ service, family, address = '', protocol = '', port, count }) => ({
        labels: { service, address, protocol, port: String(port), ip_family: family },
        value: count,
      })),
    slicewire_connections_over_limit_total: async () =>
      (await limits()).map(({ port: { service, port, protocol, family }, limit, count }) => ({
        labels: { service, port: String(port), protocol, limit, ip_family: family },
        value: count,
      })),
    slicewire_http_clients_turned_away_total: () => turnedAwaySamples(turnedAway()),
    slicewire_faults: () => Object.entries(faults()).map(([effect, value]) => ({ labels: { effect }, value })),
    slicewire_watch_age_seconds: () =>
      watches().map(({ of, heardAt }) => ({ labels: { kind: of }, value: (clock.now() - heardAt) / 1000 })),
    slicewire_watch_failing: () =>
      watches().map(({ of, failure }) => ({ labels: { kind: of }, value: failure === undefined ? 0 : 1 })),
    slicewire_failover_suspects: () => one(feed().cache.own.suspects.length),
    slicewire_failover_ejections_total: () => one(feed().cache.own.ejections),
    slicewire_datapath_broken: () => paths.broken,
    slicewire_datapath_connections_total: () => paths.connections,
    slicewire_takeover: () => STAGES.map((stage) => ({ labels: { stage }, value: takeover() === stage ? 1 : 0 })),
    slicewire_services_refused: () => one(refused()),
    slicewire_programmed_behind_services: () => one(programmed().behind),
    slicewire_programmed_waiters: () => one(programmed().waiters),
    slicewire_healthy: () => one(health().healthy ? 1 : 0),
    slicewire_ready: () => one(health().reasons.readyz.length === 0 ? 1 : 0),
    slicewire_config_reloads_total: () => [...reloads()].map(([result, value]) => ({ labels: { result }, value })),
  };
}
