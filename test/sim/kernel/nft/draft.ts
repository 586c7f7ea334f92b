/** The ruleset as a transaction changes it: each request sees what those before it did (nf_tables_api.c). Nothing of it counts before the commit. */
import { EBUSY, EEXIST, EINVAL, ENOENT, EOPNOTSUPP, EPERM } from '../../../../native/errno.ts';
import { NLM_F_EXCL, NLM_F_REPLACE, valueLength } from '../../../../native/netlink.ts';
import { Fields } from '../../../../native/nft/attributes.ts';
import {
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELTABLE,
  NFT_MSG_NEWTABLE,
  NFT_TABLE_F_OWNER,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_TYPE,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
  NFTA_TABLE_FLAGS,
  NFTA_TABLE_NAME,
  NFTA_TABLE_USERDATA,
} from '../../../../native/nft/constants.ts';
import { NFT_MSG_NEWCHAIN, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE } from '../../../../native/nftables.ts';
import { Refused } from '../netlink/format.ts';
import { type Asked, kept, NLM_F_NONREC } from './format.ts';
import { chainBody, ruleBody, setBody, tableBody } from './listing.ts';
import { type Chain, isChainUsed, type Rule, type Ruleset, type SetOf, type Table, tableKey } from './ruleset.ts';

/** A change that listeners are told about: the number of its message, and the message's body. */
export interface Change {
  readonly type: number;
  readonly body: () => Buffer;
}

/** NFTA_CHAIN_POLICY, NFTA_CHAIN_FLAGS */
const CHAIN_POLICY = 5;
const CHAIN_FLAGS = 10;
/** NF_IP_PRI_CONNTRACK (linux/netfilter_ipv4.h): chains of NAT come after it. */
const CONNTRACK = -200;
const TABLE_FLAGS = 0x7;

interface OwnTable extends Table {
  flags: number;
  handles: number;
  readonly chains: Map<string, Chain>;
  readonly sets: Map<string, SetOf>;
}

/** Handles of tables are of the whole machine. */
export interface TableHandles {
  next(): number;
}

export class Draft {
  /** Of the socket that writes. */
  readonly port: number;
  readonly changes: Change[] = [];
  readonly tables: Map<string, Table>;
  readonly #handles: TableHandles;
  /** Copies that belong to this transaction alone. */
  readonly #own = new Set<object>();

  constructor(before: Ruleset, port: number, handles: TableHandles) {
    this.tables = new Map(before);
    this.port = port;
    this.#handles = handles;
  }

  told(type: number, body: () => Buffer): void {
    this.changes.push({ type, body });
  }

  /** The table that the attribute names. Throws Refused. */
  find({ family, fields }: Asked, attribute: number): Table {
    const name = fields.text(attribute);
    if (name === undefined) throw new Refused(EINVAL);
    const table = this.tables.get(tableKey(family, name));
    if (table === undefined) throw new Refused(ENOENT, fields.at(attribute) - 4);
    if (table.owner !== undefined && table.owner !== this.port) throw new Refused(EPERM, fields.at(attribute) - 4);
    return table;
  }

