/**
 * What nftables mode asks of the kernel: one table a family, read as a whole, written in transactions. Objects are data here;
 * in between it is netlink (`nftables-netlink.ts`).
 */
import type { Family } from '../model/address.ts';

/** The n-th of 16 words of 4 bytes in which a rule works, from 0. */
export type Word = number;
/** Bytes, each a character of Latin-1. */
export type Bytes = string;

export type Verdict = { readonly kind: 'jump' | 'goto'; readonly chain: string } | { readonly kind: 'drop' | 'return' };

/** One expression of a rule; a rule ends at the first that does not hold. Addresses take as many words as their family needs. */
export type Expression =
  | { readonly do: 'load'; readonly what: Loaded; readonly to: Word }
  | { readonly do: 'compare'; readonly from: Word; readonly is: 'equal' | 'other'; readonly value: Bytes }
  /** `(words & mask) ^ flip` */
  | { readonly do: 'mask'; readonly at: Word; readonly mask: Bytes; readonly flip: Bytes }
  | {
      readonly do: 'lookup';
      readonly set: string;
      readonly from: Word;
      readonly to?: Word | 'verdict';
    }
  /** A number from `first` on, of `count`. */
  | { readonly do: 'random'; readonly count: number; readonly first: number; readonly to: Word }
  | { readonly do: 'value'; readonly to: Word; readonly value: Bytes }
  /** What a word holds is in the set for so long, from now on. */
  | { readonly do: 'remember'; readonly set: string; readonly key: Word; readonly seconds: number }
  | { readonly do: 'set-mark'; readonly from: Word }
  | { readonly do: 'translate'; readonly address: Word; readonly port: Word }
  | { readonly do: 'masquerade' | 'reject' }
  | { readonly do: 'verdict'; readonly verdict: Verdict };

export type Loaded =
  | 'source address'
  | 'destination address'
  | 'protocol'
  | 'destination port'
  | 'mark'
  | 'input interface'
  | 'connection state'
  | 'connection status'
  | 'kind of source address'
  | 'kind of destination address';

export interface NftRule {
  /** What it does, for people: its comment in the kernel, by which it is known again. At most 120 characters. */
  readonly text: string;
  readonly expressions: readonly Expression[];
}

export interface Hook {
  readonly type: 'nat' | 'filter';
  readonly hook: 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting';
  readonly priority: number;
}

/** What a key or value is put together from, each in whole words. `number`: in the machine's byte order. */
export type Field = 'address' | 'protocol' | 'port' | 'number';

export interface NftSet {
  readonly name: string;
  readonly key: readonly Field[];
  /** undefined: a set. */
  readonly data?: 'verdict' | readonly Field[];
  /** Elements are ranges in the last field. */
  readonly hasRanges?: boolean;
  /** Elements come from packets, and time out. */
  readonly isMemory?: boolean;
  /** All of its elements count how often they are found. */
  readonly isCounting?: boolean;
}

export interface NftElement {
  readonly key: Bytes;
  /** The end of a range; "" for one key. */
  readonly end: Bytes;
  /** Words of a map; `goto CHAIN` or `drop` of a map of verdicts; "" in a set. */
  readonly data: string;
  /** It counts how often it was found. */
  readonly isCounted?: true;
}

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

/** What the kernel has of our table. Rules are told by their texts. */
export interface NftState {
  readonly chains: ReadonlyMap<string, { readonly rules: readonly string[] }>;
  /** Elements by set; none of sets that are memories. */
  readonly sets: ReadonlyMap<string, readonly NftElement[]>;
}

/** A write that the kernel refused, and which of its elements, where it says. */
export interface NftRefusal {
  readonly write: number;
  readonly element: number | undefined;
  readonly cause: string;
  /** What was written was refused; or it could not be written now; or what was to be deleted is still in use, and will not be for long. */
  readonly blame: 'content' | 'environment' | 'use';
}

export interface NftKernel {
  /** Bytes of the longest transaction; undefined: as long as any. */
  readonly room?: number | undefined;
  /** undefined: there is no table of ours. Throws when it cannot be read. */
  read(family: Family): Promise<NftState | undefined>;
  /** Whether nobody wrote anything since the table was read here, but by `commit` here. Throws when it cannot be asked. */
  isUnchanged(family: Family): boolean;
  /** How often each element of a set that counts was found, by key. Throws when it cannot be read. */
  counts(family: Family, set: string): Promise<ReadonlyMap<Bytes, number>>;
  /** All of it, or nothing; what was refused, none when it was written. Throws when nobody knows. */
  commit(family: Family, writes: readonly NftWrite[]): Promise<readonly NftRefusal[]>;
  /** Whether the table stands as it was read or written here. Cheap. */
  stands(family: Family): Promise<Standing>;
}

/** `unclear`: it is the same table, but somebody wrote something since, and reading it to see what is due. */
export type Standing = 'yes' | 'no' | 'unclear';

/** Tables as a whole, of whomever. */
export interface NftTables {
  /** Throws when the kernel does not say. */
  hasTable(family: Family, table: string): boolean;
  /** Keys of the elements of a set; none when there is no such set. Throws when it cannot be read. */
  keys(family: Family, table: string, set: string): Promise<readonly Bytes[]>;
  /** Throws when it cannot be deleted. */
  deleteTable(family: Family, table: string): void;
}

/** This kernel cannot do what nftables mode needs. */
export class NftUnusable extends Error {
  readonly code: string = 'NFT_UNUSABLE';
}

/** This kernel has no nftables at all, and so no table of anybody. */
export class NftMissing extends NftUnusable {
  override readonly code = 'NFT_MISSING';
}
