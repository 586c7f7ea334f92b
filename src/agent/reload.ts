/** One life of the agent's parts after another: a change of the configuration file, of the Node or of this machine builds other parts beside those that work, which take over when they are ready. */

import { KubeconfigUnusable } from '../api/credentials.ts';
import type { Config } from '../config/config.ts';
import { ConfigError, type Flags } from '../config/flags.ts';
import { realClock, unlessAborted } from '../host/clock.ts';
import type { Hangups } from '../host/hangups.ts';
import { IptablesError } from '../host/iptables-tools.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { NftUnusable } from '../host/nftables-kernel.ts';
import { localFamilies } from '../host/node-facts.ts';
import { setOomScore } from '../host/process-settings.ts';
import { keepAlive, notifyReloading } from '../host/supervisor.ts';
import { causeOf } from '../model/cause.ts';
import { sameData } from '../model/equal.ts';
import { createMutex } from '../model/mutex.ts';
import type { Fault } from '../model/objects.ts';
import { ManifestsUnusable } from '../source/manifests/index.ts';
import { FaultLog } from '../telemetry/fault-log.ts';
import { type Log, levelOf } from '../telemetry/log.ts';
import { type Agent, startAgent } from './agent.ts';
import { CannotRun } from './cannot-run.ts';
import { watchConfigFile } from './config-watch.ts';
import { type ObjectFeed, startFeed } from './feed.ts';
import { type Loaded, loadConfig, logNotes } from './load-config.ts';
import { follow, notifyReady } from './run.ts';
import { Serving } from './servers.ts';

/** What a changed configuration may run into: the former one then stays in force. */
const UNUSABLE = [
  ConfigError,
  CannotRun,
  IpvsUnusable,
  NftUnusable,
  IptablesError,
  KubeconfigUnusable,
  ManifestsUnusable,
];

export interface RunOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly hangups: Hangups;
  /** The command line: the file that it names is followed. */
  readonly flags: Flags;
  /** Of what that file said when `config` was made of it. */
  readonly configDigest: string | undefined;
}

/** The source with what stops it. */
interface Followed {
  readonly feed: ObjectFeed;
  readonly config: Config;
  readonly stop: AbortController;
}

/** The parts of the agent as they work now. */
interface Life {
  readonly agent: Agent;
  readonly config: Config;
  readonly followed: Followed;
  readonly stop: AbortController;
  /** Ends after the last write of these parts; rejects when they cannot go on. */
  readonly ended: Promise<void>;
}

/** Milliseconds that another source has for its first lists: then the former configuration stays. */
const FIRST_LISTS = 30_000;

export class Lives {
  readonly #options: RunOptions;
  /** What the command line and the file say now. */
  #wanted: Config;
  /** The Node or this machine changed: the parts must be built again, though nothing else is wanted. */
  #isOutdated = false;
  #wake: () => void = () => undefined;
  #serving: Serving | undefined;
  readonly #faults: FaultLog;
  #isReady = false;
  /** The supervisor was told of a reload, and waits for its end. */
  #isReloading = false;
  /** The file may be read because it changed and because somebody asks for it: one after the other. */
  readonly #mutex = createMutex();

  constructor(options: RunOptions) {
    this.#options = options;
    this.#wanted = options.config;
    this.#faults = new FaultLog({ log: options.log, clock: realClock });
  }

