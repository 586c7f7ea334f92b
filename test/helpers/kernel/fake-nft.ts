/** nftables in memory: it carries out transactions as the kernel does, and refuses the same writes. */

import type { Family } from '../../../src/base/address.ts';
import type {
  Hook,
  Latin1Bytes,
  NftElement,
  NftKernel,
  NftRefusal,
  NftRule,
  NftSet,
  NftState,
  NftWrite,
  NftWriter,
  TablePresence,
} from '../../../src/kernel/nftables-kernel.ts';

export interface FakeChain {
  readonly hook: Hook | undefined;
  readonly rules: readonly NftRule[];
}

export interface FakeTable {
  readonly chains: Map<string, FakeChain>;
  readonly sets: Map<string, { readonly set: NftSet; readonly elements: Map<string, NftElement> }>;
}

type ObjectWrite = Exclude<NftWrite, { readonly kind: 'add-table' | 'delete-table' }>;

/** A refusal with the kernel's message. */
class Refused extends Error {
  readonly element: number | undefined;
  readonly blame: NftRefusal['blame'];

  constructor(message: string, element?: number, blame: NftRefusal['blame'] = 'content') {
    super(message);
    this.element = element;
    this.blame = blame;
  }
}

export interface FakeNftOptions {
  /** Returns the kernel's message for a write to refuse. */
  readonly refuses?: (write: NftWrite, element: NftElement | undefined) => string | undefined;
  /** Chains that are in use without a rule that leads to them. */
  readonly uses?: (chain: string) => boolean;
  /** Called before each read and write; it may throw. */
  readonly onCall?: (what: string) => void;
  /** Called after a transaction, before its answer; it may throw. */
  readonly onAnswer?: () => void;
  /** Called after each successful transaction. */
  readonly onCommit?: (family: Family) => void;
}

export class FakeNft implements NftKernel {
  readonly tables = new Map<Family, FakeTable>();
  /** The writes of each successful transaction. */
  readonly commits: (readonly NftWrite[])[] = [];
  options: FakeNftOptions;
  /** The error of all reads; undefined when they succeed. */
  unreadable: string | undefined;
  /** Another program wrote to the ruleset. */
  isTouched = false;
  /** Seconds for which memories keep each key, by set. */
  readonly memories = new Map<string, ReadonlyMap<Latin1Bytes, number>>();
  writer: NftWriter | undefined;
  #reads = 0;

  constructor(options: FakeNftOptions = {}) {
    this.options = options;
  }

  get reads(): number {
    return this.#reads;
  }

  /** Always false: another program may write at any time. */
  isUnchanged(_family?: Family): boolean {
    this.options.onCall?.('generation');
    return false;
  }

  counts(family: Family, set: string): Promise<ReadonlyMap<Latin1Bytes, number>> {
    const elements = [...(this.tables.get(family)?.sets.get(set)?.elements.values() ?? [])];
    return Promise.resolve(new Map(elements.filter(({ isCounted }) => isCounted).map(({ key }) => [key, 0])));
  }

  /** By chain; rules of the others have counted nothing. */
  readonly counted = new Map<string, readonly number[]>();

  ruleCounts(family: Family, chains: readonly string[]): Promise<ReadonlyMap<string, readonly number[]>> {
    const table = this.tables.get(family);
    const ofChain = (chain: string) =>
      this.counted.get(chain) ??
      table?.chains
        .get(chain)
        ?.rules.flatMap(({ expressions }) => expressions.flatMap((e) => (e.do === 'count' ? 0 : [])));
    return Promise.resolve(new Map(chains.map((chain) => [chain, ofChain(chain) ?? []])));
  }

  async read(family: Family): Promise<NftState | undefined> {
    this.#reads += 1;
    this.options.onCall?.('read');
    return this.inspect(family);
  }

  inspect(family: Family): Promise<NftState | undefined> {
    if (this.unreadable !== undefined) return Promise.reject(new Error(this.unreadable));
    const table = this.tables.get(family);
    if (table === undefined) return Promise.resolve(undefined);
    const chains = [...table.chains].map(
      ([name, { hook, rules }]) => [name, { ...(hook === undefined ? {} : { hook }), rules }] as const,
    );
    const sets = [...table.sets].map(
      ([name, { set, elements }]) => [name, set.isMemory ? [] : [...elements.values()]] as const,
    );
    return Promise.resolve({ chains: new Map(chains), sets: new Map(sets) });
  }

  expirations(_family: Family, set: string): Promise<ReadonlyMap<Latin1Bytes, number>> {
    return Promise.resolve(this.memories.get(set) ?? new Map());
  }

  lastWriter(): NftWriter | undefined {
    return this.writer;
  }

