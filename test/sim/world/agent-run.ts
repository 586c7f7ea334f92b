/** The real agent in a simulated process: what `slicewire run` does after its flags are read. */
import { modeChooser } from '../../../src/agent/choose-mode.ts';
import { loadConfig } from '../../../src/agent/load-config.ts';
import type { Platform } from '../../../src/agent/platform.ts';
import { syncOnce } from '../../../src/agent/run-once.ts';
import { runAlone } from '../../../src/agent/singleton.ts';
import type { Flags } from '../../../src/config/flags.ts';
import { Hangups } from '../../../src/kernel/process.ts';
import { type Log, logInto } from '../../../src/telemetry/log.ts';
import type { SimProcess } from '../engine/process.ts';

export interface AgentRun {
  readonly process: SimProcess;
  /** How it ended; undefined while it runs. */
  readonly end: () => { readonly error: unknown } | undefined;
  /** As SIGTERM. */
  stop(): void;
  /** As SIGHUP. */
  hangUp(): void;
}

export interface AgentInput {
  readonly process: SimProcess;
  readonly platform: Platform;
  readonly flags: Flags;
  /** One sync, and the end. */
  readonly isOnce?: boolean;
  readonly onLine: (line: string) => void;
  readonly onEnd: (error: unknown) => void;
}

/** Starts the agent. */
export function startAgent({ process, platform, flags, isOnce = false, onLine, onEnd }: AgentInput): AgentRun {
  const log = logLines(onLine);
  let hangups: Hangups | undefined;
  const program = startProgram({ process, onEnd }, (signal, stop) => {
    hangups = new Hangups(() => stop('SIGHUP'));
    return isOnce ? once({ platform, flags, log, signal }) : run({ platform, flags, log, hangups, signal });
  });
  return { ...program, hangUp: () => process.run(() => hangups?.received()) };
}

/** A program in a simulated process: `main` gets the signal that SIGTERM aborts, and how another signal ends it. */
export function startProgram(
  { process, onEnd }: Pick<AgentInput, 'process' | 'onEnd'>,
  main: (signal: AbortSignal, stop: (name: string) => void) => Promise<void>,
): Omit<AgentRun, 'hangUp'> {
  return process.run(() => {
    const stopping = new AbortController();
    const stop = (name: string) => stopping.abort(new Error(name));
    let end: { error: unknown } | undefined;
    const ended = (error: unknown) => {
      if (process.isDead || end !== undefined) return;
      end = { error };
      onEnd(error);
    };
    main(stopping.signal, stop).then(
      () => ended(undefined),
      (error: unknown) => ended(stopping.signal.aborted ? undefined : error),
    );
    return { process, end: () => end, stop: () => process.run(() => stop('SIGTERM')) };
  });
}

interface RunInput {
  readonly platform: Platform;
  readonly flags: Flags;
  readonly log: Log;
  readonly signal: AbortSignal;
}

async function run({ platform, flags, log, signal, hangups }: RunInput & { readonly hangups: Hangups }): Promise<void> {
  const { config, digest } = await loadConfig(flags, platform.files.readOne, modeChooser(signal, platform));
  const own = new AbortController();
  try {
    const until = AbortSignal.any([signal, own.signal]);
    await runAlone({ config, log, signal: until, hangups, flags, configDigest: digest, platform });
  } finally {
    own.abort(new Error('the command ended'));
  }
}

async function once({ platform, flags, log, signal }: RunInput): Promise<void> {
  const { config } = await loadConfig(flags, platform.files.readOne, modeChooser(signal, platform));
  const own = new AbortController();
  try {
    await syncOnce({ ...config, once: true }, log, AbortSignal.any([signal, own.signal]), platform);
  } finally {
    own.abort(new Error('the command ended'));
  }
}

/** A log whose lines go to a function, each sync with one. */
export function logLines(onLine: (line: string) => void): Log {
  return logInto({ write: (line: string) => onLine(line.trimEnd()) }, 'v2');
}
