/** Reports what a running agent does: health, metrics, events and the answers over HTTP. All of them outlive reloads of the configuration. */
import { type Address, type Family, familyOf, isLoopback, socketAddress } from '../base/address.ts';
import { realClock } from '../base/clock.ts';
import { inPortions } from '../base/portions.ts';
import { AGENT_FLAGS } from '../config/agent-flags.ts';
import type { Config } from '../config/config.ts';
import { fileFromConfig } from '../config/config-file.ts';
import type { Flags } from '../config/flags.ts';
import { relayAddresses } from '../config/relay-settings.ts';
import type { Verification } from '../inspect/wire/verification.ts';
import type { ChangesAtEnd } from '../proxy/ledger/change-ledger.ts';
import type { ServiceKey, Slice } from '../proxy/model/objects.ts';
import type { ProxyModel } from '../proxy/model/proxy-model.ts';
import { readyOnNode, type ServicePort, type ServicePortKey } from '../proxy/model/service-port.ts';
import type { SyncReport } from '../proxy/sync/sync-results.ts';
import { Clients } from '../serve/clients.ts';
import { Health } from '../serve/health.ts';
import type { HealthSettings } from '../serve/health-judgement.ts';
import { healthHandler } from '../serve/health-server.ts';
import { type MetricsText, metricsHandler, scrapeHandler } from '../serve/metrics-server.ts';
import { type Log, levelOf } from '../telemetry/log.ts';
import type { Agent } from './agent.ts';
import { componentInfo } from './component-info.ts';
import type { AskedPaths } from './datapath-watch.ts';
import type { ObjectFeed } from './feed.ts';
import { programmedAuth } from './fleet-auth.ts';
import { LivePage } from './live-page.ts';
import { MetricsFeed } from './metrics-feed.ts';
import { NodeEvents } from './node-events.ts';
import { OtherProxies, signsIn } from './other-proxies.ts';
import { readPageFile } from './page-files.ts';
import type { Platform } from './platform.ts';
import { ProgrammedAnswers, programmedParts } from './programmed-answers.ts';
import { Overview } from './questions/overview.ts';
import { pageQuestions, questionsOf } from './questions/parameters.ts';
import { Queries } from './questions/queries.ts';
import type { QueryParts } from './questions/query-parts.ts';
import { healthOf } from './questions/status-answer.ts';
import type { Recordings } from './recording/recordings.ts';
import { listedEndpoints } from './relay/node-ports.ts';
import { Servers } from './servers.ts';
import { ServiceMetrics } from './service-metrics.ts';
import { sentencesOf, syncOutcomeOf, writtenBy } from './sync-outcome.ts';
import type { TakeoverAt, TakeoverStage } from './takeover/takeover.ts';

interface ObserversOptions {
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Families of this node. */
  readonly expected: readonly Family[];
  readonly recordings: Recordings;
  readonly platform: Platform;
  /** The command line. */
  readonly flags: Flags;
}

/** A sync that ended. `changes` is undefined where it had no changes of a source. */
export interface EndedSync {
  readonly report: SyncReport;
  readonly changes: ChangesAtEnd | undefined;
  /** Its beginning, on the monotonic clock. */
  readonly since: number;
}

export class Observers {
  readonly health: Health;
  readonly events: NodeEvents;
  readonly metrics: MetricsFeed;
  readonly services: ServiceMetrics;
  readonly others: OtherProxies;
  readonly programmed: ProgrammedAnswers;
  /** `slicewire verify`, by the agent of its own. */
  readonly verify: (signal: AbortSignal) => Promise<Verification>;
  readonly #servers: Servers;
  /** The clients of all servers of this process. */
  readonly #clients: Clients;
  readonly #allMetrics: MetricsText;
  readonly #options: ObserversOptions;
  #config: Config;
  #agent: Agent | undefined;
  readonly #page: LivePage;
  readonly #switch = new GenerationSwitch();
  #stage: TakeoverStage = 'none';

