/** What a soak found. Numbers, for docs/reliability.json. */
import type { Measured } from '../reliability/machine.ts';
import type { SoakMode } from './timeline.ts';

export interface FirstLast {
  readonly first: number;
  readonly last: number;
  readonly most: number;
}

/** Bytes without restarts: the medians of the first and of the last third of the time in this mode, and the most. */
export interface TailMemory extends FirstLast {
  readonly mode: SoakMode;
}

export interface FlushFound {
  readonly mode: SoakMode;
  readonly command: string;
  /** Milliseconds from the start of the command until the agent had repaired it; undefined: it did not. */
  readonly repaired: number | undefined;
  /** The agent's log names the program that did it. */
  readonly isNamed: boolean;
}

export interface LifeFound {
  readonly signal: 'SIGTERM' | 'SIGKILL';
  readonly mode: SoakMode;
  /** Milliseconds until it ended, and of the next from exec to the first sync; none after the last. */
  readonly end: number;
  readonly start?: number;
  /** It was one of the other version. */
  readonly isOther?: boolean;
  readonly status: number | undefined;
}

export interface SyncsFound {
  readonly mode: SoakMode;
  readonly syncs: number;
  readonly failed: number;
  /** Seconds: bounds of the buckets of the agent's own histograms. */
  readonly sync: { readonly p50: number; readonly p99: number };
  readonly programming: { readonly p50: number; readonly p99: number };
}

/** Connections of the agent to itself through its rules, by where they began. */
export interface DatapathFound {
  readonly from: 'node' | 'pod';
  readonly passed: number;
  readonly failed: number;
}

export interface VerifyFound {
  readonly mode: SoakMode;
  /** Who compared, and when. */
  readonly by: string;
  /** Kernel objects, and those that differ without a reason. */
  readonly compared: number;
  readonly differences: readonly string[];
  /** No change is on its way. */
  readonly isAtRest: boolean;
  /** Why there was no answer; undefined: there was one. */
  readonly why?: string | undefined;
}

export interface SoakResult extends Measured {
  /** Seconds: with restarts, and after them without. */
  readonly seconds: number;
  readonly tail: number;
  readonly isEarly: boolean;
  readonly services: number;
  readonly changes: {
    readonly asked: number;
    readonly made: number;
    readonly skipped: number;
    readonly perSecond: number;
  };
  readonly probes: {
    readonly sent: number;
    readonly answered: number;
    readonly lost: number;
    readonly wrong: number;
    /** Questions of clients that keep their port, asked when their endpoint left its Service. */
    readonly cut: number;
    readonly whileDamaged: number;
    readonly sentAgain: number;
    /** Milliseconds. */
    readonly slowest: number;
    /** The first of those that count. */
    readonly failures: readonly string[];
  };
  readonly lives: readonly LifeFound[];
  /** Milliseconds each, from the new configuration file to its first sync. */
  readonly reloads: readonly number[];
  readonly flushes: readonly FlushFound[];
  /** Bytes, of all lives but the last; and of the last one. */
  readonly memory: FirstLast;
  readonly tailMemory: readonly TailMemory[];
  readonly descriptors: FirstLast;
  readonly tailDescriptors: FirstLast;
  readonly timers: FirstLast;
  readonly connections: FirstLast;
  readonly syncs: readonly SyncsFound[];
  /** Older recordings have none. */
  readonly datapath?: readonly DatapathFound[];
  /** Times that the agent called the data path broken while no rules were damaged. */
  readonly falseAlarms?: number;
  /** Milliseconds. */
  readonly unhealthy: { readonly longest: number; readonly sum: number };
  readonly verify: readonly VerifyFound[];
  /** Lines of the ruleset that are of a proxy after `slicewire cleanup`. */
  readonly left?: readonly string[];
  /** Warnings and errors of the agent's log, numbers aside, and how often. */
  readonly complaints: readonly { readonly message: string; readonly count: number }[];
}

