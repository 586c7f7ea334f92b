/**
 * The life of `slicewire shadow`: it follows the objects and kube-proxy's rules, compares them, and answers. When kube-proxy or this node changes,
 * the parts that compare are made again. It writes nothing to the kernel.
 */

import { type Agent, startAgent } from '../agent/agent.ts';
import { type ObjectFeed, startFeed } from '../agent/feed.ts';
import { loadConfig } from '../agent/load-config.ts';
import { type Platform, realPlatform } from '../agent/platform.ts';
import { factsAbout } from '../agent/questions/explain-now.ts';
import { kubeProxyMode } from '../agent/questions/kube-proxy-mode.ts';
import { type KubeProxyRules, kubeProxyRules } from '../agent/questions/kube-proxy-rules.ts';
import { questionsOf } from '../agent/questions/parameters.ts';
import { Queries } from '../agent/questions/queries.ts';
import { answeredByOf, type QueryParts, relayOf } from '../agent/questions/query-parts.ts';
import { heardOf, sourceText } from '../agent/questions/status-answer.ts';
import { isLoopback } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { aborted, doubledWait, realClock, sleep } from '../base/clock.ts';
import { readOneFile } from '../cluster/documents/files.ts';
import type { Config } from '../config/config.ts';
import { ConfigError, type Flags } from '../config/flags.ts';
import type { ExplainFacts } from '../inspect/explain/facts.ts';
import { momentOf, NoAnswer } from '../inspect/wire/envelope.ts';
import type { Shadow } from '../inspect/wire/shadow.ts';
import type { Fault } from '../proxy/model/objects.ts';
import { Clients } from '../serve/clients.ts';
import { keepOpen } from '../serve/http.ts';
import { scrapeHandler } from '../serve/metrics-server.ts';
import type { ReadPage } from '../serve/page.ts';
import type { QueryRoute } from '../serve/query-handler.ts';
import type { ComponentInfo } from '../serve/zpages.ts';
import { FaultLog, RationedLines } from '../telemetry/fault-log.ts';
import type { Log } from '../telemetry/log.ts';
import { ShadowMetrics } from '../telemetry/shadow-metrics.ts';
import { listenTrouble, TroubleLog } from '../telemetry/trouble-log.ts';
import { shadowOf } from './answer.ts';
import { Comparing, Pace } from './comparing.ts';
import { Findings } from './findings.ts';
import type { LastingChanges } from './lasting-differences.ts';
import { shadowHandler } from './server.ts';
import { shadowFlags } from './shadow-flags.ts';
import { type WatchedProxy, watchProxy } from './watched-proxy.ts';

/** The wait before the parts are made again: after a failure, and at most after many, each of which lists all objects. */
const AGAIN_MS = 5000;
const MAX_AGAIN_MS = 300_000;

export interface ShadowOptions {
  /** The command line. Its --config may name the file of kube-proxy. */
  readonly flags: Flags;
  /** With the mode left open. */
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly component: ComponentInfo;
  readonly readPage: ReadPage;
}

/** The parts that compare, for one mode of kube-proxy. */
interface Parts {
  readonly config: Config;
  readonly feed: ObjectFeed;
  readonly agent: Agent;
  readonly watched: WatchedProxy;
}

/** Resolves when the signal aborts. Rejects with ConfigError. */
export async function runShadow(options: ShadowOptions): Promise<void> {
  await new ShadowProcess(options).run();
}

class ShadowProcess {
  readonly #options: ShadowOptions;
  readonly #findings: Findings;
  readonly #metrics: ShadowMetrics;
  readonly #troubles: TroubleLog;
  readonly #lines: RationedLines;
  readonly #faults: FaultLog;
  readonly #clients: Clients;
  readonly #pace = new Pace(realClock);
  /** Failures since the rules were compared last. */
  #failures = 0;
  #hasCompared = false;
  #config: Config;
  #parts: Parts | undefined;
  #feed: ObjectFeed | undefined;