  /** Resolves when the signal aborts. */
  async run(): Promise<void> {
    const { signal, flags, configDigest, hangups } = this.#options;
    const path = flags.config;
    hangups.listen(() => void this.#hangup());
    const watching =
      typeof path === 'string' ? this.#followFile(path, configDigest) : new Promise<never>(() => undefined);
    const lives = this.#live();
    try {
      await Promise.race([lives, watching.then(() => lives)]);
    } finally {
      this.#faults.flush();
      await this.#serving?.close();
    }
    signal.throwIfAborted();
  }

  /** Build what is wanted beside what there is; when it is ready, the one ends and the other begins. */
  async #live(): Promise<void> {
    const { signal } = this.#options;
    let life: Life | undefined;
    while (!signal.aborted) {
      const config = this.#wanted;
      this.#isOutdated = false;
      const before: Life | undefined = life;
      try {
        life = await this.#next(config, before);
      } catch (error) {
        // What is wanted changed while it was built.
        if (!signal.aborted && config !== this.#wanted) continue;
        this.#cannotUse(config, before, error);
      }
      if (life !== undefined) await this.#changed(life);
    }
  }

  /** Parts for this configuration, which work from now on; those of before have ended. */
  async #next(config: Config, before: Life | undefined): Promise<Life> {
    const { signal, log } = this.#options;
    const building = new AbortController();
    this.#wake = () => {
      if (this.#wanted !== config) building.abort(new Error('another configuration is wanted'));
    };
    const followed = await this.#followedFor(config, before, AbortSignal.any([signal, building.signal]));
    const serving = await this.#servingFor(followed.feed, config);
    let agent: Agent;
    try {
      agent = await startAgent(followed.feed, {
        config,
        log,
        isRun: true,
        mustHave: before?.agent.here.families ?? [],
        signal: AbortSignal.any([signal, followed.stop.signal, building.signal]),
        onFault: (fault) => this.#onFault(fault),
        onPorts: serving.onPorts,
        onSweep: serving.onSweep,
      });
    } catch (error) {
      if (followed !== before?.followed) followed.stop.abort();
      throw error;
    }
    this.#wake = () => undefined;
    before?.stop.abort(new Error('other parts take over'));
    await before?.ended.catch(() => undefined);
    if (before !== undefined) agent.sweeper.inherit(before.agent.sweeper.handOver());
    before?.agent.here.close();
    if (before !== undefined && before.followed !== followed) before.followed.stop.abort();
    if (before?.config.oomScoreAdj !== config.oomScoreAdj) await this.#setOomScore(config);
    return this.#begin({
      agent,
      config,
      followed,
      serving,
      isReload: before !== undefined && before.config !== config,
    });
  }

  #begin({ agent, config, followed, serving, isReload }: BeginInput): Life {
    const { log, signal } = this.#options;
    const stop = new AbortController();
    serving.renew();
    serving.use(agent, config);
    if (isReload) {
      serving.reloaded('applied');
      void this.#reloadEnded();
    }
    followed.feed.cache.touchAll();
    const ended = follow(agent, {
      config,
      log,
      signal: AbortSignal.any([signal, stop.signal]),
      serving,
      onSynced: () => void this.#ready(),
      onOutdated: () => {
        this.#isOutdated = true;
        this.#wake();
      },
    });
    // Whoever waits for it hears of it; nobody may at this moment.
    ended.catch(() => undefined);
    return { agent, config, followed, stop, ended };
  }

  /** Resolves when something else is wanted; rejects when the parts cannot go on. */
  async #changed({ config, ended }: Life): Promise<void> {
    const { signal } = this.#options;
    while (this.#wanted === config && !this.#isOutdated) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.race([woken, ended, this.#serving?.failed ?? ended]);
      signal.throwIfAborted();
    }
  }

  /** The configuration cannot be used on this node: the former stays in force, where there is one. */
  #cannotUse(config: Config, before: Life | undefined, error: unknown): void {
    const { log, signal } = this.#options;
    if (signal.aborted || before === undefined || !UNUSABLE.some((kind) => error instanceof kind)) throw error;
    const cause = causeOf(error);
    if (config === before.config) {
      log.warn(`the parts of the agent cannot be built anew: ${cause}; going on as before`);
      return;
    }
    log.error(`the changed configuration cannot be used: ${cause}; the former one stays in force`);
    this.#serving?.reloaded('failed');
    this.#wanted = before.config;
    void this.#reloadEnded();
  }

  /** The source goes on where the configuration names the same; another one must have its lists before it counts. */
  async #followedFor(config: Config, before: Life | undefined, building: AbortSignal): Promise<Followed> {
    const { log, signal } = this.#options;
    const old = before?.followed;
    if (old !== undefined && sameData(followedBy(old.config), followedBy(config))) return old;
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    const onFault = (fault: Fault) => this.#onFault(fault);
    const feed = startFeed({ config, log, follow: true, signal: until, onFault });
    if (old === undefined) return { feed, config, stop };
    const late = AbortSignal.any([building, AbortSignal.timeout(FIRST_LISTS)]);
    try {
      await unlessAborted(feed.synced, late);
    } catch (error) {
      stop.abort();
      if (building.aborted || error !== late.reason) throw error;
      throw new CannotRun(
        `the other source gave no lists of ${feed.cache.waitingFor.join(', ')} within ${FIRST_LISTS / 1000} s`,
      );
    }
    return { feed, config, stop };
  }

  async #servingFor(feed: ObjectFeed, config: Config): Promise<Serving> {
    if (this.#serving !== undefined) return this.#serving;
    const { log, signal } = this.#options;
    const serving = new Serving(config, feed, { log, signal, expected: await localFamilies() });
    this.#serving = serving;
    serving.start();
    serving.emitNodeEvent({ type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', note: '' });
    void keepAlive(signal, (error) => log.warn(`cannot tell the supervisor that the agent lives: ${causeOf(error)}`));
    return serving;
  }

  async #setOomScore({ oomScoreAdj }: Config): Promise<void> {
    const { log } = this.#options;
    await setOomScore(oomScoreAdj).catch((error) => log.info(`oom_score_adj stays as it is: ${causeOf(error)}`));
  }

  #onFault(fault: Fault): void {
    // Who hears of it by an event hears of what the log tells: thousands would crowd out those of others.
    if (this.#faults.tell(fault)) this.#serving?.onFault(fault);
  }

  async #ready(): Promise<void> {
    if (this.#isReady) return;
    this.#isReady = true;
    await notifyReady(this.#options.log);
  }

  async #followFile(path: string, before: string | undefined): Promise<void> {
    const { log, signal } = this.#options;
    const onChange = async () => {
      await this.#mutex(() => this.#readAgain(path));
    };
    const warn = (text: string) => log.warn(text);
    await watchConfigFile(path, { clock: realClock, signal, before, onChange, warn });
  }

  /** SIGHUP: somebody asks for the file to be read, and wants to hear what came of it. */
  async #hangup(): Promise<void> {
    const { log, signal, flags } = this.#options;
    const path = flags.config;
    if (signal.aborted) return;
    if (typeof path !== 'string') {
      log.info(
        'SIGHUP: there is nothing to reload, since no file is named by --config; flags count from the next start',
      );
      return;
    }
    log.info({ file: path }, 'SIGHUP: reading the configuration again');
    await this.#mutex(async () => {
      await this.#reloadBegins();
      const outcome = await this.#readAgain(path);
      if (outcome === 'unchanged')
        log.info({ file: path }, 'the configuration says what it said before: nothing to do');
      if (outcome !== 'building') await this.#reloadEnded();
    });
  }

  /** Resolves with what follows from the file as it is now. */
  async #readAgain(path: string): Promise<'building' | 'refused' | 'unchanged'> {
    const { log, flags } = this.#options;
    let loaded: Loaded;
    try {
      loaded = await loadConfig(flags);
    } catch (error) {
      log.error(
        { file: path },
        `the changed configuration is refused: ${causeOf(error)}; the former one stays in force`,
      );
      this.#serving?.reloaded('refused');
      return 'refused';
    }
    logNotes(loaded, log);
    const { config } = loaded;
    if (sameData(config, this.#wanted)) {
      this.#serving?.reloaded('unchanged');
      return 'unchanged';
    }
    if (config.log.format !== this.#wanted.log.format)
      log.warn('logging.format changed: the log keeps its form until the next start');
    log.level = levelOf(config.log.verbosity);
    log.info(
      { file: path },
      'the configuration changed: building the parts of the agent anew; the rules stand meanwhile',
    );
    this.#wanted = config;
    this.#wake();
    return 'building';
  }

  /** The supervisor waits for the first sync until then: it is not told of reloads. */
  async #reloadBegins(): Promise<void> {
    if (!this.#isReady) return;
    this.#isReloading = true;
    await notifyReloading().catch((error) =>
      this.#options.log.warn(`cannot tell the supervisor that the agent reloads: ${causeOf(error)}`),
    );
  }

  async #reloadEnded(): Promise<void> {
    if (!this.#isReloading) return;
    this.#isReloading = false;
    await notifyReady(this.#options.log);
  }
}

interface BeginInput extends Pick<Life, 'agent' | 'config' | 'followed'> {
  readonly serving: Serving;
  readonly isReload: boolean;
}

/** What decides which objects are followed, and where. */
function followedBy({ source, nodeName, mode }: Config): object {
  return { source, nodeName, hasServiceCidrs: mode === 'nftables' };
}
