/**
 * Asks the kernel whether a chain exists, how often its rules matched, and whether the rules changed: a probe that runs again and again must
 * not start a process each time. The answers are about this process's network namespace.
 */
import type { Family } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { type Clock, realClock } from '../base/clock.ts';
import type { ChainQuery, IptablesTools, IptablesVariant } from './iptables-tools.ts';
import { type Commit, type Committer, commitsBetween, type RulesetNotices } from './ruleset-notices.ts';

/** Numbers that change when any program writes rules; the kernel has them without reading the rules. */
export type RulesState =
  /** The nft variant: the generation of the ruleset, which all families and programs share. */
  | { readonly kind: 'ruleset'; readonly generation: number }
  /** The legacy variant: the numbers of each table. Replacing a rule by another of the same size does not change them. */
  | { readonly kind: 'tables'; readonly tables: ReadonlyMap<string, TableNumbers> };

/** The numbers of a table of the legacy variant. */
export interface TableNumbers {
  /** Hooks, count and size of its entries, as text to compare. */
  readonly text: string;
  readonly entries: number;
}

/** A program that wrote rules, and the generation of the ruleset that it made. */
export interface RulesWriter extends Committer {
  readonly generation: number;
}

/** Answers questions about chains. IptablesTools answers them too, with a process for each question. */
export interface ChainProbe {
  /** Throws when there is no answer. */
  hasChain(query: ChainQuery, signal: AbortSignal): Promise<boolean>;
  /** The generation of the ruleset, which every change by any program moves; undefined where the kernel has none. */
  generation?(): Promise<number | undefined>;
  /** Packets that matched each rule of a chain, in the order of the rules; may be some seconds old. Throws when there is no answer. */
  counters?(query: ChainQuery, signal: AbortSignal): Promise<readonly number[]>;
  /** The present counters, from the kernel alone; undefined where it has no answer for one chain. */
  kernelCounters?(query: ChainQuery, signal: AbortSignal): Promise<readonly number[] | undefined>;
  /** The program that committed the last change of the ruleset; undefined where it is not known. */
  lastWriter?(): Promise<RulesWriter | undefined>;
  /** The transactions between two generations; undefined where one was not heard. See `RulesetNotices.between`. */
  commits?(from: number, to: number): Promise<readonly Commit[] | undefined>;
  /** The state of these tables; undefined when the kernel does not answer. */
  state?(tables: readonly string[]): Promise<RulesState | undefined>;
}

export interface RulesProbe extends ChainProbe {
  generation(): Promise<number | undefined>;
  counters(query: ChainQuery, signal: AbortSignal): Promise<readonly number[]>;
  state(tables: readonly string[]): Promise<RulesState | undefined>;
  /** Closes the socket to the kernel. */
  close(): void;
}

/** The kernel's answer to whether a chain exists. */
export type ChainAnswer =
  | { readonly kind: 'known'; readonly exists: boolean }
  /** The legacy variant has no chains by name. The text changes with the table, for example when it is flushed. */
  | { readonly kind: 'fingerprint'; readonly text: string };

/** The kernel's answers, behind an interface. */
export interface RulesSocket {
  /** Throws when the kernel answers anything else. */
  chain(query: ChainQuery): ChainAnswer;
  /** The generation of the ruleset. The legacy variant has none. */
  generation?(): number;
  /** Packets that matched each rule of a chain. The legacy variant cannot answer for one chain. */
  counters?(query: ChainQuery): readonly number[];
  /** The numbers of a table. Only the legacy variant has them. */
  numbers?(table: string): TableNumbers;
  /** The program that made the present generation, if its notice was heard. The legacy variant does not know it. */
  lastWriter?(): RulesWriter | undefined;
  close(): void;
}

/** Opens the socket. Throws when the kernel refuses it. */
export type OpenRules = (
  variant: IptablesVariant,
  family: Family,
  notices?: RulesetNotices | undefined,
) => Promise<RulesSocket>;

export interface RulesProbeOptions {
  readonly tools: Pick<IptablesTools, 'family' | 'variant' | 'writes' | 'hasChain' | 'counters'>;
  /** Called once for each reason why the kernel did not answer, so that a process is asked. */
  readonly onProblem: (text: string) => void;
  readonly open?: OpenRules;
  /** The transactions of the nft variant; closed by its owner. */
  readonly notices?: RulesetNotices | undefined;
  readonly clock?: Clock;
}

/** Counters that a process read are used again for this many milliseconds, and for this many times the duration of the read. */
const COUNTERS_STAY_MS = 15_000;
const COUNTERS_SHARE = 100;

export const openRules: OpenRules = async (variant, family, notices) => {
  // Loaded only here: commands without a probe need no foreign functions.
  if (variant === 'legacy') {
    const { XtablesSocket } = await import('../../native/xtables.ts');
    const socket = new XtablesSocket(family);
    const numbers = (table: string) => socket.tableNumbers(table);
    const chain = ({ table }: ChainQuery): ChainAnswer => ({ kind: 'fingerprint', text: numbers(table).text });
    return { chain, numbers, close: () => socket.close() };
  }
  const { NftablesSocket } = await import('../../native/nftables.ts');
  const socket = new NftablesSocket();
  return {
    chain({ table, chain }) {
      return { kind: 'known', exists: socket.hasChain({ family, table, chain }) };
    },
    generation: () => socket.generation(),
    lastWriter() {
      const generation = socket.generation();
      notices?.listen();
      const last = notices?.last;
      return last?.generation === generation ? last : undefined;
    },
    counters: ({ table, chain }) => socket.ruleCounters({ family, table, chain }),
    close() {
      socket.close();
    },
  };
};

