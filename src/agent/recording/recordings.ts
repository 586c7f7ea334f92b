/** The recordings of an agent: its flight recorder, and the folder of --record-dir, which follows the configuration. */

import { release } from 'node:os';
import { causeOf } from '../../base/cause.ts';
import { realClock } from '../../base/clock.ts';
import { sameData } from '../../base/equal.ts';
import type { Config } from '../../config/config.ts';
import { fileFromConfig } from '../../config/config-file.ts';
import { servesExternalIPs } from '../../config/feature-gates.ts';
import { version } from '../../config/program-version.ts';
import { guarded, type Recorder, type RecorderHooks } from '../../inspect/history/recorder.ts';
import type { RecordingContext } from '../../inspect/history/recording-writer.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Agent } from '../agent.ts';
import { HistoryArchive } from './history-archive.ts';
import { RecordFolder } from './record-folder.ts';

export class Recordings {
  readonly recorder: Recorder;
  /** The recorder for the agent, which goes on when it fails. */
  readonly hooks: RecorderHooks;
  /** Answers about the past, also from the folder. */
  readonly archive: HistoryArchive;
  readonly #log: Log;
  #fault: string | undefined;
  #folder: RecordFolder | undefined;
  #present: { readonly agent: Agent; readonly config: Config } | undefined;

  constructor(recorder: Recorder, log: Log) {
    this.recorder = recorder;
    this.#log = log;
    this.hooks = guarded(recorder, (error) => {
      this.#fault = causeOf(error);
      log.error(
        `the flight recorder stopped: ${this.#fault}; the proxy goes on, and history ends here until a restart`,
      );
    });
    const onProblem = (text: string) => log.warn(`--record-dir: ${text}`);
    this.archive = new HistoryArchive({ recorder, folder: () => this.#folder, onProblem });
  }

  /** Why nothing is recorded any more; undefined while it is. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /**
   * These parts are in use from now on: recordings begin anew, because other settings make other plans. Call it while no sync runs;
   * resolves when the next one will be recorded.
   */
  async use(agent: Agent, config: Config): Promise<void> {
    const former = this.#present?.config.recording;
    this.#present = { agent, config };
    this.recorder.sinks.restart();
    if (sameData(former, config.recording)) return;
    await this.#open(config).catch((error) => this.#log.error(causeOf(error)));
  }

  /** Resolves when everything is written. */
  async close(): Promise<void> {
    await this.#folder?.stop();
    this.#folder = undefined;
  }

  async #open({ recording }: Config): Promise<void> {
    await this.close();
    const present = this.#present;
    if (recording === undefined || present === undefined) return;
    const { folder: path, size } = recording;
    const now = () => this.#present ?? present;
    const context = recordingContext(
      () => now().agent,
      () => now().config,
    );
    const options = { path, size, recorder: this.recorder, context, clock: realClock, log: this.#log };
    const folder = await RecordFolder.open(options);
    this.#folder = folder;
    await folder.start();
  }
}

// What recordings of this agent say about it.

/** The functions return the agent and the configuration in use: a reload replaces them, and recordings begin anew then. */
export function recordingContext(agent: () => Agent, config: () => Config): RecordingContext {
  return {
    parts() {
      const now = config();
      return {
        version: version(),
        kernel: release(),
        nodeName: now.nodeName,
        servesExternalIPs: servesExternalIPs(now.featureGates),
        ...agent().onNode.recorded,
        config: fileFromConfig(now),
      };
    },
    isWaiting: () => agent().mode.isWaiting,
    wall: () => realClock.wall(),
  };
}