  constructor(config: Config, feed: ObjectFeed, options: ObserversOptions) {
    const { log, signal, platform } = options;
    this.#options = options;
    this.#config = config;
    this.health = new Health(realClock, healthSettings(options, config, feed));
    this.events = new NodeEvents(config, feed, options);
    this.others = new OtherProxies({ log, clock: realClock, health: this.health, events: this.events });
    this.metrics = new MetricsFeed(config, feed, {
      log,
      signal,
      health: () => this.health.state,
      refused: () => this.events.refusedCount,
      takeover: () => this.#stage,
      relay: () => this.#servers.relay.counts,
      programmed: () => this.programmed.counts,
      turnedAway: () => this.#clients.turnedAway,
    });
    this.services = new ServiceMetrics({ log, signal, clock: realClock });
    this.#allMetrics = allMetrics(this);
    const cache = () => (this.#agent?.feed ?? feed).cache;
    const parts: QueryParts = {
      who: 'agent',
      clock: realClock,
      startedAt: realClock.wall(),
      config: () => this.#config,
      feed: () => this.#agent?.feed ?? feed,
      agent: () => this.#agent,
      health: () => healthOf(this.health.state),
      recordings: this.#options.recordings,
      trafficOf: (service) => this.services.trafficOf(service),
      relay: () => this.#servers.relay.state,
    };
    this.programmed = new ProgrammedAnswers(feed, {
      ...programmedParts(parts),
      suspects: () => cache().own.suspects,
      onProblem: (text) => log.error(text),
    });
    // Trusted clients are the node itself, by another of its addresses, and the fleet.
    const isTrusted = (text: string) => {
      const address = socketAddress(text);
      if (address === undefined) return false;
      const fleet = cache().slicesOf(this.#config.serve.fleetService as ServiceKey);
      return cache().own.view?.addresses.includes(address) === true || isEndpoint(address, fleet);
    };
    this.#clients = new Clients({
      clock: realClock,
      perClient: () => this.#config.serve.connectionsPerClient,
      isTrusted,
      onTurnedAway: (address, sentence) => log.warn({ address }, sentence),
    });
    const overview = new Overview(parts);
    const queries = new Queries(parts);
    this.verify = (until) => queries.verify(until);
    this.#page = new LivePage(overview, (text) => log.error(text));
    this.#servers = new Servers({
      open: (listen, handler) => platform.process.listen({ ...listen, clients: this.#clients }, handler),
      log,
      signal,
      events: this.events,
      handlers: {
        healthz: healthHandler({
          health: this.health,
          wall: () => realClock.wall(),
          onAnswer: (path, status) => this.metrics.current.answered(path, status),
          queries: {
            auth: programmedAuth(() => this.#config, { ...options, isTrusted }),
            byPath: this.programmed.routes,
          },
        }),
        metrics: this.#metricsHandler(queries, overview),
        scrape: scrapeHandler(() => this.#allMetrics),
      },
      isHealthy: () => this.health.state.healthy,
      listenAddresses: async (family) => (await this.#agent?.onNode.listenAddresses(family)) ?? [],
      slices: {
        versionOf: (service) => cache().slices.versionOf(service),
        readyOf: (service, family) => readyOnNode(cache().slicesOf(service), family, this.#config.nodeName),
      },
      relaySockets: platform.process.relay,
      listedEndpoints: (port) => listedEndpoints(port, cache().slicesOf(port.service)),
    });
  }

  /** Rejects with CannotRun when a port cannot be bound and --bind-address-hard-fail is set. */
  get failed(): Promise<never> {
    return this.#servers.failed;
  }

  /** Open the servers. Until the first sync they answer that it has not run yet. */
  start(): void {
    this.#servers.listen(this.#config);
  }

  /** Report on this generation of the agent from now on. */
  use(agent: Agent, config: Config): void {
    this.#config = config;
    this.#agent = agent;
    this.#switch.begin(agent.model);
    this.#servers.slicesReplaced();
    this.others.renew();
    this.events.use(agent.feed, config);
    this.health.tune(healthSettings(this.#options, config, agent.feed, agent));
    this.metrics.use(agent, config);
    this.services.use(agent, config);
    this.programmed.use(agent.feed);
    this.#servers.listen(config);
    const { families } = agent.onNode;
    const addresses = relayAddresses(config).filter((address) => families.includes(familyOf(address)));
    this.#servers.relay.listenAt(addresses, config.syncPeriod);
    this.#page.changed();
  }

  readonly onPorts = (changes: ChangedPorts): void => {
    this.metrics.update(changes);
    this.services.update(changes);
    this.#servers.update(changes);
  };

  /** The takeover of this node is at this stage. */
  readonly takeover = ({ stage, unready, news }: TakeoverAt): void => {
    this.#stage = stage;
    this.health.takeover(unready);
    this.#page.changed();
    if (stage !== 'open' && news !== undefined) this.events.emitTakeover(news, stage === 'went back');
  };

  /** The agent asked itself through its rules. */
  readonly askedPaths = (asked: AskedPaths): void => {
    this.health.brokenPaths(asked.reasons);
    this.metrics.askedPaths(asked);
  };

  /** A sync was requested. */
  queued(): void {
    this.health.queued();
    this.metrics.queued();
    this.#page.changed();
  }

  /** A sync ended, and its rules are written. Rejects where what follows a sync fails: the ports of health checks and of the relay. */
  async synced({ report, changes, since }: EndedSync): Promise<void> {
    const families = this.#agent?.onNode.families ?? [];
    const { complete, causes, refused } = syncOutcomeOf(report, families, () => this.#agent?.model.ports.keys() ?? []);
    const hasWritten = report.outcome !== 'failed';
    this.health.synced(complete, since, causes);
    this.health.refused(sentencesOf(refused));
    if (report.reading > 0 && hasWritten) this.health.verified();
    this.metrics.synced(report, complete, changes);
    this.events.emitRefused(refused);
    this.others.found(signsIn(report.drift));
    if (report.outcome === 'complete' && this.#agent?.mode.isWaiting === false) this.others.alone();
    this.#page.changed();
    this.programmed.changed();
    if (!hasWritten) return;
    this.onPorts(await this.#switch.written());
    await this.#servers.sync(writtenBy(report, families));
  }

  async close(): Promise<void> {
    await this.#servers.close();
  }

  #metricsHandler(queries: Queries, overview: Overview) {
    return metricsHandler({
      mode: () => this.#config.mode,
      config: () => fileFromConfig(this.#config),
      metrics: () => this.#allMetrics,
      hasProfiling: () => this.#config.serve.profiling,
      questions: {
        byPath: new Map([...questionsOf(queries, () => realClock.wall()), ...pageQuestions(overview)]),
        live: this.#page.open,
        isLocal: () => isLoopback(this.#config.serve.metrics.address),
      },
      readPage: readPageFile,
      component: componentInfo(this.#options.flags, AGENT_FLAGS),
      setVerbosity: (verbosity) => {
        this.#options.log.level = levelOf(verbosity);
      },
    });
  }
}

function isEndpoint(address: Address, slices: readonly Slice[]): boolean {
  return slices.some(({ endpoints }) => endpoints.some((one) => one.address === address));
}

function healthSettings(
  { expected }: Pick<ObserversOptions, 'expected'>,
  config: Config,
  feed: ObjectFeed,
  agent?: Agent,
): HealthSettings {
  const again = `the agent tries it again every ${config.syncPeriod / 1000} s`;
  return {
    timeout: 2 * config.syncPeriod,
    families: agent?.onNode.families ?? [],
    unserved: (agent?.unserved ?? []).filter(({ isNoted }) => isNoted).map(({ text }) => `${text}; ${again}`),
    expected,
    waitingFor: () => feed.cache.waitingFor,
    watches: feed.watches,
    node: () => feed.cache.node,
    hasNodes: config.source.kind === 'kubernetes',
    datapathCheck: config.datapathCheck,
  };
}

/** The metrics of the agent and of its Services as one text. */
function allMetrics({ metrics, services }: Pick<Observers, 'metrics' | 'services'>): MetricsText {
  return {
    get contentType() {
      return metrics.current.contentType;
    },
    text: async () => `${await metrics.current.text()}${await services.text()}`,
  };
}

type Ports = Pick<ProxyModel, 'ports'>;
type ChangedPorts = ReadonlyMap<ServicePortKey, ServicePort | undefined>;

/** The work takes a few milliseconds, and is not worth an abort. */
const NEVER = new AbortController().signal;

/**
 * The switch from one generation of the agent to the next, for the receivers of changed ServicePorts. The first sync of a generation reports
 * all of its ServicePorts. ServicePorts of former generations that are not among them are gone; this class reports them once. Until the next
 * generation has written, the reports of the former one stay in force.
 */
export class GenerationSwitch {
  /** The models of the generations whose ServicePorts may still be in force. */
  #former: Ports[] = [];
  #present: Ports | undefined;

  /** Another generation works from now on. */
  begin(next: Ports): void {
    if (this.#present !== undefined && this.#present !== next) this.#former.push(this.#present);
    this.#present = next;
  }

  /** The present generation has written. Resolves with the ServicePorts of former ones that are gone. */
  async written(): Promise<ChangedPorts> {
    const gone = new Map<ServicePortKey, undefined>();
    const [former, present] = [this.#former, this.#present?.ports];
    if (former.length === 0 || present === undefined) return gone;
    this.#former = [];
    for (const { ports } of former) {
      await inPortions(ports.keys(), (key) => void (present.has(key) || gone.set(key, undefined)), NEVER);
    }
    return gone;
  }
}