/** Opens no socket before the first question. */
export function rulesProbe(options: RulesProbeOptions): RulesProbe {
  return new KernelRulesProbe(options);
}

class KernelRulesProbe implements RulesProbe {
  readonly #tools: RulesProbeOptions['tools'];
  readonly #open: OpenRules;
  /** Opened once, by the first question. */
  #socket: Promise<RulesSocket> | 'closed' | undefined;
  /** Chains that a process found, each with the fingerprint that its table had then. */
  readonly #found = new Map<string, string>();
  /** Reports each cause once. */
  readonly #report: (cause: string) => void;
  readonly #clock: Clock;
  readonly #notices: RulesetNotices | undefined;
  /** Counters that a process read, by chain, and the time until which they are used again. */
  readonly #counted = new Map<string, { until: number; readonly counters: Promise<readonly number[]> }>();

  constructor({ tools, onProblem, open = openRules, notices, clock = realClock }: RulesProbeOptions) {
    this.#notices = notices;
    this.#clock = clock;
    this.#tools = tools;
    this.#report = once((cause) =>
      onProblem(`${tools.family}: probing rules by running iptables, because the kernel does not answer: ${cause}`),
    );
    this.#open = open;
  }

  async hasChain(query: ChainQuery, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#ask((socket) => socket.chain(query));
    if (answer?.kind === 'known') return answer.exists;
    // The fingerprint is older than the answer of the process, so that the next probe sees a change in between. A write of ours may restore
    // the same numbers, so the count of our writes is part of it.
    const fingerprint = answer === undefined ? undefined : `${this.#tools.writes} ${answer.text}`;
    const key = `${query.table} ${query.chain}`;
    if (fingerprint !== undefined && this.#found.get(key) === fingerprint) return true;
    this.#found.delete(key);
    const exists = await this.#tools.hasChain(query, signal);
    if (exists && fingerprint !== undefined) this.#found.set(key, fingerprint);
    return exists;
  }

  close(): void {
    this.#drop();
    this.#socket = 'closed';
  }

  #drop(): void {
    const socket = this.#socket;
    if (socket === 'closed') return;
    this.#socket = undefined;
    socket?.then((opened) => opened.close()).catch(() => undefined);
  }

  async generation(): Promise<number | undefined> {
    return await this.#ask((socket) => socket.generation?.());
  }

  async lastWriter(): Promise<RulesWriter | undefined> {
    return await this.#ask((socket) => socket.lastWriter?.());
  }

  async commits(from: number, to: number): Promise<readonly Commit[] | undefined> {
    if (this.#tools.variant === 'legacy' || this.#notices === undefined) return undefined;
    return await commitsBetween(this.#notices, from, to);
  }

  async counters(query: ChainQuery, signal: AbortSignal): Promise<readonly number[]> {
    const answer = await this.#ask((socket) => socket.counters?.(query));
    if (answer !== undefined) return answer;
    const key = `${query.table} ${query.chain}`;
    const start = this.#clock.now();
    const before = this.#counted.get(key);
    if (before !== undefined && start < before.until) return await before.counters;
    // Infinite until the process ends, so that no second one starts.
    const counted = { until: Number.POSITIVE_INFINITY, counters: this.#tools.counters(query, signal) };
    this.#counted.set(key, counted);
    try {
      return await counted.counters;
    } finally {
      const now = this.#clock.now();
      counted.until = now + Math.max(COUNTERS_STAY_MS, (now - start) * COUNTERS_SHARE);
    }
  }

  async kernelCounters(query: ChainQuery): Promise<readonly number[] | undefined> {
    return await this.#ask((socket) => socket.counters?.(query));
  }

  async state(tables: readonly string[]): Promise<RulesState | undefined> {
    return await this.#ask((socket): RulesState | undefined => {
      const { numbers } = socket;
      if (numbers !== undefined) {
        return { kind: 'tables', tables: new Map(tables.map((table) => [table, numbers(table)])) };
      }
      const generation = socket.generation?.();
      return generation === undefined ? undefined : { kind: 'ruleset', generation };
    });
  }

  /** undefined where the kernel cannot be asked. */
  async #ask<T>(question: (socket: RulesSocket) => T): Promise<T | undefined> {
    const { variant, family } = this.#tools;
    // The socket of a question after `close` would never be closed.
    if (variant === undefined || this.#socket === 'closed') return undefined;
    try {
      this.#socket ??= this.#open(variant, family, this.#notices);
      return question(await this.#socket);
    } catch (error) {
      this.#report(causeOf(error));
      // The next question opens a new socket.
      this.#drop();
      return undefined;
    }
  }
}

/** Reports each text once. */
function once(report: (text: string) => void): (text: string) => void {
  const had = new Set<string>();
  return (text) => {
    if (had.has(text)) return;
    had.add(text);
    report(text);
  };
}
