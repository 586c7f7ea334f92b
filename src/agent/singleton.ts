/**
 * One agent in a network namespace, because two would each take the other's rules for drift. The second one names the agent that is running,
 * and exits before it writes anything. A process of another user that took the name only causes a warning.
 */

import { causeOf } from '../base/cause.ts';
import { type Clock, realClock, sleep } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import { Recorder } from '../inspect/history/recorder.ts';
import { cutText } from '../inspect/wire/format.ts';
import type { HeldName, NameService, PeerCredentials } from '../kernel/agent-name.ts';
import type { ModeName } from '../proxy/model/modes.ts';
import type { Log } from '../telemetry/log.ts';
import { CannotRun } from './cannot-run.ts';
import { Recordings } from './recording/recordings.ts';
import { Reloader, type RunOptions } from './reload.ts';
import { startReportFor } from './start-report.ts';

const RETRY_MS = 50;
/** A name may be held without an answer for this time, because a killed process frees it only when its memory is freed. */
const SILENCE_TIMEOUT_MS = 1000;
/** Limit for an agent that received the signal to end. Its alarm ends it after 12 s. */
const STOP_TIMEOUT_MS = 20_000;
/** Interval at which an agent without the name tries again to take it. */
const TAKE_RETRY_MS = 10_000;

export interface NameOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly names: NameService;
  readonly mode: () => ModeName;
  /** Called when another process asks for the holder of the name: `run --once` does so before and after it writes. */
  readonly onAsked?: () => void;
}

/** Run the agent, alone in its network namespace, until the signal aborts. Rejects with CannotRun when another one runs. */
export async function runAlone(options: Omit<RunOptions, 'recordings' | 'timesAsked'>): Promise<void> {
  const { log, signal, platform } = options;
  const { names } = platform.process;
  let { mode } = options.config;
  let asked = 0;
  const onAsked = () => {
    asked += 1;
  };
  // Held until the process ends, because a write to the kernel may still go on even after an error.
  await holdName({ log, clock: realClock, signal, names, mode: () => mode, onAsked });
  const recordings = new Recordings({ recorder: new Recorder(realClock), log, files: platform.files.recordings });
  const onConfig = (config: Config) => {
    mode = config.mode;
  };
  const startReport = startReportFor(options.flags, log);
  await new Reloader({ ...options, recordings, onConfig, startReport, timesAsked: () => asked }).run();
}

/**
 * For `run --once`, which may run beside an agent of the same mode: each of two modes would remove the rules of the other. Rejects with
 * CannotRun where an agent of another mode runs. `hasWritten`: it wrote already. The agent takes the question for a sign that its rules may
 * have been written, and reads them (`KernelWatch`).
 */
export async function mustHaveModeOfAgent(
  names: NameService,
  mode: ModeName,
  { hasWritten = false }: { readonly hasWritten?: boolean } = {},
): Promise<void> {
  const { MAX_HOLDER_BYTES, readHolder } = await import('../inspect/wire/agent-lock.ts');
  const answer = await names.ask({ patience: SILENCE_TIMEOUT_MS, maxLength: MAX_HOLDER_BYTES });
  if (answer.kind === 'no connection' || isOfOtherUser(answer.peer, names)) return;
  if (answer.kind === 'silent') {
    // The writes were allowed when they began. A silent agent does not tell its mode of now.
    if (hasWritten) return;
    throw new CannotRun(`${silenceText(answer.peer)} --once wrote no rules, and exits`);
  }
  const holder = answer.kind === 'line' ? readHolder(answer.line) : undefined;
  if (holder === undefined || holder.isStopping || holder.mode === mode) return;
  const agent = `the agent of this node (pid ${pidText(answer.peer, holder.pid)})`;
  if (hasWritten)
    throw new CannotRun(
      `${agent} runs in ${holder.mode} mode now, and --once wrote rules of ${mode} mode: both may be in the kernel. The agent removes those of ${mode} mode within an hour. To remove them at once, restart it (systemctl restart slicewire, or delete its Pod)`,
    );
  throw new CannotRun(
    `${agent} runs in ${holder.mode} mode, and --once would write the rules of ${mode} mode beside it. It wrote no rules, and exits: use --mode=${holder.mode}, or stop the agent first (systemctl stop slicewire, or delete its Pod)`,
  );
}

/** Take the name of this network namespace. Rejects with CannotRun when another agent has it, with the signal's reason when it aborts. */
export async function holdName(options: NameOptions): Promise<HeldName> {
  const { names, log, clock, signal } = options;
  const line = ownLine(options, clock.wall());
  const waits: Waits = { silentSince: undefined, stoppingSince: undefined };
  for (;;) {
    let held: HeldName | undefined;
    try {
      held = await names.take(line);
    } catch (error) {
      log.warn(`cannot make sure that this is the only agent of the node: ${causeOf(error)}; going on without that`);
      return { release: () => Promise.resolve() };
    }
    if (held !== undefined) return held;
    const warning = await foreignHolder(options, waits);
    if (warning !== undefined) {
      log.warn(warning);
      return takeLater(options, line);
    }
    await sleep(clock, RETRY_MS, signal);
  }
}

/** Times since which a state lasts without a break. */
interface Waits {
  /** The name is not free, and its holder does not answer. */
  silentSince: number | undefined;
  /** An agent that ends has the name. */
  stoppingSince: number | undefined;
}