  constructor(options: ShadowOptions) {
    const { log, config, component } = options;
    this.#options = options;
    this.#config = config;
    this.#troubles = new TroubleLog({ log, clock: realClock, level: 'warn' });
    this.#faults = new FaultLog({ log, clock: realClock });
    this.#lines = new RationedLines({
      ...{ log, clock: realClock, rest: 'v2' },
      counted: (_, count) =>
        `${count} more lines about differences were left out; slicewire status --of kube-proxy has them all`,
    });
    this.#findings = new Findings({
      theirs: (milliseconds) => this.#metrics.theirs.observe(milliseconds / 1000),
      plan: (milliseconds) => this.#metrics.plan.observe(milliseconds / 1000),
    });
    this.#clients = new Clients({
      clock: realClock,
      perClient: () => config.serve.connectionsPerClient,
      onTurnedAway: (address, sentence) => log.warn({ address }, sentence),
    });
    this.#metrics = this.#metricsOf(component.version);
  }

  async run(): Promise<void> {
    const { log, signal } = this.#options;
    log.info({ node: this.#config.nodeName, source: this.#config.source }, 'starting');
    const serving = this.#serve();
    try {
      while (!signal.aborted) {
        try {
          await this.#compare();
          this.#failures = 0;
        } catch (error) {
          signal.throwIfAborted();
          // A file that became wrong later is told, and tried again.
          if (error instanceof ConfigError && !this.#hasCompared) throw error;
          const cause = causeOf(error);
          this.#findings.problem = cause;
          this.#troubles.tell({ cause, text: `cannot compare kube-proxy's rules: ${cause}; trying again` });
          this.#failures += 1;
          await sleep(realClock, doubledWait(this.#failures, AGAIN_MS, MAX_AGAIN_MS), signal);
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#faults.flush();
      this.#lines.flush();
    }
    await serving;
    log.info('stopped');
  }

  /** Compares until kube-proxy or the node changes, so that other parts are needed. */
  async #compare(): Promise<void> {
    const { flags, log, signal } = this.#options;
    const own = new AbortController();
    const until = AbortSignal.any([signal, own.signal]);
    let [agent, watched]: [Agent | undefined, WatchedProxy | undefined] = [undefined, undefined];
    let running: Promise<void> | undefined;
    try {
      const { config, digest } = await loadConfig(flags, readOneFile, kubeProxyMode(until), shadowFlags(flags));
      this.#config = config;
      const onFault = (fault: Fault) => void this.#faults.log(fault);
      const feed = startFeed({ platform: QUIET, config, log, program: 'shadow', follow: true, signal: until, onFault });
      this.#feed = feed;
      let comparing: Comparing | undefined;
      agent = await startAgent(feed, {
        ...{ platform: QUIET, config, log, isRun: false, signal: until, onFault },
        onPorts: (...changes) => comparing?.onPorts(...changes),
      });
      const onCommit = () => comparing?.committed();
      const present = agent;
      watched = await watchProxy({ config, agent, onCommit, signal: until });
      this.#parts = { config, feed, agent, watched };
      this.#hasCompared = true;
      log.info({ mode: config.mode }, `watching kube-proxy in ${config.mode} mode`);
      comparing = new Comparing({
        ...{ agent, watched, findings: this.#findings, pace: this.#pace, clock: realClock },
        facts: async (rules) => await this.#facts(present, rules),
        onDifferences: (changes) => this.#log(changes),
        isOutdated: async (asked) => await this.#isOutdated(onNode, digest, asked),
      });
      const { onNode } = agent;
      feed.onChange(comparing.wake);
      running = comparing.run(until);
      await Promise.race([running, feed.source.then(() => aborted(until))]);
    } finally {
      own.abort(new Error('other parts take over'));
      // It may be in the middle of a walk, which asks the kernel by sockets that are closed below.
      await running?.catch(() => undefined);
      this.#parts = undefined;
      watched?.close();
      agent?.onNode.close();
    }
  }

  async #facts(agent: Agent, of: KubeProxyRules): Promise<ExplainFacts> {
    const parts = this.#queryParts;
    const about = { by: answeredByOf(parts), agent, recorder: undefined, knowsPods: false, relay: relayOf(parts), of };
    return await factsAbout(about);
  }

  /** Whether the node, or the file of --config, changed. It is asked before each round. */
  async #isOutdated(onNode: Agent['onNode'], digest: string | undefined, signal: AbortSignal): Promise<boolean> {
    if (this.#findings.problem === undefined) {
      this.#failures = 0;
      this.#troubles.over({ text: "kube-proxy's rules can be compared now" });
    }
    return (await this.#digest(digest)) !== digest || (await onNode.changes(signal)).length > 0;
  }

  /** The digest of the file of --config now; `before` where it is wrong, because the former one stays in force. */
  async #digest(before: string | undefined): Promise<string | undefined> {
    const { flags } = this.#options;
    const of = 'file';
    try {
      const { digest } = await loadConfig(flags, readOneFile, undefined, shadowFlags(flags));
      this.#troubles.over({ of, text: 'the file of --config can be used again' });
      return digest;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const cause = causeOf(error);
      const text = `the changed file of --config cannot be used: ${cause}; the former settings stay in force`;
      this.#troubles.tell({ of, cause, text });
      return before;
    }
  }

  #log({ begun, ended }: LastingChanges): void {
    for (const { service, kind, connections, example } of begun) {
      const of = service === '' ? 'An address that no Service has' : `Service ${service}`;
      const text = `${of}: kube-proxy's rules do not do what the objects ask for: a connection ${example.object} is ${example.found.join(', ')}, and should be ${example.wanted.join(', ')}`;
      this.#lines.write({ kind: 'begun', level: 'warn', facts: { service, kind, connections }, text });
    }
    for (const { service, kind } of ended) {
      const of = service === '' ? 'Addresses that no Service has' : `Service ${service}`;
      this.#lines.write({
        ...{ kind: 'ended', level: 'info', facts: { service, kind } },
        text: `${of}: no connection goes elsewhere any more`,
      });
    }
  }

  #metricsOf(version: string): ShadowMetrics {
    const findings = this.#findings;
    const seconds = (at: number) => (realClock.wall() - realClock.now() + at) / 1000;
    return new ShadowMetrics({
      version,
      differences: () => findings.differences.all.map((one) => ({ ...one, since: seconds(one.since) })),
      others: () => findings.differences.count - findings.differences.all.length,
      onPurpose: () => findings.round?.onPurposeCount ?? 0,
      waiting: () => findings.programming.waiting().services,
      unmeasured: () => findings.programming.unmeasured,
      followed: () => findings.connections,
      comparedAt: () => (findings.round === undefined ? 0 : seconds(findings.round.at)),
      isComparing: () => findings.problem === undefined,
      watches: () => this.#feed?.watches() ?? [],
      turnedAway: () => this.#clients.turnedAway,
    });
  }

  get #queryParts(): QueryParts {
    return {
      who: 'agent',
      clock: realClock,
      startedAt: this.#options.component.startedAt,
      config: () => this.#config,
      feed: () => this.#present.feed,
      agent: () => this.#present.agent,
      health: () => ({ live: true, ready: true, healthy: true, reasons: [] }),
      recordings: undefined,
      of: async (signal) => {
        const { config, agent } = this.#present;
        return await kubeProxyRules({ config, inspection: agent.mode.inspection, signal });
      },
    };
  }

  /** Throws NoAnswer. */
  get #present(): Parts {
    if (this.#parts === undefined)
      throw new NoAnswer(`kube-proxy's rules cannot be compared: ${this.#findings.problem ?? 'not ready yet'}`);
    return this.#parts;
  }

  #answer(): Shadow {
    const { startedAt } = this.#options.component;
    const wallAtZero = realClock.wall() - realClock.now();
    const { user, system } = process.cpuUsage();
    const cache = this.#feed?.cache;
    return shadowOf({
      by: answeredByOf(this.#queryParts),
      pid: process.pid,
      startedAt: momentOf(startedAt),
      source: sourceText(this.#config.source),
      heard: (this.#feed?.watches() ?? []).map((watch) => heardOf(watch, wallAtZero)),
      objects: { services: cache?.serviceCount ?? 0, slices: cache?.slices.count ?? 0 },
      cost: { processor: (user + system) / 1e6, memory: process.memoryUsage.rss() },
      findings: this.#findings,
      sight: this.#parts?.watched.sight ?? 'rules compared',
      now: realClock.now(),
      wallAtZero,
    });
  }

  /** Resolves when the servers are closed. */
  async #serve(): Promise<void> {
    const { log, signal, component, readPage, config } = this.#options;
    const unbound = new TroubleLog({ log, clock: realClock, level: 'error' });
    const queries = new Queries(this.#queryParts);
    const asked = questionsOf(queries, () => realClock.wall());
    const questions = new Map<string, QueryRoute>([
      ['/status', { parameters: [], answer: () => Promise.resolve(this.#answer()) }],
      ...['/verify', '/explain', '/exposure'].flatMap((path) => {
        const route = asked.get(path);
        return route === undefined ? [] : [[path, route] as const];
      }),
    ]);
    const { metrics: listen, scrape } = config.serve;
    const feed = {
      isSynced: () => this.#feed?.cache.isSynced !== false,
      watches: () => this.#feed?.watches() ?? [],
    };
    const handler = shadowHandler({
      ...{ questions, readPage, component, metrics: this.#metrics, clock: realClock },
      isLocal: () => isLoopback(listen.address),
      feed: {
        get isSynced() {
          return feed.isSynced();
        },
        get watches() {
          return feed.watches();
        },
      },
      unready: () => this.#findings.problem,
    });
    const shared = { clock: realClock, signal };
    const clients = this.#clients;
    await Promise.all([
      keepOpen({ ...shared, listen: { ...listen, clients }, handler, ...listenTrouble(unbound, listen.text) }),
      ...(scrape === undefined
        ? []
        : [
            keepOpen({
              ...{ ...shared, listen: { ...scrape, clients }, handler: scrapeHandler(() => this.#metrics) },
              ...listenTrouble(unbound, scrape.text),
            }),
          ]),
    ]);
  }
}

/** The real world, without the notices that only a proxy needs. */
const QUIET: Platform = { ...realPlatform, kernel: withoutNotices(realPlatform.kernel) };

function withoutNotices({ openNotices: _, ...kernel }: Platform['kernel']): Platform['kernel'] {
  return kernel;
}