  /** A copy of the table that this transaction may change. */
  own({ family, name }: Table): OwnTable {
    const key = tableKey(family, name);
    const table = this.tables.get(key);
    if (table === undefined) throw new RangeError(`there is no table ${key}`);
    if (this.#own.has(table)) return table as OwnTable;
    const copy: OwnTable = { ...table, chains: new Map(table.chains), sets: new Map(table.sets) };
    this.#own.add(copy);
    this.tables.set(key, copy);
    return copy;
  }

  /** A copy of the set whose elements this transaction may change. */
  ownElements(table: Table, { name }: SetOf): { readonly set: SetOf; readonly elements: Map<string, SetElement> } {
    const own = this.own(table);
    const set = own.sets.get(name);
    if (set === undefined) throw new RangeError(`there is no set ${name}`);
    if (this.#own.has(set)) return { set, elements: set.elements as Map<string, SetElement> };
    const elements = new Map(set.elements);
    const copy = { ...set, elements };
    this.#own.add(copy);
    own.sets.set(name, copy);
    return { set: copy, elements };
  }

  /** A number for a new object of the table. */
  handle(table: Table): number {
    const own = this.own(table);
    own.handles += 1;
    return own.handles;
  }

  putChain(table: Table, chain: Chain): void {
    this.own(table).chains.set(chain.name, chain);
  }

  putRules(table: Table, chain: Chain, rules: readonly Rule[]): void {
    this.putChain(table, { ...chain, rules });
  }

  newTable(asked: Asked): void {
    const { family, fields } = asked;
    const name = fields.text(NFTA_TABLE_NAME);
    if (name === undefined || name === '') throw new Refused(EINVAL);
    const flags = fields.number(NFTA_TABLE_FLAGS) ?? 0;
    if ((flags & ~TABLE_FLAGS) !== 0) throw new Refused(EOPNOTSUPP);
    if (this.tables.has(tableKey(family, name))) this.#updateTable(asked, flags);
    else this.#createTable(asked, { name, flags });
  }

  #createTable({ family, fields, bytes }: Asked, { name, flags }: Pick<Table, 'name' | 'flags'>): void {
    const raw = kept(fields.buffer, 20, bytes.length, [NFTA_TABLE_USERDATA]);
    const table: OwnTable = {
      family,
      name,
      handle: this.#handles.next(),
      flags,
      raw,
      owner: (flags & NFT_TABLE_F_OWNER) === 0 ? undefined : this.port,
      handles: 0,
      chains: new Map(),
      sets: new Map(),
    };
    this.#own.add(table);
    this.tables.set(tableKey(family, name), table);
    this.told(NFT_MSG_NEWTABLE, () => tableBody(table));
  }

  #updateTable(asked: Asked, flags: number): void {
    if ((asked.flags & NLM_F_EXCL) !== 0) throw new Refused(EEXIST, asked.fields.at(NFTA_TABLE_NAME) - 4);
    if ((asked.flags & NLM_F_REPLACE) !== 0) throw new Refused(EOPNOTSUPP);
    const table = this.find(asked, NFTA_TABLE_NAME);
    if (!asked.fields.has(NFTA_TABLE_FLAGS) || flags === table.flags) return;
    if (((flags ^ table.flags) & NFT_TABLE_F_OWNER) !== 0) throw new Refused(EOPNOTSUPP);
    const own = this.own(table);
    own.flags = flags;
    this.told(NFT_MSG_NEWTABLE, () => tableBody(own));
  }

  deleteTable(asked: Asked): void {
    const table = this.find(asked, NFTA_TABLE_NAME);
    if ((asked.flags & NLM_F_NONREC) !== 0 && table.chains.size + table.sets.size > 0) throw new Refused(EBUSY);
    for (const chain of table.chains.values()) this.#tellRulesGone(table, chain);
    for (const set of table.sets.values()) this.told(NFT_MSG_DELSET, () => setBody(table, set));
    for (const chain of table.chains.values()) this.told(NFT_MSG_DELCHAIN, () => chainBody(table, chain));
    this.tables.delete(tableKey(table.family, table.name));
    this.told(NFT_MSG_DELTABLE, () => tableBody(table));
  }

