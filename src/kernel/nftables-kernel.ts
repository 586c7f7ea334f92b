/**
 * The kernel's objects of nftables mode: one table for each family, read as a whole and written in transactions. Objects are data;
 * `nftables-encoding.ts` makes netlink requests of them, and `nftables-netlink.ts` sends these.
 */
import type { Family } from '../base/address.ts';
import type { Committer, TouchedTable } from './ruleset-notices.ts';

/** The name of slicewire's table in each family. */
export const TABLE = 'slicewire';

/** Index of a register: a rule has 16 words of 4 bytes, numbered from 0. */
export type Word = number;
/** Bytes as text, each byte a character of Latin-1. */
export type Latin1Bytes = string;

/** The destination of a packet when a rule matches. */
export type Verdict =
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  | { readonly kind: 'drop' | 'return' | 'accept' };

/** An expression of a rule. A rule ends at the first expression that does not match. An address takes one word, or four for IPv6. */
export type Expression =
  | { readonly do: 'load'; readonly what: PacketField; readonly to: Word }
  | { readonly do: 'compare'; readonly from: Word; readonly is: 'equal' | 'other'; readonly value: Latin1Bytes }
  /** `(words & mask) ^ flip` */
  | { readonly do: 'mask'; readonly at: Word; readonly mask: Latin1Bytes; readonly flip: Latin1Bytes }
  | {
      readonly do: 'lookup';
      readonly set: string;
      readonly from: Word;
      readonly to?: Word | 'verdict';
    }
  /** A random number from `first` to `first + count - 1`. */
  | { readonly do: 'random'; readonly count: number; readonly first: number; readonly to: Word }
  /** A number from `first` to `first + count - 1` that depends on these bytes alone (`jenkinsNumber`). */
  | {
      readonly do: 'hash';
      readonly from: Word;
      readonly bytes: number;
      readonly seed: number;
      readonly count: number;
      readonly first: number;
      readonly to: Word;
    }
  | { readonly do: 'value'; readonly to: Word; readonly value: Latin1Bytes }
  /** Adds the word to the set, or renews it; the element expires after so many seconds. */
  | { readonly do: 'remember'; readonly set: string; readonly key: Word; readonly seconds: number }
  /** Goes on for packets beyond the rate: so many a second, after so many at once. */
  | { readonly do: 'over-rate'; readonly perSecond: number; readonly burst: number }
  /** Goes on where more connections are open of those that met it; with `per` of those with the same word, which the set has. */
  | {
      readonly do: 'over-connections';
      readonly most: number;
      readonly per?: { readonly set: string; readonly key: Word };
    }
  /** Counts the packets that come so far in the rule. */
  | { readonly do: 'count' }
  | { readonly do: 'set-mark'; readonly from: Word }
  | { readonly do: 'translate'; readonly address: Word; readonly port: Word }
  /** `reject` answers that the port is unreachable; `reset tcp` answers a packet of TCP with a reset. */
  | { readonly do: 'masquerade' | 'reject' | 'reset tcp' }
  | { readonly do: 'verdict'; readonly verdict: Verdict };

/** A field of the packet, its connection or its addresses that `load` copies into words. */
export type PacketField =
  | 'source address'
  | 'destination address'
  | 'protocol'
  | 'source port'
  | 'destination port'
  | 'mark'
  | 'input interface'
  | 'connection state'
  | 'connection status'
  | 'kind of source address'
  | 'kind of destination address';

export interface NftRule {
  /** The comment of the rule in the kernel, for people. It identifies the rule when it is read back. At most 120 characters. */
  readonly text: string;
  readonly expressions: readonly Expression[];
}

/**
 * An expression as it was read. `load-part`: the first bytes of a field, as the nft tool loads a prefix; a table that it saved and
 * loaded has such. Other programs can write expressions that slicewire never does: `name` is the kernel's name of such a one.
 */
export type ReadExpression =
  | Expression
  /** The rule goes on where the set lacks the key. */
  | { readonly do: 'lookup-absence'; readonly set: string; readonly from: Word }
  | { readonly do: 'load-part'; readonly what: PacketField; readonly bytes: number; readonly to: Word }
  | { readonly do: 'unknown'; readonly name: string };

/** A rule as it was read. */
export interface ReadRule {
  /** Its comment; "" for none. */
  readonly text: string;
  /** Decoded when first asked for. */
  readonly expressions: readonly ReadExpression[];
}

/** A chain of the kernel's packet path. */
export interface Hook {
  readonly type: 'nat' | 'filter';
  readonly hook: 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting';
  readonly priority: number;
}

/** A part of a key or value, padded to whole words. `number` is in the machine's byte order. */
export type KeyField = 'address' | 'protocol' | 'port' | 'number';

