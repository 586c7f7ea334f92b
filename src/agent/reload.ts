/**
 * Reloads: one generation of the agent's parts after another. When the configuration, the Node or this machine changes, the next
 * generation is built beside the one that works, and takes over when it is ready.
 */

import { causeOf } from '../base/cause.ts';
import { realClock, unlessAborted } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import { KubeconfigUnusable } from '../cluster/api/credentials.ts';
import { ManifestsUnusable } from '../cluster/source/manifests/source.ts';
import type { Config } from '../config/config.ts';
import { streamsLists } from '../config/feature-gates.ts';
import { ConfigError, type Flags } from '../config/flags.ts';
import { isMachineFailure } from '../kernel/failures.ts';
import type { Hangups } from '../kernel/process.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { Fault } from '../proxy/model/objects.ts';
import { FaultLog } from '../telemetry/fault-log.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import { type Agent, startAgent } from './agent.ts';
import { CannotRun } from './cannot-run.ts';
import { emitModeWarning, warnOfMode } from './choose-mode.ts';
import { ConfigFollower } from './config-follower.ts';
import { Datapath } from './datapath/datapath.ts';
import { type ObjectFeed, startFeed } from './feed.ts';
import { runGeneration } from './generation.ts';
import { logKeptOomScore } from './log-lines.ts';
import { Observers } from './observers.ts';
import type { Platform } from './platform.ts';
import type { Recordings } from './recording/recordings.ts';
import type { StartReport } from './start-report.ts';
import { SupervisorState } from './supervisor-state.ts';
import { SyncLog } from './sync-log.ts';
import { Takeover } from './takeover/takeover.ts';

/** Errors of a changed configuration, beside those of this machine: the former one then stays in force. */
const UNUSABLE = [ConfigError, CannotRun, KubeconfigUnusable, ManifestsUnusable];

export interface RunOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly hangups: Hangups;
  readonly recordings: Recordings;
  /** The command line: the agent follows the file that its --config names. */
  readonly flags: Flags;
  /** Digest of that file as `config` was read from it. */
  readonly configDigest: string | undefined;
  readonly platform: Platform;
  /** Receives the phases of the start. */
  readonly startReport?: StartReport | undefined;
  /** How often other processes asked for the agent of this node. */
  readonly timesAsked: () => number;
  /** Called when another configuration is in force. */
  readonly onConfig?: (config: Config) => void;
}

/** A running feed, the configuration that it was started with, and its stop. */
interface RunningFeed {
  readonly feed: ObjectFeed;
  readonly config: Config;
  readonly stop: AbortController;
}

/** The parts of the agent that work for one configuration, Node and machine. */
interface Generation {
  readonly agent: Agent;
  readonly config: Config;
  readonly running: RunningFeed;
  readonly stop: AbortController;
  /** Resolves after the last write of these parts; rejects when they cannot go on. */
  readonly ended: Promise<void>;
}

/** Limit for the first lists of another source. After it the former configuration stays in force. */
const FIRST_LISTS_TIMEOUT_MS = 30_000;
/** Minimum time from a failure of a changed configuration to the next try. */
const RETRY_MS = 30_000;

export class Reloader {
  readonly #options: RunOptions;
  readonly #configs: ConfigFollower;
  readonly #supervisor: SupervisorState;
  readonly #faults: FaultLog;
  readonly #syncLog: SyncLog;
  observers: Observers | undefined;
  #takeover: Takeover | undefined;
  readonly #datapath: Datapath;
  /** Failures to adapt to a change of the node; each check of the node tries again. */
  readonly #unadapted: TroubleLog;
  /** The Node or this machine changed: the same configuration needs another generation. */
  #isOutdated = false;
  #wake: () => void = () => undefined;

