/** The objects of the simulated nftables. What was committed never changes: a transaction makes new objects. */
import { attributes, findAttribute, textAt, valueLength } from '../../../../native/netlink.ts';
import {
  NFTA_DATA_VERDICT,
  NFTA_DYNSET_SET_NAME,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_IMMEDIATE_DATA,
  NFTA_LOOKUP_DREG,
  NFTA_LOOKUP_SET,
  NFTA_VERDICT_CHAIN,
} from '../../../../native/nft/constants.ts';

export interface Rule {
  readonly handle: number;
  /** Its attributes, as they were written, without its table, chain and handle. */
  readonly raw: Buffer;
  readonly uses: Uses;
}

/** What an expression leads to. */
export interface Uses {
  readonly chains: readonly string[];
  readonly sets: readonly string[];
}

export interface Chain {
  readonly name: string;
  readonly handle: number;
  /** The attributes about its hook; undefined for a chain without one. */
  readonly hook: Buffer | undefined;
  readonly rules: readonly Rule[];
}

export interface Element {
  /** Bytes as text of Latin-1. */
  readonly key: string;
  /** The end of a range; "" for one key. */
  readonly end: string;
  /** Its attributes, as they were written. */
  readonly raw: Buffer;
  /** The content of its data; undefined in a set. */
  readonly data: Buffer | undefined;
  /** The chain of its verdict. */
  readonly chain: string | undefined;
  /** Milliseconds of simulated time; undefined for an element that stays. */
  readonly expiresAt: number | undefined;
}

export interface SetOf {
  readonly name: string;
  readonly handle: number;
  /** Its attributes, as they were written, without its table and name. */
  readonly raw: Buffer;
  readonly flags: number;
  readonly keyLength: number;
  /** Bytes of the data of a map; `verdict` for a map of verdicts, undefined for a set. */
  readonly data: number | 'verdict' | undefined;
  /** Bytes of the fields of a concatenation with ranges. */
  readonly fields: readonly number[];
  readonly elements: ReadonlyMap<string, Element>;
}

export interface Table {
  /** NFPROTO_… */
  readonly family: number;
  readonly name: string;
  readonly handle: number;
  readonly flags: number;
  /** Its comment. */
  readonly raw: Buffer;
  /** The socket to which it belongs. */
  readonly owner: number | undefined;
  /** The handle of the newest object in it. */
  readonly handles: number;
  readonly chains: ReadonlyMap<string, Chain>;
  readonly sets: ReadonlyMap<string, SetOf>;
}

/** By `tableKey`. */
export type Ruleset = ReadonlyMap<string, Table>;

export function tableKey(family: number, name: string): string {
  return `${family} ${name}`;
}

/** What keeps the chain in use: rules of other chains, and elements. */
export function isChainUsed(table: Table, name: string): boolean {
  for (const { rules } of table.chains.values())
    for (const { uses } of rules) if (uses.chains.includes(name)) return true;
  for (const { data, elements } of table.sets.values()) {
    if (data !== 'verdict') continue;
    for (const { chain } of elements.values()) if (chain === name) return true;
  }
  return false;
}

export function isSetUsed(table: Table, name: string): boolean {
  for (const { rules } of table.chains.values())
    for (const { uses } of rules) if (uses.sets.includes(name)) return true;
  return false;
}

/** One use, and the offset of its expression. */
export interface Use {
  readonly kind: 'chain' | 'set' | 'map';
  readonly name: string;
  readonly at: number;
}

/** What the expressions of a rule lead to; `list`: the offset of the content of NFTA_RULE_EXPRESSIONS, or below 0. */
export function usesIn(buffer: Buffer, list: number): Use[] {
  if (list < 0) return [];
  const found: Use[] = [];
  for (const [at, length] of attributes(buffer, list, list + valueLength(buffer, list))) {
    const name = textAt(buffer, at, at + length, NFTA_EXPR_NAME);
    const data = findAttribute(buffer, at, at + length, NFTA_EXPR_DATA);
    if (data < 0) continue;
    const end = data + valueLength(buffer, data);
    const add = (kind: Use['kind'], what: string | undefined) => {
      if (what !== undefined) found.push({ kind, name: what, at: at - 4 });
    };
    if (name === 'immediate') add('chain', verdictChain(buffer, findAttribute(buffer, data, end, NFTA_IMMEDIATE_DATA)));
    else if (name === 'lookup') {
      const isMap = findAttribute(buffer, data, end, NFTA_LOOKUP_DREG) >= 0;
      add(isMap ? 'map' : 'set', textAt(buffer, data, end, NFTA_LOOKUP_SET));
    } else if (name === 'dynset') add('set', textAt(buffer, data, end, NFTA_DYNSET_SET_NAME));
  }
  return found;
}

/** The chain of a verdict in data at this offset; undefined for other data. */
export function verdictChain(buffer: Buffer, data: number): string | undefined {
  if (data < 0) return undefined;
  const verdict = findAttribute(buffer, data, data + valueLength(buffer, data), NFTA_DATA_VERDICT);
  return verdict < 0 ? undefined : textAt(buffer, verdict, verdict + valueLength(buffer, verdict), NFTA_VERDICT_CHAIN);
}

export function isVerdict(buffer: Buffer, data: number): boolean {
  return findAttribute(buffer, data, data + valueLength(buffer, data), NFTA_DATA_VERDICT) >= 0;
}
