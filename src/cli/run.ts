/** `slicewire run`: the agent. A change of its configuration file, of the Node or of this machine builds its parts anew in place: the rules stand meanwhile. */
import { type Config, ConfigError, type Flags } from '../config/config.ts';
import { sleep } from '../host/clock.ts';
import { IptablesError } from '../host/iptables-tools.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { setOomScore } from '../host/process-settings.ts';
import { keepAlive } from '../host/supervisor.ts';
import { causeOf } from '../model/cause.ts';
import { sameData } from '../model/equal.ts';
import type { Fault } from '../model/objects.ts';
import { KubeconfigUnusable } from '../source/kubernetes/index.ts';
import { ManifestsUnusable } from '../source/manifests/index.ts';
import { type Log, levelOf } from '../telemetry/log.ts';
import { type Agent, CannotRun, startAgent, tellFault } from './agent.ts';
import { watchConfigFile } from './config-watch.ts';
import { faultCounts } from './faults.ts';
import { follow, tellReady } from './follow.ts';
import { type Loaded, loadConfig, tellNotes } from './prepare.ts';
import { tellReport, tellSteps } from './reports.ts';
import { Serving } from './serving.ts';
import { startWorld, type World } from './world.ts';

/** With --once, milliseconds between tries until everything is applied. */
const ONCE_RETRY = 1000;
/** With --once, tries before giving up. */
const ONCE_TRIES = 5;
/** What a changed configuration may run into: the former one then stays in force. */
const UNUSABLE = [ConfigError, CannotRun, IpvsUnusable, IptablesError, KubeconfigUnusable, ManifestsUnusable];

export interface RunOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The command line: the file that it names is followed. */
  readonly flags: Flags;
}

/** Resolves with the exit status. Stopping removes nothing (invariant 10). */
export async function runCommand({ config, log, signal, flags }: RunOptions): Promise<number> {
  log.info({ node: config.nodeName, mode: config.mode, source: config.source }, 'starting');
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  try {
    if (config.once) return await syncOnce(config, log, until);
    await new Run({ config, log, signal: until, flags }).run();
    log.info('stopped; the rules stay in place');
    return 0;
  } catch (error) {
    if (signal.aborted && !config.once) {
      log.info('stopped; the rules stay in place');
      return 0;
    }
    throw error;
  } finally {
    own.abort();
  }
}

async function syncOnce(config: Config, log: Log, signal: AbortSignal): Promise<number> {
  const onFault = (fault: Fault) => tellFault(fault, log);
  const world = startWorld({ config, log, follow: false, signal, onFault });
  const agent = await startAgent(world, { config, log, isRun: true, signal, onFault });
  tellSteps(agent.mode, log);
  for (let tries = 1; ; tries++) {
    const report = await agent.loop.sync(signal);
    tellReport(report, log, { isFirst: true, faults: faultCounts(agent) });
    if (report.outcome === 'complete') return (await sweepOnce(agent, signal)) ? 0 : 1;
    if (tries === ONCE_TRIES) return 1;
    agent.loop.distrust();
    await sleep(agent.clock, ONCE_RETRY, signal);
  }
}

/** Whether the stale flows are gone; a table that changes all the time is taken as it was seen last. */
async function sweepOnce({ sweeper, clock }: Agent, signal: AbortSignal): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    const { outcome } = await sweeper.sweep(signal);
    if (outcome === 'complete') return true;
    if (tries === ONCE_TRIES) return outcome === 'changed';
    await sleep(clock, ONCE_RETRY, signal);
  }
}

/** The source with what stops it. */
interface Followed {
  readonly world: World;
  readonly config: Config;
  readonly stop: AbortController;
}

/** What comes after one life of the parts: the same again, or another configuration. */
interface Next {
  readonly config: Config;
  /** To go back to when it cannot be used. */
  readonly before: Config | undefined;
}