export interface NftSet {
  readonly name: string;
  readonly key: readonly KeyField[];
  /** The data of a map; undefined for a set. */
  readonly data?: 'verdict' | readonly KeyField[];
  /** Elements are ranges in the last field. */
  readonly hasRanges?: boolean;
  /** Packets add the elements, and these expire or, of a tally, go with their last connection. */
  readonly isMemory?: boolean;
  /** Of a memory: an element does not expire, but counts its open connections, and goes with the last one. */
  readonly isTally?: boolean;
  /** Every element counts its matches. */
  readonly isCounting?: boolean;
}

export interface NftElement {
  readonly key: Latin1Bytes;
  /** The end of a range; "" for one key. */
  readonly end: Latin1Bytes;
  /** The words of a map, or `goto CHAIN` or `drop` in a map of verdicts; "" in a set. Other programs can write other verdicts. */
  readonly data: string;
  /** Whether it counts its matches. */
  readonly isCounted?: true;
}

/** A write; several of them are one transaction. */
export type NftWrite =
  | { readonly kind: 'add-table' | 'delete-table' }
  | { readonly kind: 'add-chain'; readonly chain: string; readonly hook?: Hook | undefined }
  | { readonly kind: 'flush-chain' | 'delete-chain'; readonly chain: string }
  | { readonly kind: 'add-rule'; readonly chain: string; readonly rule: NftRule }
  | { readonly kind: 'add-set'; readonly set: NftSet }
  | { readonly kind: 'delete-set'; readonly set: string }
  | {
      readonly kind: 'add-elements' | 'delete-elements';
      readonly set: NftSet;
      readonly elements: readonly NftElement[];
    };

/** A chain as it was read. */
export interface ReadChain {
  readonly hook?: Hook;
  readonly rules: readonly ReadRule[];
}

/** slicewire's table as the kernel has it. */
export interface NftState {
  readonly chains: ReadonlyMap<string, ReadChain>;
  /** Elements by set; empty for sets whose elements packets add. */
  readonly sets: ReadonlyMap<string, readonly NftElement[]>;
}

/** Some objects of slicewire's table as the kernel has them; undefined: there is no such object. */
export interface NftPart {
  readonly chains: ReadonlyMap<string, ReadChain | undefined>;
  /** By set and key. */
  readonly elements: ReadonlyMap<string, ReadonlyMap<Latin1Bytes, NftElement | undefined>>;
  /** All elements of some sets. */
  readonly sets: ReadonlyMap<string, readonly NftElement[]>;
}

/** The objects of a table of ours that other programs touched. */
export interface NftTouched extends TouchedTable {
  /** The last program that touched one of them, or otherwise the last that wrote. */
  readonly by?: Committer | undefined;
}

/** A write that the kernel refused. */
export interface NftRefusal {
  /** Index of the write. */
  readonly write: number;
  /** Index of the refused element in that write, where the kernel names it. */
  readonly element: number | undefined;
  readonly cause: string;
  /** `content`: the kernel refuses the write. `environment`: it cannot be written now. `use`: the object to delete is in use for a short time. */
  readonly blame: 'content' | 'environment' | 'use';
}

/** The program that committed a transaction. */
export interface NftWriter extends Committer {
  /** Whether it is this process. */
  readonly isUs: boolean;
}

/** A table as an agent left it. */
export interface LeftTable {
  /** New when the table is created again. */
  readonly handle: bigint;
  /** The ruleset generation at which the table had this content. */
  readonly generation: number;
  /** Over all of slicewire's objects in it. */
  readonly digest: string;
}

/** Digests of tables as they were when they were last read or written. */
export interface TableLabels {
  /** Notes that the table, as it was last read or written, has this digest. The next read or write of the table drops the label. */
  label(family: Family, digest: string): void;
  /** The tables with a label, each with the last generation at which it is known to have had this content. */
  readonly labelled: ReadonlyMap<Family, LeftTable>;
  /** Whether no program has written since the table was left. Throws when the kernel does not answer. */
  isAsLeft(family: Family, left: LeftTable): boolean;
  /** Makes the table count as read at the generation at which it was left, with the label. */
  believe(family: Family, left: LeftTable): void;
}

