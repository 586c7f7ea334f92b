/** Health, metrics and events of a running agent. They outlive changes of its configuration: the servers stay open where their addresses do. */

import { type ClusterEvent, EventRecorder, type Regarding } from '../api/recorder.ts';
import type { Config } from '../config/config.ts';
import { fileFromConfig } from '../config/config-file.ts';
import type { ListenAddress } from '../config/listen.ts';
import { userAgent, version } from '../config/version.ts';
import { type Clock, realClock } from '../host/clock.ts';
import { FAMILIES, type Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import { sameData } from '../model/equal.ts';
import { type Fault, faultText, type ServiceKey } from '../model/objects.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { ModeName, PacketCount } from '../modes/mode.ts';
import { Health } from '../serve/health.ts';
import { healthHandler } from '../serve/health-server.ts';
import { type Handler, keepOpen } from '../serve/http.ts';
import { LocalGaps } from '../serve/local-gaps.ts';
import { metricsHandler } from '../serve/metrics-server.ts';
import { ServiceHealth } from '../serve/service-health.ts';
import type { SweepReport } from '../sync/flow-sweeper.ts';
import type { SyncReport } from '../sync/status.ts';
import { type Log, levelOf } from '../telemetry/log.ts';
import { Metrics } from '../telemetry/metrics.ts';
import type { Agent } from './agent.ts';
import { CannotRun } from './cannot-run.ts';
import type { ObjectFeed } from './feed.ts';
import { faultCounts } from './log-lines.ts';
import { metricSamples } from './metrics-feed.ts';
import { PacketTotals } from './packet-totals.ts';
import { ServedByFamily, sentencesOf, type Verdict, verdictOf } from './verdict.ts';

export interface ServingOptions {
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Families of this node. */
  readonly expected: readonly Family[];
}

/** What the agent serves at one address. */
interface Open {
  readonly listen: ListenAddress;
  readonly stop: AbortController;
}

export class Serving {
  /** Rejects when a port cannot be had and the configuration says that this is the end. */
  readonly failed: Promise<never>;
  readonly health: Health;
  readonly #options: ServingOptions;
  readonly #clock: Clock = realClock;
  readonly #open = new Map<'healthz' | 'metrics', Open>();
  readonly #reloads = new Map<string, number>();
  #fail: (error: Error) => void = () => undefined;
  #config: Config;
  #agent: Agent | undefined;
  #feed: ObjectFeed;
  #metrics: Metrics;
  #metricsOf: { readonly mode: ModeName; readonly families: readonly Family[] };
  #recorder: EventRecorder | undefined;
  readonly #serviceHealth: ServiceHealth;
  #gaps = new LocalGaps();
  readonly #packets = new PacketTotals();
  /** Why they could not be read, while that is so. */
  #packetsUnread: string | undefined;
  #served = new ServedByFamily();
  /** Services that the kernel refused in the last sync, with what their events say: the same for as long as they are refused. */
  #refused: ReadonlyMap<ServiceKey, string> = new Map();

  constructor(config: Config, feed: ObjectFeed, options: ServingOptions) {
    this.#options = options;
    this.#config = config;
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => undefined);
    this.health = new Health(this.#clock, this.#healthSettings(config, feed, []));
    this.#feed = feed;
    this.#serviceHealth = this.#newServiceHealth();
    // Until it is known which families work here.
    this.#metricsOf = { mode: config.mode, families: FAMILIES };
    this.#metrics = this.#newMetrics(this.#metricsOf);
    this.#startRecorder(config);
  }

  /** Begin to serve: what listens answers from now on, first of all that the first sync is still to come. */
  start(): void {
    const { healthz, metrics } = this.#config.serve;
    this.#listen('healthz', healthz, this.#healthHandler());
    this.#listen('metrics', metrics, this.#metricsHandler());
  }

  /** The agent's parts were built anew, with this configuration. */
  use(agent: Agent, config: Config): void {
    const { mode, here } = agent;
    // Another world is another API server, or another name in it.
    if (agent.feed !== this.#feed) this.#startRecorder(config);
    this.#config = config;
    this.#agent = agent;
    this.#feed = agent.feed;
    this.health.tune(this.#healthSettings(config, agent.feed, here.families));
    const of = { mode: mode.name, families: here.families };
    if (!sameData(of, this.#metricsOf)) this.#metrics = this.#newMetrics(of);
    this.#metricsOf = of;
    this.start();
  }

  /** What was rendered for the agent before is forgotten: a new one tells all of it again. */
  renew(): void {
    this.#gaps = new LocalGaps();
    this.#served = new ServedByFamily();
    this.#serviceHealth.renew();
  }

  readonly onPorts = (changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void => {
    this.#gaps.update(changes);
    this.#served.update(changes);
    this.#serviceHealth.update(changes);
  };

  readonly onSweep = ({ duration, kinds }: SweepReport): void => {
    this.#metrics.swept(duration, { udp: kinds.get('udp')?.deletedIn, opening: kinds.get('opening')?.deletedIn });
  };

  readonly onFault = (fault: Fault): void => {
    if (fault.effect !== 'object set aside' || fault.kind === 'file') return;
    const [namespace = '', name = ''] = fault.object.includes('/') ? fault.object.split('/') : ['', fault.object];
    const apiVersion = fault.kind === 'EndpointSlice' ? 'discovery.k8s.io/v1' : 'v1';
    const regarding = { apiVersion, kind: fault.kind, namespace, name, uid: fault.uid };
    this.#emit({ type: 'Warning', reason: 'SetAside', action: 'ReadObject', note: faultText(fault), regarding });
  };

  queued(): void {
    this.health.queued();
    this.#metrics.queued(this.#clock.wall() / 1000);
  }

  /** `since`: when the sync began, on the clock that never runs backwards. */
  async synced(report: SyncReport, since: number): Promise<void> {
    const families = this.#agent?.here.families ?? [];
    const { complete, causes, refused } = verdictOf(report, families, this.#served);
    this.health.synced(complete, since, causes);
    this.health.refused(sentencesOf(refused));
    if (report.reading > 0 && report.outcome !== 'failed') this.health.verified();
    const now = this.#clock.wall();
    this.#metrics.synced(
      {
        complete,
        failedWrites: families.filter((family) => report.failed.some(({ key }) => isOfRules(key, family))),
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
    this.#emitSetAside(refused);
    if (report.outcome !== 'failed') await this.#serviceHealth.sync();
  }

  /** The configuration file changed. */
  reloaded(result: 'applied' | 'refused' | 'unchanged' | 'failed'): void {
    this.#reloads.set(result, (this.#reloads.get(result) ?? 0) + 1);
  }

  /** Something about this node. */
  emitNodeEvent(event: Pick<ClusterEvent, 'type' | 'reason' | 'action' | 'note'>): void {
    const { nodeName } = this.#config;
    this.#emit({
      ...event,
      regarding: { apiVersion: 'v1', kind: 'Node', namespace: '', name: nodeName, uid: nodeName },
    });
  }

  async close(): Promise<void> {
    for (const { stop } of this.#open.values()) stop.abort();
    await this.#serviceHealth.close();
  }

  #healthHandler(): Handler {
    return healthHandler({
      health: this.health,
      wall: () => this.#clock.wall(),
      onAnswer: (path, status) => this.#metrics.answered(path, status),
    });
  }

  #metricsHandler(): Handler {
    return metricsHandler({
      mode: () => this.#config.mode,
      config: () => fileFromConfig(this.#config),
      metrics: () => this.#metrics,
      hasProfiling: () => this.#config.serve.profiling,
      setVerbosity: (verbosity) => {
        this.#options.log.level = levelOf(verbosity);
      },
    });
  }

  #listen(name: 'healthz' | 'metrics', listen: ListenAddress | undefined, handler: Handler): void {
    const before = this.#open.get(name);
    if (before !== undefined && before.listen.text === listen?.text) return;
    before?.stop.abort();
    this.#open.delete(name);
    if (listen === undefined) return;
    const stop = new AbortController();
    this.#open.set(name, { listen, stop });
    void keepOpen({
      listen,
      handler,
      clock: this.#clock,
      signal: AbortSignal.any([stop.signal, this.#options.signal]),
      onFailure: (error) => this.#cannotListen(name, listen, error),
    });
  }

  #cannotListen(name: 'healthz' | 'metrics', { text }: ListenAddress, error: Error): void {
    const reason = name === 'healthz' ? 'FailedToStartProxierHealthcheck' : 'FailedToStartMetricServer';
    const note = `the ${name} server cannot listen at ${text}: ${error.message}`;
    const { hardFail } = this.#config.serve;
    this.#options.log.error({ listen: text }, hardFail ? note : `${note}; trying again`);
    this.emitNodeEvent({ type: 'Warning', reason, action: 'StartKubeProxy', note });
    if (hardFail) this.#fail(new CannotRun(`${note} (--bind-address-hard-fail)`));
  }

  #healthSettings(config: Config, feed: ObjectFeed, families: readonly Family[]) {
    return {
      timeout: 2 * config.syncPeriod,
      families,
      expected: this.#options.expected,
      waitingFor: () => feed.cache.waitingFor,
      watches: feed.watches,
      node: () => feed.cache.node,
      hasNodes: config.source.kind === 'kubernetes',
    };
  }

  #newServiceHealth(): ServiceHealth {
    return new ServiceHealth({
      isHealthy: () => this.health.state.healthy,
      addresses: async (family) => (await this.#agent?.here.listenAddresses(family)) ?? [],
      onFailure: (service, port, cause) => {
        const note = `the health check port ${port} cannot be served: ${cause}`;
        this.#options.log.error({ service, port }, `Service ${service}: ${note}; trying again at the next sync`);
        this.#emit({
          type: 'Warning',
          reason: 'FailedToStartServiceHealthcheck',
          action: 'Listen',
          note,
          regarding: this.#regardingService(service),
        });
      },
    });
  }

  #newMetrics({ mode, families }: { readonly mode: ModeName; readonly families: readonly Family[] }): Metrics {
    const read = metricSamples({
      feed: () => this.#feed,
      rules: () => this.#agent?.mode.ruleCounts() ?? [],
      connections: async () => {
        try {
          return (await this.#agent?.mode.connectionCounts?.()) ?? [];
        } catch (error) {
          this.#options.log.error(`connections cannot be counted: ${causeOf(error)}`);
          return [];
        }
      },
      packets: (what) => this.#packetsOf(what),
      clock: this.#clock,
      health: () => this.health.state,
      refused: () => this.#refused.size,
      gaps: () => this.#gaps.counts,
      reloads: () => this.#reloads,
      faults: () => (this.#agent === undefined ? {} : faultCounts(this.#agent)),
    });
    return new Metrics({ mode, families, version: version(), read });
  }

  /** What rules counted; where they cannot be read now, what was read last. */
  async #packetsOf(what: PacketCount['what']): Promise<number> {
    try {
      this.#packets.take((await this.#agent?.mode.packetCounts?.(this.#options.signal)) ?? []);
      this.#packetsUnread = undefined;
    } catch (error) {
      const cause = causeOf(error);
      if (cause !== this.#packetsUnread) {
        this.#options.log.warn(
          { cause },
          `the packets that rules counted cannot be read: ${cause}; metrics tell the last`,
        );
      }
      this.#packetsUnread = cause;
    }
    return this.#packets.total(what);
  }

  #startRecorder({ source, nodeName }: Config): void {
    const { log, signal } = this.#options;
    this.#recorder =
      source.kind === 'manifests'
        ? undefined
        : new EventRecorder({
            cluster: source,
            userAgent: userAgent('agent'),
            reporter: { controller: 'slicewire', instance: `slicewire-${nodeName}` },
            clock: this.#clock,
            signal,
            onFailure: (error) => log.warn(`events cannot be written: ${error.message}`),
          });
  }

  #emitSetAside(refused: Verdict['refused']): void {
    const notes = new Map<ServiceKey, string>();
    for (const [owner, { key, cause }] of refused) {
      const note = this.#refused.get(owner) ?? `is set aside, since the kernel refused ${key}: ${cause}`;
      notes.set(owner, note);
      const regarding = this.#regardingService(owner);
      this.#emit({ type: 'Warning', reason: 'SetAside', action: 'Sync', note, regarding });
    }
    this.#refused = notes;
  }

  #regardingService(service: string): Regarding {
    const [namespace = '', name = ''] = service.split('/');
    const uid = this.#feed.cache.service(service)?.uid;
    return { apiVersion: 'v1', kind: 'Service', namespace, name, uid };
  }

  #emit(event: ClusterEvent): void {
    this.#recorder?.emit(event);
  }
}

/** `IPv4 iptables-restore`, `IPv4 nat KUBE-…`, `IPv4 nftables`, `IPv4 elements of …`: a write of rules that failed. */
function isOfRules(key: string, family: Family): boolean {
  return (
    /^(iptables-restore$|nat |filter |mangle |nftables$|elements )/.test(key.replace(`${family} `, '')) &&
    key.startsWith(family)
  );
}