  async commit(family: Family, writes: readonly NftWrite[]): Promise<readonly NftRefusal[]> {
    this.options.onCall?.('commit');
    const before = this.tables.get(family);
    let table = before && copyOf(before);
    const refusals: NftRefusal[] = [];
    for (const [i, write] of writes.entries()) {
      try {
        if (write.kind === 'add-table') table = table ?? { chains: new Map(), sets: new Map() };
        else if (write.kind === 'delete-table') table = undefined;
        else if (table === undefined) throw new Refused('ENOENT: no such file or directory', undefined, 'environment');
        else this.#write(table, write as ObjectWrite);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        refusals.push({ write: i, element: error.element, cause: error.message, blame: error.blame });
      }
    }
    if (refusals.length === 0 && table !== undefined) this.#check(table);
    if (refusals.length > 0) return Promise.resolve(refusals);
    if (table === undefined) this.tables.delete(family);
    else this.tables.set(family, table);
    this.commits.push(writes);
    this.options.onCommit?.(family);
    this.options.onAnswer?.();
    return Promise.resolve([]);
  }

  async presence(family: Family): Promise<TablePresence> {
    this.options.onCall?.('stands');
    if (!this.tables.has(family)) return Promise.resolve('no');
    return Promise.resolve(this.isTouched ? 'unclear' : 'yes');
  }

  #write({ chains, sets }: FakeTable, write: ObjectWrite): void {
    const refusal = this.options.refuses?.(write, undefined);
    if (refusal !== undefined) throw new Refused(refusal);
    switch (write.kind) {
      case 'add-chain':
        if (!chains.has(write.chain)) chains.set(write.chain, { hook: write.hook, rules: [] });
        break;
      case 'flush-chain':
        chains.set(write.chain, { hook: chainOf(chains, write.chain).hook, rules: [] });
        break;
      case 'delete-chain':
        chainOf(chains, write.chain);
        if (this.options.uses?.(write.chain)) throw new Refused('EBUSY: device or resource busy', undefined, 'use');
        chains.delete(write.chain);
        break;
      case 'add-rule': {
        const { hook, rules } = chainOf(chains, write.chain);
        if (write.rule.text.length > 120) throw new Refused('EINVAL: invalid argument');
        chains.set(write.chain, { hook, rules: [...rules, write.rule] });
        break;
      }
      case 'add-set':
        if (!sets.has(write.set.name)) sets.set(write.set.name, { set: write.set, elements: new Map() });
        break;
      case 'delete-set':
        if (!sets.delete(write.set)) throw new Refused('ENOENT: no such file or directory', undefined, 'environment');
        break;
      default:
        this.#writeElements(sets, write);
    }
  }

  #writeElements(
    sets: FakeTable['sets'],
    write: Extract<NftWrite, { kind: 'add-elements' | 'delete-elements' }>,
  ): void {
    const elements = sets.get(write.set.name)?.elements;
    if (elements === undefined) throw new Refused('ENOENT: no such file or directory', undefined, 'environment');
    for (const [i, element] of write.elements.entries()) {
      const refusal = this.options.refuses?.(write, element);
      if (refusal !== undefined) throw new Refused(refusal, i);
      const key = element.key + element.end;
      if (write.kind === 'delete-elements') {
        if (!elements.delete(key)) throw new Refused('ENOENT: no such file or directory', i, 'environment');
      } else if (elements.has(key)) throw new Refused('EEXIST: file already exists', i, 'environment');
      else elements.set(key, element);
    }
  }

  /** Throws when a rule or an element leads to a missing chain or set. */
  #check({ chains, sets }: FakeTable): void {
    const must = (chain: string) => {
      if (!chains.has(chain)) throw new Error(`fake nftables: a rule or element leads to the missing chain ${chain}`);
    };
    for (const { set, elements } of sets.values()) {
      if (set.data !== 'verdict') continue;
      for (const { data } of elements.values()) if (data.startsWith('goto ')) must(data.slice(5));
    }
    for (const { rules } of chains.values()) {
      for (const expression of rules.flatMap(({ expressions }) => expressions)) {
        if (expression.do === 'verdict' && 'chain' in expression.verdict) must(expression.verdict.chain);
        const set =
          expression.do === 'lookup' || expression.do === 'remember'
            ? expression.set
            : expression.do === 'over-connections'
              ? expression.per?.set
              : undefined;
        if (set !== undefined && !sets.has(set)) throw new Error(`fake nftables: the set ${set} does not exist`);
      }
    }
  }
}

function chainOf(chains: FakeTable['chains'], name: string): FakeChain {
  const chain = chains.get(name);
  if (chain === undefined) throw new Refused('ENOENT: no such file or directory', undefined, 'environment');
  return chain;
}

function copyOf({ chains, sets }: FakeTable): FakeTable {
  const copies = [...sets].map(([name, { set, elements }]) => [name, { set, elements: new Map(elements) }] as const);
  return { chains: new Map(chains), sets: new Map(copies) };
}