/** The kernel's nftables, behind an interface. */
export interface NftKernel {
  /** Bytes of the longest transaction; undefined when there is no limit. */
  readonly room?: number | undefined;
  /** The table of a family; undefined when there is none. Throws when it cannot be read. */
  read(family: Family): Promise<NftState | undefined>;
  /** As `read`, but at any time, also during a `read`. `isUnchanged` and `presence` do not refer to this reading. */
  inspect(family: Family): Promise<NftState | undefined>;
  /** Whether only `commit` has changed the ruleset since `read`. Throws when the kernel does not answer. */
  isUnchanged(family: Family): boolean;
  /** The number of matches of each element of a counting set, by key. Throws when the set cannot be read. */
  counts(family: Family, set: string): Promise<ReadonlyMap<Latin1Bytes, number>>;
  /** Packets that the rules of these chains counted, in the order of the rules, without those that do not count. Throws when they cannot be read. */
  ruleCounts(family: Family, chains: readonly string[]): Promise<ReadonlyMap<string, readonly number[]>>;
  /** Seconds until each element of a memory expires, by key; empty when there is no such set. Throws when it cannot be read. */
  expirations(family: Family, set: string): Promise<ReadonlyMap<Latin1Bytes, number>>;
  /** The program that committed the last transaction of any table; undefined where the kernel does not tell. */
  lastWriter(): NftWriter | undefined;
  /**
   * The objects of the table that other programs touched since it was last read or written; undefined where notices are missing, or too much
   * was touched. If nothing was touched, the table is unchanged. Throws when the kernel does not answer.
   */
  touched?(family: Family): Promise<NftTouched | undefined>;
  /**
   * Reads these objects, after which the whole table is known; undefined when another program touched further objects meanwhile. Throws when
   * they cannot be read.
   */
  readPart?(family: Family, touched: NftTouched): Promise<NftPart | undefined>;
  /** For the record of the tables that the agent leaves; missing in kernels of tests. */
  readonly seen?: TableLabels;
  /** Writes all or nothing; returns the refusals, none after success. Throws when the outcome is unknown. */
  commit(family: Family, writes: readonly NftWrite[]): Promise<readonly NftRefusal[]>;
  /** Whether the table is as it was last read or written. It costs little. */
  presence(family: Family): Promise<TablePresence>;
}

/**
 * `unclear`: it is the same table, but a program wrote to the ruleset since then, and it is time to read the table. `resting`: the same soon after
 * a reading that took long.
 */
export type TablePresence = 'yes' | 'no' | 'unclear' | 'resting';

/** A table of any program. */
export interface AnyTable {
  readonly chains: ReadonlyMap<string, ReadChain>;
  /** Those whose keys have fields of `KeyField` alone, and no element for all other keys. */
  readonly sets: ReadonlyMap<string, NftSet>;
  /** By set; empty for sets whose elements packets add. */
  readonly elements: ReadonlyMap<string, readonly NftElement[]>;
}

/** A table of any program, of which each object is read when it is first asked for. All throw when the kernel does not answer. */
export interface LookedUpTable {
  readonly isThere: boolean;
  /** The chains that the kernel calls. They are read once for a table, because a list of all its chains takes long. */
  readonly hooks: ReadonlyMap<string, Hook>;
  rules(chain: string): readonly ReadRule[] | undefined;
  set(name: string): NftSet | undefined;
  /** An element by its exact key, in whole words. An element for all other keys is not seen. */
  element(set: string, key: Latin1Bytes): NftElement | undefined;
  elements(set: string): Iterable<NftElement>;
  /** Forgets what was read where any program has written since, and returns whether it did. `hasHooks`: forgets all, also the hooks. */
  renew(hasHooks?: boolean): boolean;
}

/** Reads the content of tables of any program. */
export interface AnyTables {
  /** A table, whether there is one or not. Throws when the kernel does not answer. */
  lookUp(family: Family, table: string): LookedUpTable;
  /** Undefined when there is none. Throws when it cannot be read. */
  readTable(family: Family, table: string): Promise<AnyTable | undefined>;
  /** Seconds until an element expires; undefined when it stays, or there is none. Throws when the kernel does not answer. */
  expiration(
    family: Family,
    table: string,
    at: { readonly set: string; readonly key: Latin1Bytes },
  ): number | undefined;
}

/** Tables of any program. */
export interface NftTables {
  /** Throws when the kernel does not answer. */
  hasTable(family: Family, table: string): boolean;
  /** The keys of a set's elements; empty when the set does not exist. Throws when it cannot be read. */
  keys(family: Family, table: string, set: string): Promise<readonly Latin1Bytes[]>;
  /** Whether there is such a table that the kernel calls for no packet. Throws when the kernel does not answer. */
  isDormant(family: Family, table: string): boolean;
  /** Changes tables that exist, all in one transaction. Throws when the kernel refuses it; nothing is changed then. */
  changeTables(changes: readonly TableChange[]): void;
}

/** A table, and what becomes of it. The kernel calls a dormant one for no packet, and keeps all that is in it (`flags dormant` of nft(8)). */
export interface TableChange {
  readonly family: Family;
  readonly table: string;
  readonly to: 'dormant' | 'awake' | 'gone';
}

/** This kernel lacks a part that nftables mode needs, or denies permission. */
export class NftUnusable extends Error {
  readonly code: string = 'NFT_UNUSABLE';
}

/** This kernel has no nftables, and so no tables. */
export class NftMissing extends NftUnusable {
  override readonly code = 'NFT_MISSING';
}