  newChain(asked: Asked): void {
    const { fields } = asked;
    const table = this.find(asked, NFTA_CHAIN_TABLE);
    const name = fields.text(NFTA_CHAIN_NAME);
    if (name === undefined || name === '') throw new Refused(EINVAL);
    const hook = hookOf(asked);
    const before = table.chains.get(name);
    if (before === undefined) {
      const chain: Chain = { name, handle: this.handle(table), hook, rules: [] };
      this.putChain(table, chain);
    } else {
      if ((asked.flags & NLM_F_EXCL) !== 0) throw new Refused(EEXIST, fields.at(NFTA_CHAIN_NAME) - 4);
      if ((asked.flags & NLM_F_REPLACE) !== 0) throw new Refused(EOPNOTSUPP);
      if (hook !== undefined) mustHaveHook(before, hook, fields.at(NFTA_CHAIN_NAME) - 4);
    }
    const chain = this.own(table).chains.get(name);
    if (chain !== undefined) this.told(NFT_MSG_NEWCHAIN, () => chainBody(table, chain));
  }

  /** With its rules. Refused while others lead to it. */
  deleteChain(asked: Asked): void {
    const table = this.find(asked, NFTA_CHAIN_TABLE);
    const chain = table.chains.get(asked.fields.text(NFTA_CHAIN_NAME) ?? '');
    if (chain === undefined) throw new Refused(ENOENT, asked.fields.at(NFTA_CHAIN_NAME) - 4);
    if ((asked.flags & NLM_F_NONREC) !== 0 && chain.rules.length > 0) throw new Refused(EBUSY);
    this.#tellRulesGone(table, chain);
    // A rule of its own that leads to the chain keeps it too.
    const isUsed = isChainUsed(table, chain.name);
    this.putRules(table, chain, []);
    if (isUsed) throw new Refused(EBUSY, asked.fields.at(NFTA_CHAIN_NAME) - 4);
    const own = this.own(table);
    own.chains.delete(chain.name);
    this.told(NFT_MSG_DELCHAIN, () => chainBody(table, chain));
  }

  #tellRulesGone(table: Table, chain: Chain): void {
    for (const rule of chain.rules) this.told(NFT_MSG_DELRULE, () => ruleBody(table, chain, rule));
  }
}

type SetElement = SetOf['elements'] extends ReadonlyMap<string, infer E> ? E : never;

/** The attributes about the hook of a base chain. Throws Refused for one that the kernel does not have. */
function hookOf({ fields, bytes }: Asked): Buffer | undefined {
  const at = fields.at(NFTA_CHAIN_HOOK);
  if (at < 0) {
    if (fields.has(CHAIN_POLICY)) throw new Refused(EOPNOTSUPP, fields.at(CHAIN_POLICY) - 4);
    return undefined;
  }
  const hook = new Fields(bytes, at, at + valueLength(bytes, at));
  const [number, priority] = [hook.number(NFTA_HOOK_HOOKNUM), hook.number(NFTA_HOOK_PRIORITY)];
  if (number === undefined || priority === undefined) throw new Refused(EINVAL);
  if (number > 4) throw new Refused(EOPNOTSUPP);
  const type = fields.text(NFTA_CHAIN_TYPE) ?? 'filter';
  if (!['nat', 'filter', 'route'].includes(type)) throw new Refused(ENOENT, fields.at(NFTA_CHAIN_TYPE) - 4);
  if (type === 'nat' && ((priority | 0) <= CONNTRACK || number === 2)) throw new Refused(EOPNOTSUPP);
  return kept(bytes, 20, bytes.length, [NFTA_CHAIN_HOOK, NFTA_CHAIN_TYPE, CHAIN_POLICY, CHAIN_FLAGS]);
}

/** A chain keeps its hook. `at`: the offset of its name. Throws Refused. */
function mustHaveHook({ hook: before }: Chain, hook: Buffer, at: number): void {
  const facts = (raw: Buffer, type: number) => kept(raw, 0, raw.length, [type]);
  const isSame = (type: number) => before !== undefined && facts(before, type).equals(facts(hook, type));
  if (before === undefined) throw new Refused(EEXIST, at);
  if (!isSame(NFTA_CHAIN_HOOK)) throw new Refused(EOPNOTSUPP);
  if (!isSame(NFTA_CHAIN_TYPE)) throw new Refused(EEXIST, at);
}