type Measures = Pick<SoakResult, 'services' | 'flushes' | 'verify' | 'unhealthy' | 'tail' | 'tailMemory'>;

/** Milliseconds. */
const MOST_FOR_REPAIR = 1000;
/**
 * Commands that remove all rules of a mode, each with the milliseconds in which the bare tool writes those of 10,000 Services again on two
 * cores with nothing else to do: `node test/bench/drift.ts MODE 10000` measures it.
 */
const REMOVES_ALL: ReadonlyMap<string, number> = new Map([
  ['nft delete table ip slicewire', 3000],
  ['iptables-nft -w 30 -t nat -F', 10_000],
]);
const MOST_WITHOUT_HEALTH = 60_000;
/** Of memory without restarts, where it is measured for long enough. */
const MOST_GROWTH = 1.05;
const SECONDS_FOR_GROWTH = 1200;

/** The milliseconds that the repair of a command may take. */
export function mostForRepair({ command }: Pick<FlushFound, 'command'>, services: number): number {
  return Math.max(MOST_FOR_REPAIR, ((REMOVES_ALL.get(command) ?? 0) * services) / 10_000);
}

/**
 * Limits that were not kept, which a machine that is fast enough keeps: writes of another program that last, `slicewire verify` that finds no
 * end while rules change, health that stays away, memory that grows. `problemsOf` has the rest.
 */
export function missedOf({ services, flushes, verify, unhealthy, tail, tailMemory }: Measures): string[] {
  const missed: string[] = [];
  for (const flush of flushes) {
    const { mode, command, repaired = 0 } = flush;
    if (repaired > mostForRepair(flush, services))
      missed.push(`${mode} mode: ${command}: repaired after ${Math.round(repaired)} ms`);
  }
  for (const { mode, by, isAtRest, why } of verify)
    if (why !== undefined && !isAtRest) missed.push(`${mode} mode: verify by ${by}: no answer: ${why}`);
  const { longest } = unhealthy;
  if (longest > MOST_WITHOUT_HEALTH) missed.push(`no health for ${Math.round(longest / 1000)} s`);
  for (const { mode, first, last } of tail < SECONDS_FOR_GROWTH ? [] : tailMemory) {
    const [before, after] = [first, last].map((bytes) => Math.round(bytes / 2 ** 20));
    if (last > first * MOST_GROWTH) missed.push(`${mode} mode: memory grew from ${before} MB to ${after} MB`);
  }
  return missed;
}

/** What must not be; empty: the soak found nothing. */
export function problemsOf(result: SoakResult): string[] {
  const { probes, flushes, verify, lives, changes, falseAlarms = 0, left = [] } = result;
  const problems: string[] = [];
  if (probes.sent === 0) problems.push('no probe was sent');
  if (changes.made === 0) problems.push('nothing was changed');
  if (probes.lost > 0) problems.push(`${probes.lost} of ${probes.sent} probes were lost`);
  if (probes.wrong > 0) problems.push(`${probes.wrong} of ${probes.sent} probes were answered by another`);
  for (const { mode, command, repaired } of flushes)
    if (repaired === undefined) problems.push(`${mode} mode: ${command}: not repaired`);
  for (const { mode, by, differences, isAtRest, why } of verify) {
    const [first] = differences;
    const what = `${mode} mode: verify by ${by}`;
    if (first !== undefined) problems.push(`${what}: ${differences.length} objects differ: ${first}`);
    if (why !== undefined && isAtRest) problems.push(`${what}: no answer: ${why}`);
  }
  for (const { signal, status, isOther = false } of lives) {
    const agent = isOther ? 'the agent of the other version' : 'the agent';
    if (signal === 'SIGTERM' && status !== 0) problems.push(`${agent} ended with ${status} after SIGTERM`);
  }
  if (falseAlarms > 0) problems.push(`${falseAlarms} alarms of the data path without a cause`);
  if (left.length > 0) problems.push(`not all is gone after cleanup: ${left[0]} (${left.length} in all)`);
  return problems;
}
