/** Follows the wanted configuration: reads the file that --config names again when it changes, and on SIGHUP. */

import { dirname } from 'node:path';
import { causeOf } from '../base/cause.ts';
import { type Clock, realClock, sleep, unlessAborted } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import { createMutex } from '../base/mutex.ts';
import { type FolderWatch, unwatchedText } from '../cluster/source/watch-folder.ts';
import { AUTO, type Config } from '../config/config.ts';
import type { Flags } from '../config/flags.ts';
import { type Log, levelOf } from '../telemetry/log.ts';
import { modeChooser } from './choose-mode.ts';
import { type ChooseMode, ConfigUnreadable, type LoadedConfig, loadConfig, logNotes } from './load-config.ts';
import type { ReloadResult } from './metrics-feed.ts';
import { type Files, type Platform, realPlatform } from './platform.ts';
import type { SupervisorState } from './supervisor-state.ts';

interface ConfigFollowerOptions {
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
  /** Digest of the file as it was read last, after an event or a SIGHUP. */
  #read: string | undefined;
  /** A change of the file and a SIGHUP may come together; the file is read once at a time. */
  readonly #mutex = createMutex();

  constructor(options: ConfigFollowerOptions) {
    this.#options = options;
    this.#wanted = options.config;
    this.#read = options.configDigest;
  }

  /** The configuration of the command line and the file now. */
  get wanted(): Config {
    return this.#wanted;
  }

  /** The cause why the last try of the wanted configuration failed; undefined at the first try after a change of the file or a SIGHUP. */
  get lastFailure(): string | undefined {
    return this.#lastFailure;
  }

  /**
   * Return to the former configuration, because the wanted one cannot be used. After `pause` milliseconds the failed one is tried again,
   * unless the file changes meanwhile. Without `pause` it is not tried again.
   */
  revert(former: Config, cause: string, pause?: number): void {
    const failed = this.#wanted;
    // The file was refused meanwhile, so it no longer asks for this configuration.
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
    const { log, signal, platform } = this.#options;
    const path = this.#path;
    if (path === undefined) return await new Promise<never>(() => undefined);
    const onChange = async () => void (await this.#mutex(() => this.#readAgain(path)));
    const warn = (text: string) => log.warn(text);
    await watchConfigFile(path, {
      clock: realClock,
      signal,
      read: () => this.#read,
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

  /** An automatic choice stays as it was made, because the kernel has the rules of that mode now. */
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
    const readOne: Files['readOne'] = async (of) => {
      const file = await platform.files.readOne(of);
      this.#read = file.digest;
      return file;
    };
    try {
      loaded = await loadConfig(flags, readOne, this.#choose);
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

/** Milliseconds from the first event to reading: one save makes several events. */
const SETTLE_MS = 100;
/** Milliseconds between two checks of the file, for changes without an event. */
const CHECK_INTERVAL_MS = 10_000;

interface ConfigWatch {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Digest of the file as it was read last. Where `onChange` cannot read it, this stays, and the change counts at the next check. */
  readonly read: () => string | undefined;
  readonly onChange: () => Promise<void>;
  readonly warn: (text: string) => void;
  readonly files?: Pick<Files, 'readOne' | 'watch'>;
}

/**
 * Calls `onChange` after each change of the content, until the signal aborts. It watches the folder and compares the content, because a
 * ConfigMap changes by a symbolic link beside the file, and editors replace files. A missing or unreadable file causes a warning alone.
 */
export async function watchConfigFile(path: string, options: ConfigWatch): Promise<void> {
  const { clock, signal, read, onChange, warn, files = realPlatform.files } = options;
  // Check at once: the file may have changed since it was read, before the watch began.
  let isFirst = true;
  let isReported = false;
  let wake = () => {};
  let isUnreadable = false;
  const onEvent = () => {
    isReported = true;
    wake();
  };
  const watcher = startWatch(files, dirname(path), onEvent, (text) => warn(`--config ${path}: ${text}`));
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (!isFirst && !isReported) await Promise.race([woken, sleep(clock, CHECK_INTERVAL_MS, signal)]);
      isFirst = false;
      await sleep(clock, SETTLE_MS, signal);
      isReported = false;
      const now = await unlessAborted(digestOf(path, files), signal);
      // One warning; none for an editor that is replacing the file, which makes another event.
      if ('problem' in now && !isUnreadable && !isReported)
        warn(`--config ${path}: cannot be read: ${now.problem}; the former configuration stays in force`);
      isUnreadable = 'problem' in now;
      // The end of the agent does not wait for a file that hangs.
      if (!('problem' in now) && now.digest !== read()) await unlessAborted(onChange(), signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    watcher?.close();
  }
}

/**
 * undefined where the folder cannot be watched; the periodic check remains. Call it after the file was read: on a dead mount it would block
 * the event loop.
 */
function startWatch(
  files: Pick<Files, 'watch'>,
  folder: string,
  call: () => void,
  warn: (text: string) => void,
): FolderWatch | undefined {
  try {
    const watcher = files.watch(folder, call);
    watcher.onEnd(() => watcher.close());
    return watcher;
  } catch (error) {
    warn(unwatchedText(error, CHECK_INTERVAL_MS));
    return undefined;
  }
}

async function digestOf(
  path: string,
  files: Pick<Files, 'readOne'>,
): Promise<{ readonly digest: string } | { readonly problem: string }> {
  try {
    return await files.readOne(path);
  } catch (error) {
    return { problem: causeOf(error) };
  }
}