class Run {
  readonly #options: RunOptions;
  #followed: Followed | undefined;
  #serving: Serving | undefined;
  #isReady = false;
  /** Ends the life of the parts that there are now. */
  #change: (next: Next) => void = () => undefined;
  #config: Config;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#config = options.config;
  }

  /** Resolves when the signal aborts. */
  async run(): Promise<void> {
    const { config, log, signal, flags } = this.#options;
    await setOomScore(config.oomScoreAdj).catch((error) => log.info(`oom_score_adj stays as it is: ${causeOf(error)}`));
    const watching =
      typeof flags.config === 'string' ? this.#followFile(flags.config) : new Promise<never>(() => undefined);
    const lives = this.#live({ config, before: undefined });
    try {
      await Promise.race([lives, watching.then(() => lives)]);
    } finally {
      await this.#serving?.close();
    }
    signal.throwIfAborted();
  }

  /** One life after another. */
  async #live(first: Next): Promise<void> {
    const { signal, log } = this.#options;
    for (let next = first; !signal.aborted; ) {
      try {
        next = await this.#oneLife(next);
      } catch (error) {
        const { before } = next;
        if (signal.aborted || before === undefined || !UNUSABLE.some((kind) => error instanceof kind)) throw error;
        log.error(`the changed configuration cannot be used: ${causeOf(error)}; the former one stays in force`);
        this.#serving?.reloaded('failed');
        next = { config: before, before: undefined };
      }
    }
  }

  async #oneLife({ config, before }: Next): Promise<Next> {
    const { log, signal } = this.#options;
    const own = new AbortController();
    const until = AbortSignal.any([signal, own.signal]);
    let followed: Followed | undefined;
    const changed = new Promise<Next>((resolve) => {
      this.#change = (next) => {
        resolve(next);
        own.abort(new Error('the configuration changed'));
      };
    });
    try {
      followed = this.#worldFor(config);
      const { world } = followed;
      const serving = this.#servingFor(world, config);
      serving.renew();
      const agent = await startAgent(world, {
        config,
        log,
        isRun: true,
        signal: AbortSignal.any([until, followed.stop.signal]),
        onFault: (fault) => this.#onFault(fault),
        onPorts: serving.onPorts,
        onSweep: serving.onSweep,
      });
      if (this.#followed !== followed) this.#followed?.stop.abort();
      this.#followed = followed;
      serving.use(agent, config);
      this.#config = config;
      if (before !== undefined) serving.reloaded('applied');
      const options = { config, log, signal: until, serving };
      const living = follow(agent, {
        ...options,
        onSynced: () => void this.#ready(),
        onOutdated: () => this.#change({ config, before: undefined }),
      });
      await Promise.race([living, serving.failed]);
    } catch (error) {
      if (this.#followed !== followed) followed?.stop.abort();
      if (!own.signal.aborted || signal.aborted) throw error;
    }
    signal.throwIfAborted();
    return await changed;
  }

  /** The source goes on where the configuration names the same. */
  #worldFor(config: Config): Followed {
    const before = this.#followed;
    const isSame =
      before !== undefined &&
      sameData(before.config.source, config.source) &&
      before.config.nodeName === config.nodeName;
    if (isSame) return before;
    const { log, signal } = this.#options;
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    const world = startWorld({
      config,
      log,
      follow: true,
      signal: until,
      onFault: (fault) => this.#onFault(fault),
    });
    return { world, config, stop };
  }

  #servingFor(world: World, config: Config): Serving {
    if (this.#serving !== undefined) return this.#serving;
    const { log, signal } = this.#options;
    const serving = new Serving(config, world, { log, signal });
    this.#serving = serving;
    serving.start();
    serving.tellNode({ type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', note: '' });
    keepAlive(signal).catch((error) => log.warn(`cannot tell the supervisor that the agent lives: ${causeOf(error)}`));
    return serving;
  }

  #onFault(fault: Fault): void {
    tellFault(fault, this.#options.log);
    this.#serving?.onFault(fault);
  }

  async #ready(): Promise<void> {
    if (this.#isReady) return;
    this.#isReady = true;
    await tellReady(this.#options.log);
  }

  async #followFile(path: string): Promise<void> {
    const { log, signal, flags } = this.#options;
    const { realClock } = await import('../host/clock.ts');
    const onChange = async () => {
      let loaded: Loaded;
      try {
        loaded = await loadConfig(flags);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        log.error(
          { file: path },
          `the changed configuration is refused: ${error.message}; the former one stays in force`,
        );
        this.#serving?.reloaded('refused');
        return;
      }
      tellNotes(loaded, log);
      log.level = levelOf(loaded.config.log.verbosity);
      if (sameData(loaded.config, this.#config)) {
        this.#serving?.reloaded('unchanged');
        return;
      }
      log.info(
        { file: path },
        'the configuration changed: building the parts of the agent anew; the rules stand meanwhile',
      );
      this.#change({ config: loaded.config, before: this.#config });
    };
    await watchConfigFile(path, { clock: realClock, signal, onChange });
  }
}
