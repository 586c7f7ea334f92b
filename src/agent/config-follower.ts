/** The configuration that is wanted: reads the file that --config names again when it changes, and on SIGHUP. */

import { causeOf } from '../base/cause.ts';
import { realClock, sleep } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import { createMutex } from '../base/mutex.ts';
import { AUTO, type Config } from '../config/config.ts';
import type { Flags } from '../config/flags.ts';
import { type Log, levelOf } from '../telemetry/log.ts';
import { modeChooser } from './choose-mode.ts';
import { watchConfigFile } from './config-watch.ts';
import { type ChooseMode, ConfigUnreadable, type LoadedConfig, loadConfig, logNotes } from './load-config.ts';
import type { ReloadResult } from './metrics-feed.ts';
import type { Platform } from './platform.ts';
import type { SupervisorState } from './supervisor-state.ts';

export interface ConfigFollowerOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The command line: its --config names the file. */
  readonly flags: Flags;
  /** Digest of the file as `config` was read from it. */
  readonly configDigest: string | undefined;
  readonly supervisor: SupervisorState;
  /** Another configuration is wanted. */
  readonly onWanted: () => void;
  /** The file was read again, without another configuration to build. */
  readonly onResult: (result: ReloadResult) => void;
  readonly platform: Platform;
}

export class ConfigFollower {
  readonly #options: ConfigFollowerOptions;
  #wanted: Config;
  /** Aborts when the file no longer asks for the wanted configuration, or for the one that is tried again later. */
  #waiting = new AbortController();
  #lastFailure: string | undefined;
  /** A change of the file and a SIGHUP may come together; the file is read once at a time. */
  readonly #mutex = createMutex();

  constructor(options: ConfigFollowerOptions) {
    this.#options = options;
    this.#wanted = options.config;
  }

  /** The configuration of the command line and the file now. */
  get wanted(): Config {
    return this.#wanted;
  }

  /** Why the wanted configuration could not be used at the last try; undefined when the file or SIGHUP asks for this try. */
  get lastFailure(): string | undefined {
    return this.#lastFailure;
  }

  /**
   * The wanted configuration cannot be used: want the former one again. `pause`: milliseconds after which the other one is wanted
   * again, unless the file changes meanwhile; undefined: it is wrong for good.
   */
  revert(former: Config, cause: string, pause?: number): void {
    const failed = this.#wanted;
    // The file was refused meanwhile: it asks for this configuration no longer.
    const isOver = this.#waiting.signal.aborted;
    this.#want(former);
    if (pause !== undefined && !isOver) void this.#wantLater(failed, cause, pause);
  }

  #want(config: Config, lastFailure?: string): void {
    this.#waiting.abort();
    this.#waiting = new AbortController();
    this.#wanted = config;
    this.#lastFailure = lastFailure;
  }

  async #wantLater(config: Config, cause: string, pause: number): Promise<void> {
    const { signal, onWanted } = this.#options;
    try {
      await sleep(realClock, pause, AbortSignal.any([signal, this.#waiting.signal]));
    } catch {
      // The agent stops, or the file changed.
      return;
    }
    this.#want(config, cause);
    onWanted();
  }

  /** Follow the file until the signal aborts; without a file, never resolves. */
  async run(): Promise<void> {
    const { log, signal, configDigest, platform } = this.#options;
    const path = this.#path;
    if (path === undefined) return await new Promise<never>(() => undefined);
    const onChange = async () => {
      await this.#mutex(() => this.#readAgain(path));
    };
    const warn = (text: string) => log.warn(text);
    await watchConfigFile(path, {
      clock: realClock,
      signal,
      before: configDigest,
      onChange,
      warn,
      files: platform.files,
    });
  }

  /** SIGHUP: read the file again, and log the result also when nothing changed. */
  async hangup(): Promise<void> {
    const { log, signal, supervisor } = this.#options;
    const path = this.#path;
    if (signal.aborted) return;
    if (path === undefined) {
      log.info('SIGHUP: nothing to reload without --config; changed flags need a restart');
      return;
    }
    log.info({ file: path }, 'SIGHUP: reading the configuration again');
    await this.#mutex(async () => {
      await supervisor.reloadBegins();
      const outcome = await this.#readAgain(path);
      if (outcome === 'unchanged') log.info({ file: path }, 'the configuration is unchanged: nothing to do');
      if (outcome !== 'building') await supervisor.reloadEnded();
    });
  }

  /** What was chosen once stays: the rules of that mode stand now. */
  readonly #choose: ChooseMode = async (ofModes) => {
    const { signal, platform } = this.#options;
    const { mode, modeChoice } = this.#wanted;
    if (modeChoice.by === AUTO && modeChoice.why !== undefined) return { mode, why: modeChoice.why };
    return await modeChooser(signal, platform)(ofModes);
  };

  get #path(): string | undefined {
    const { config: path } = this.#options.flags;
    return typeof path === 'string' ? path : undefined;
  }

  async #readAgain(path: string): Promise<'building' | 'refused' | 'unchanged'> {
    const { log, flags, onWanted, onResult, platform } = this.#options;
    let loaded: LoadedConfig;
    try {
      loaded = await loadConfig(flags, platform.files.readOne, this.#choose);
    } catch (error) {
      // A file that cannot be read now may be the same as before.
      if (!(error instanceof ConfigUnreadable)) this.#waiting.abort();
      log.error(
        { file: path },
        `the changed configuration is refused: ${causeOf(error)}; the former one stays in force`,
      );
      onResult('refused');
      return 'refused';
    }
    logNotes(loaded, log);
    const { config } = loaded;
    if (sameData(config, this.#wanted)) {
      // The former configuration again, or the one that is tried now.
      this.#want(this.#wanted, this.#lastFailure);
      onResult('unchanged');
      return 'unchanged';
    }
    if (config.log.format !== this.#wanted.log.format)
      log.warn('logging.format changed: the log keeps its format until the next start');
    log.level = levelOf(config.log.verbosity);
    log.info(
      { file: path },
      'the configuration changed: preparing the agent for it; the rules stay as they are until then',
    );
    this.#want(config);
    onWanted();
    return 'building';
  }
}
