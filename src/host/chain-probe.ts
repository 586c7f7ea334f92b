/**
 * Whether a chain stands, asked of the kernel itself: a look that is repeated for ever starts no process while nothing
 * changes. The kernel is that of this process's network namespace.
 */
import type { Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import { type Clock, realClock } from './clock.ts';
import type { ChainQuery, IptablesTools, IptablesVariant } from './iptables-tools.ts';

/** What the kernel tells of the rules without reading them: something else after a change by anybody. */
export type RulesState =
  /** The nft variant: the number of the ruleset, which all families and programs share. */
  | { readonly kind: 'ruleset'; readonly generation: number }
  /** The legacy variant: of each table its numbers. A rule in the place of another of the same size leaves them as they are. */
  | { readonly kind: 'tables'; readonly tables: ReadonlyMap<string, TableNumbers> };

/** Of a table of the legacy variant. */
export interface TableNumbers {
  /** Hooks, number and size of its entries, as text to compare. */
  readonly text: string;
  readonly entries: number;
}

/** Who can tell whether a chain stands; the tools do it by a process. */
export interface ChainProbe {
  /** Throws when that cannot be told. */
  hasChain(query: ChainQuery, signal: AbortSignal): Promise<boolean>;
  /** The number of the ruleset, another after each change of it by anybody; undefined where that cannot be told. */
  generation?(): Promise<number | undefined>;
  /** Packets that each rule of a chain counted, in their order; perhaps those of a moment ago. Throws when that cannot be told. */
  counters?(query: ChainQuery, signal: AbortSignal): Promise<readonly number[]>;
  /** What the kernel tells of these tables; undefined where it tells nothing. */
  state?(tables: readonly string[]): Promise<RulesState | undefined>;
}

export interface RulesProbe extends ChainProbe {
  generation(): Promise<number | undefined>;
  counters(query: ChainQuery, signal: AbortSignal): Promise<readonly number[]>;
  state(tables: readonly string[]): Promise<RulesState | undefined>;
  /** Let go of the kernel. */
  close(): void;
}

/** The seam to the kernel. */
export interface RulesSocket {
  /**
   * Whether there is the chain; where the kernel knows none by name, numbers of its table as text, which become others
   * when the table is flushed. Throws when the kernel answers anything else.
   */
  ask(query: ChainQuery): boolean | string;
  /** The number of the ruleset, where the kernel has one. */
  generation?(): number;
  /** Packets that each rule of a chain counted, where the kernel tells it of one chain. */
  counters?(query: ChainQuery): readonly number[];
  /** The numbers of a table, where it has such. */
  numbers?(table: string): TableNumbers;
  close(): void;
}

/** Open it. Throws when the kernel lets nobody in. */
export type OpenRules = (variant: IptablesVariant, family: Family) => Promise<RulesSocket>;

export interface RulesProbeOptions {
  readonly tools: Pick<IptablesTools, 'family' | 'variant' | 'writes' | 'hasChain' | 'counters'>;
  /** The kernel could not be asked, and a process is; each cause is told once. */
  readonly onProblem: (text: string) => void;
  readonly open?: OpenRules;
  readonly clock?: Clock;
}

/** Counters by a process: milliseconds for which they are told again, and how many times as long as they took to read. */
const COUNTERS_STAY = 15_000;
const COUNTERS_SHARE = 100;

export const openRules: OpenRules = async (variant, family) => {
  // Loaded only here: a command that never looks needs no foreign functions.
  if (variant === 'legacy') {
    const { XtablesSocket } = await import('../../native/xtables.ts');
    const socket = new XtablesSocket(family);
    const numbers = (table: string) => socket.tableNumbers(table);
    return { ask: ({ table }) => numbers(table).text, numbers, close: () => socket.close() };
  }
  const { NftablesSocket } = await import('../../native/nftables.ts');
  const socket = new NftablesSocket();
  return {
    ask: ({ table, chain }) => socket.hasChain({ family, table, chain }),
    generation: () => socket.generation(),
    counters: ({ table, chain }) => socket.ruleCounters({ family, table, chain }),
    close: () => socket.close(),
  };
};

/** Opens nothing before the first look. */
export function rulesProbe(options: RulesProbeOptions): RulesProbe {
  return new KernelProbe(options);
}

class KernelProbe implements RulesProbe {
  readonly #tools: RulesProbeOptions['tools'];
  readonly #onProblem: (text: string) => void;
  readonly #open: OpenRules;
  /** Opened once, by whoever asks first. */
  #socket: Promise<RulesSocket> | undefined;
  /** Of each chain that a process found: what its table was like. */
  readonly #stood = new Map<string, string>();
  readonly #told = new Set<string>();
  readonly #clock: Clock;
  /** What a process counted of each chain, and until when that is told. */
  readonly #counted = new Map<string, { until: number; readonly counters: Promise<readonly number[]> }>();

  constructor({ tools, onProblem, open = openRules, clock = realClock }: RulesProbeOptions) {
    this.#clock = clock;
    this.#tools = tools;
    this.#onProblem = onProblem;
    this.#open = open;
  }

  async hasChain(query: ChainQuery, signal: AbortSignal): Promise<boolean> {
    const said = await this.#ask(query);
    if (typeof said === 'boolean') return said;
    // Taken before the look by a process: what changes in between is seen by the next. A write of ours could leave the
    // same numbers behind, and so they are of no use after it.
    const state = said === undefined ? undefined : `${this.#tools.writes} ${said}`;
    const key = `${query.table} ${query.chain}`;
    if (state !== undefined && this.#stood.get(key) === state) return true;
    this.#stood.delete(key);
    const stands = await this.#tools.hasChain(query, signal);
    if (stands && state !== undefined) this.#stood.set(key, state);
    return stands;
  }

  close(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.then((opened) => opened.close()).catch(() => undefined);
  }

  async generation(): Promise<number | undefined> {
    return await this.#asking((socket) => socket.generation?.());
  }

  async counters(query: ChainQuery, signal: AbortSignal): Promise<readonly number[]> {
    const said = await this.#asking((socket) => socket.counters?.(query));
    if (said !== undefined) return said;
    const key = `${query.table} ${query.chain}`;
    const start = this.#clock.now();
    const before = this.#counted.get(key);
    if (before !== undefined && start < before.until) return await before.counters;
    // Until it is done nobody else starts one.
    const counted = { until: Number.POSITIVE_INFINITY, counters: this.#tools.counters(query, signal) };
    this.#counted.set(key, counted);
    try {
      return await counted.counters;
    } finally {
      const now = this.#clock.now();
      counted.until = now + Math.max(COUNTERS_STAY, (now - start) * COUNTERS_SHARE);
    }
  }

  async state(tables: readonly string[]): Promise<RulesState | undefined> {
    return await this.#asking((socket): RulesState | undefined => {
      const { numbers } = socket;
      if (numbers !== undefined) {
        return { kind: 'tables', tables: new Map(tables.map((table) => [table, numbers(table)])) };
      }
      const generation = socket.generation?.();
      return generation === undefined ? undefined : { kind: 'ruleset', generation };
    });
  }

  #ask(query: ChainQuery): Promise<boolean | string | undefined> {
    return this.#asking((socket) => socket.ask(query));
  }

  /** undefined: the kernel cannot be asked. */
  async #asking<T>(question: (socket: RulesSocket) => T): Promise<T | undefined> {
    const { variant, family } = this.#tools;
    if (variant === undefined) return undefined;
    try {
      this.#socket ??= this.#open(variant, family);
      return question(await this.#socket);
    } catch (error) {
      this.#tell(causeOf(error));
      // The next look begins anew.
      this.close();
      return undefined;
    }
  }

  #tell(cause: string): void {
    if (this.#told.has(cause)) return;
    this.#told.add(cause);
    const { family } = this.#tools;
    this.#onProblem(`${family}: whether the rules stand is asked of iptables, the kernel cannot be asked: ${cause}`);
  }
}