  constructor(options: RunOptions) {
    const { log } = options;
    this.#options = options;
    this.#datapath = new Datapath({
      sockets: options.platform.process.datapath,
      addresses: options.platform.machine.addresses,
      clock: realClock,
      onProblem: (text) => log.warn(text),
    });
    this.#unadapted = new TroubleLog({ log, clock: realClock, level: 'warn' });
    this.#supervisor = new SupervisorState(log);
    this.#faults = new FaultLog({ log, clock: realClock });
    this.#syncLog = new SyncLog(log, realClock);
    this.#configs = new ConfigFollower({
      ...options,
      supervisor: this.#supervisor,
      onWanted: () => this.#wake(),
      onResult: (result) => this.observers?.metrics.reloaded(result),
    });
  }

  /** Resolves when the signal aborts. */
  async run(): Promise<void> {
    const { signal, hangups } = this.#options;
    hangups.listen(() => void this.#configs.hangup());
    const following = this.#configs.run();
    const generations = this.#runGenerations();
    try {
      await Promise.race([generations, following.then(() => generations)]);
    } finally {
      this.#faults.flush();
      this.#syncLog.summarize();
      this.#datapath.close();
      await this.observers?.close();
      await this.#options.recordings.close();
    }
    signal.throwIfAborted();
  }

  async #runGenerations(): Promise<void> {
    const { signal } = this.#options;
    let present: Generation | undefined;
    try {
      while (!signal.aborted) {
        const config = this.#configs.wanted;
        this.#isOutdated = false;
        const former: Generation | undefined = present;
        try {
          present = await this.#next(config, former);
        } catch (error) {
          // The file changed again meanwhile, so the error is about a configuration that is no longer wanted.
          if (!signal.aborted && config !== this.#configs.wanted) continue;
          this.#keepFormer(config, former, error);
        }
        if (present !== undefined) await this.#untilOutdated(present);
      }
    } finally {
      if (signal.aborted) await present?.ended.catch(() => undefined);
      present?.agent.onNode.close();
    }
  }

  /** Build a generation for this configuration, end the former one, and start the new one. */
  async #next(config: Config, former: Generation | undefined): Promise<Generation> {
    const { signal } = this.#options;
    const building = new AbortController();
    this.#wake = () => {
      if (this.#configs.wanted !== config) building.abort(new Error('another configuration is wanted'));
    };
    const running = await this.#feedFor(config, former, AbortSignal.any([signal, building.signal]));
    const observers = await this.#observersFor(running.feed, config);
    const takeover = this.#takeoverOf(observers);
    const keepsTables = takeover.keepsTables(config);
    let agent: Agent;
    try {
      agent = await this.#build(config, {
        running,
        observers,
        takeover,
        keepsTables,
        former,
        building: building.signal,
      });
    } catch (error) {
      if (running !== former?.running) running.stop.abort();
      throw error;
    }
    this.#wake = () => undefined;
    this.#unadapted.over({ text: 'the agent could adapt to the change of this node' });
    await this.#placeProbe(running.feed, config, takeover);
    if (former !== undefined) await this.#end(former, running);
    if (former?.config.oomScoreAdj !== config.oomScoreAdj) await this.#setOomScore(config);
    await this.#options.recordings.use(agent, config);
    if (former !== undefined) warnOfMode(config, former.config, this.#options.log);
    emitModeWarning(config, former?.config, observers.events);
    return this.#start({ agent, config, running, observers, takeover, keepsTables, former });
  }

  async #build(
    config: Config,
    { running, observers, takeover, keepsTables, former, building }: BuildInput,
  ): Promise<Agent> {
    const { signal, log, platform } = this.#options;
    return await startAgent(running.feed, {
      platform,
      config,
      log,
      isRun: true,
      recorder: this.#options.recordings.hooks,
      mustHave: former?.agent.onNode.families ?? [],
      former: former?.config.mode,
      keepsTables,
      beforeWrite: takeover.beforeWrite,
      signal: AbortSignal.any([signal, running.stop.signal, building]),
      onFault: (fault) => this.#onFault(fault),
      onPorts: observers.onPorts,
      onSweep: (report) => {
        this.#syncLog.swept(report);
        observers.metrics.swept(report);
      },
      onPhase: (phase) => this.#options.startReport?.ended(phase),
    });
  }

  /** End the former generation with its last write. */
  async #end(former: Generation, running: Generation['running']): Promise<void> {
    former.stop.abort(new Error('other parts take over'));
    await former.ended.catch(() => undefined);
    former.agent.onNode.close();
    if (former.running !== running) former.running.stop.abort();
  }

  #start({ agent, config, running, observers, takeover, keepsTables, former }: StartInput): Generation {
    const { log, signal, platform, onConfig, timesAsked } = this.#options;
    const stop = new AbortController();
    observers.use(agent, config);
    onConfig?.(config);
    if (former !== undefined && former.config !== config) {
      if (this.#configs.lastFailure !== undefined)
        this.#options.log.info('the changed configuration can be used now, and is in force');
      observers.metrics.reloaded('applied');
      void this.#supervisor.reloadEnded();
    }
    if (former !== undefined) {
      // Up to now: the next generation never hears of a Service that is gone by then.
      former.agent.loop.end();
      agent.sweeper.inherit(former.agent.sweeper.handOver());
    }
    running.feed.cache.touchAll();
    const until = AbortSignal.any([signal, stop.signal]);
    takeover.begin({ agent, config, keepsTables, signal: until });
    const ended = runGeneration(agent, {
      platform,
      timesAsked,
      takeover,
      datapath: this.#datapath,
      config,
      log,
      syncLog: this.#syncLog,
      signal: until,
      observers,
      recorder: this.#options.recordings.hooks,
      onSynced: () => {
        this.#options.startReport?.ended('sync');
        void this.#supervisor.ready();
      },
      onOutdated: () => {
        this.#isOutdated = true;
        this.#wake();
      },
    });
    // #untilOutdated reports a rejection. Until it waits, this handler keeps the process alive.
    ended.catch(() => undefined);
    return { agent, config, running, stop, ended };
  }

  /** Resolves when another generation is needed; rejects when this one cannot go on. */
  async #untilOutdated({ config, ended }: Generation): Promise<void> {
    const { signal } = this.#options;
    while (this.#configs.wanted === config && !this.#isOutdated) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.race([woken, ended, this.observers?.failed ?? ended]);
      signal.throwIfAborted();
    }
  }

  /** Stay with the former generation, where there is one and the error is about the configuration or this node; otherwise throw. */
  #keepFormer(config: Config, former: Generation | undefined, error: unknown): void {
    const { log, signal } = this.#options;
    const isKnown = isMachineFailure(error) || UNUSABLE.some((kind) => error instanceof kind);
    if (signal.aborted || former === undefined || !isKnown) throw error;
    const cause = causeOf(error);
    if (config === former.config) {
      this.#unadapted.tell({ cause, text: `cannot adapt to the change of this node: ${cause}; going on as before` });
      return;
    }
    const { lastFailure } = this.#configs;
    const pause = error instanceof ConfigError ? undefined : Math.max(config.syncPeriod, RETRY_MS);
    if (cause !== lastFailure) {
      const next = pause === undefined ? '' : `, and the changed one is tried again every ${pause / 1000} s`;
      log.error(`the changed configuration cannot be used: ${cause}; the former one stays in force${next}`);
    }
    // The metric counts changes of the file, not tries.
    if (lastFailure === undefined) this.observers?.metrics.reloaded('failed');
    this.#configs.revert(former.config, cause, pause);
    void this.#supervisor.reloadEnded();
  }

  /** The former feed where the source is the same; otherwise another, once its first lists are complete. */
  async #feedFor(config: Config, former: Generation | undefined, building: AbortSignal): Promise<RunningFeed> {
    const { log, signal, platform } = this.#options;
    const old = former?.running;
    if (old !== undefined && sameData(feedSettings(old.config), feedSettings(config))) return old;
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    const onFault = (fault: Fault) => this.#onFault(fault);
    const feed = startFeed({
      recordsRamps: true,
      platform,
      config,
      log,
      follow: true,
      signal: until,
      recorder: this.#options.recordings.hooks,
      onFault,
    });
    if (old === undefined) return { feed, config, stop };
    const late = AbortSignal.any([building, AbortSignal.timeout(FIRST_LISTS_TIMEOUT_MS)]);
    try {
      await unlessAborted(feed.synced, late);
    } catch (error) {
      stop.abort();
      if (building.aborted || error !== late.reason) throw error;
      throw new CannotRun(
        `the new source did not list ${feed.cache.waitingFor.join(', ')} within ${FIRST_LISTS_TIMEOUT_MS / 1000} s`,
      );
    }
    return { feed, config, stop };
  }

  async #observersFor(feed: ObjectFeed, config: Config): Promise<Observers> {
    if (this.observers !== undefined) return this.observers;
    const { log, signal, recordings, platform, flags } = this.#options;
    const expected = await platform.machine.families();
    const observers = new Observers(config, feed, { log, signal, recordings, platform, flags, expected });
    this.observers = observers;
    observers.start();
    observers.events.emitNode({ type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', note: '' });
    void this.#supervisor.keepAlive(signal);
    return observers;
  }

  #takeoverOf(observers: Observers): Takeover {
    const { log, platform } = this.#options;
    this.#takeover ??= new Takeover({
      platform,
      clock: realClock,
      log,
      datapath: this.#datapath,
      unhealthy: () => observers.health.state.reasons.healthz,
      verify: observers.verify,
      onStage: observers.takeover,
      onDecided: ({ datapathCheck }) => {
        if (datapathCheck === 'none') this.#datapath.close();
      },
      onAgain: () => {
        this.#isOutdated = true;
        this.#wake();
      },
    });
    return this.#takeover;
  }

  /** Adds the Service through which the agent asks itself, where something needs it, and removes it where nothing does. */
  async #placeProbe(feed: ObjectFeed, config: Config, takeover: Takeover): Promise<void> {
    const { datapathCheck, datapathAddresses: addresses, nodeName, mode } = config;
    if (datapathCheck === 'none' && !takeover.needsDatapath(config)) return this.#datapath.close();
    const preferred = feed.node()?.addresses ?? [];
    await this.#datapath.open({ addresses, nodeName, mode, preferred, place: (event) => feed.place(event) });
  }

  async #setOomScore({ oomScoreAdj }: Config): Promise<void> {
    const { log, platform } = this.#options;
    await platform.process.setOomScore(oomScoreAdj).catch((error) => logKeptOomScore(error, log));
  }

  #onFault(fault: Fault): void {
    // One event for each line of the log: thousands would crowd out the events of others.
    if (this.#faults.log(fault)) this.observers?.events.emitFault(fault);
  }
}

interface BuildInput {
  readonly running: RunningFeed;
  readonly observers: Observers;
  readonly takeover: Takeover;
  /** See `ModeInput`. */
  readonly keepsTables: boolean;
  readonly former: Generation | undefined;
  readonly building: AbortSignal;
}

interface StartInput extends Pick<Generation, 'agent' | 'config' | 'running'> {
  readonly observers: Observers;
  readonly takeover: Takeover;
  /** See `ModeInput`. */
  readonly keepsTables: boolean;
  /** The generation that has ended. */
  readonly former: Generation | undefined;
}

/** The settings on which the feed depends: the source, and the objects that it follows. */
function feedSettings({ source, nodeName, mode, featureGates }: Config): object {
  return { source, nodeName, hasServiceCidrs: MODES[mode].usesServiceCidrs, streams: streamsLists(featureGates) };
}