/** The warning about a holder that is no agent; undefined to try again. Rejects with CannotRun when an agent holds the name, or may. */
async function foreignHolder({ names, log, clock }: NameOptions, waits: Waits): Promise<string | undefined> {
  // Loaded only here: an agent that is alone needs no schema.
  const { MAX_HOLDER_BYTES, readHolder } = await import('../inspect/wire/agent-lock.ts');
  const answer = await names.ask({ patience: SILENCE_TIMEOUT_MS, maxLength: MAX_HOLDER_BYTES });
  const now = clock.now();
  const isSilent = answer.kind === 'no connection' || answer.kind === 'closed';
  waits.silentSince = isSilent ? (waits.silentSince ?? now) : undefined;
  const mayStillAnswer = isSilent && now - (waits.silentSince ?? now) < SILENCE_TIMEOUT_MS;
  if (answer.kind === 'no connection') {
    if (mayStillAnswer) return undefined;
    return `a process holds the name of this node's agent, the abstract Unix socket @slicewire, and takes no connections (${answer.cause}): no agent does that. ${GOES_ON}`;
  }
  const { peer } = answer;
  if (peer !== undefined && isOfOtherUser(peer, names)) {
    return `${processText(peer)} holds the name of this node's agent, the abstract Unix socket @slicewire, and runs as another user. ${GOES_ON}`;
  }
  if (mayStillAnswer) return undefined;
  if (answer.kind !== 'line') {
    throw new CannotRun(`${silenceText(peer)} ${ENDS}`);
  }
  const holder = readHolder(answer.line);
  if (holder === undefined) {
    throw new CannotRun(
      `${processText(peer)} holds the name of this node's agent, and its answer is not that of an agent: ${shown(answer.line)}. ${ENDS}`,
    );
  }
  const agent = `pid ${pidText(peer, holder.pid)}, since ${holder.since}, in ${holder.mode} mode`;
  if (!holder.isStopping)
    throw new CannotRun(`another slicewire agent runs in this network namespace: ${agent}. ${ENDS}`);
  if (waits.stoppingSince === undefined) log.info(`another slicewire agent is ending (${agent}): waiting for it`);
  waits.stoppingSince ??= now;
  if (now - waits.stoppingSince < STOP_TIMEOUT_MS) return undefined;
  throw new CannotRun(
    `another slicewire agent (${agent}) received the signal to end, and still runs after ${STOP_TIMEOUT_MS / 1000} s. ${ENDS}`,
  );
}

const GOES_ON = 'This agent goes on. A second agent on this node would not be noticed: find that process, and end it';
const ENDS =
  'This one wrote nothing, and exits: a node has one agent. Stop the other one first (systemctl stop slicewire, or delete its Pod)';

/** No agent of this node: it runs as root, or as the user of this process. */
function isOfOtherUser(peer: PeerCredentials | undefined, { uid }: NameService): boolean {
  return peer !== undefined && peer.uid !== 0 && peer.uid !== uid;
}

function silenceText(peer: PeerCredentials | undefined): string {
  return `${processText(peer)} holds the name of this node's agent, and did not answer within ${SILENCE_TIMEOUT_MS / 1000} s: probably another slicewire agent that was stopped (SIGSTOP) or hangs.`;
}

function processText(peer: PeerCredentials | undefined): string {
  if (peer === undefined) return 'a process';
  const pid = peer.pid === 0 ? 'a process that this pid namespace does not see' : `the process with pid ${peer.pid}`;
  return `${pid} (uid ${peer.uid})`;
}

/** The kernel reports the pid of this pid namespace. The agent itself only knows that of its own namespace. */
function pidText(peer: PeerCredentials | undefined, own: number): string {
  if (peer !== undefined && peer.pid > 0) return String(peer.pid);
  return `${own} in a pid namespace that this process does not see`;
}

/** Limit of characters of an answer in a message. */
const MAX_SHOWN_LENGTH = 80;

/** Quotes the bytes of another process, so that they bring no control characters to a terminal. */
function shown(line: string): string {
  return JSON.stringify(cutText(line, MAX_SHOWN_LENGTH));
}

function ownLine({ mode, signal, onAsked }: NameOptions, wall: number): () => string {
  const since = new Date(wall).toISOString();
  return () => {
    onAsked?.();
    return JSON.stringify({ pid: process.pid, since, mode: mode(), isStopping: signal.aborted });
  };
}

/** Try to take the name again and again, until that succeeds or the signal aborts. */
function takeLater({ names, clock, signal, log }: NameOptions, line: () => string): HeldName {
  const end = new AbortController();
  const until = AbortSignal.any([signal, end.signal]);
  const take = async (): Promise<HeldName | undefined> => {
    for (;;) {
      await sleep(clock, TAKE_RETRY_MS, until);
      const held = await names.take(line);
      if (held === undefined) continue;
      log.info("the name of this node's agent was free: this agent has it now");
      return held;
    }
  };
  const taking = take().catch((error: unknown) => {
    if (!until.aborted) log.warn(`cannot take the name of this node's agent: ${causeOf(error)}`);
    return undefined;
  });
  return {
    async release() {
      end.abort();
      await (await taking)?.release();
    },
  };
}
