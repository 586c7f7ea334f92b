/** Objects as the kernel lists them (nf_tables_api.c, nf_tables_fill_table_info and its like). Bodies begin with an empty struct nfgenmsg but for the family. */
import { attribute, nested } from '../../../../native/netlink.ts';
import {
  NFTA_LIST_ELEM,
  NFTA_RULE_CHAIN,
  NFTA_RULE_HANDLE,
  NFTA_RULE_TABLE,
  NFTA_SET_ELEM_EXPIRATION,
  NFTA_SET_ELEM_LIST_ELEMENTS,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
  NFTA_SET_NAME,
  NFTA_SET_TABLE,
  NFTA_TABLE_FLAGS,
  NFTA_TABLE_HANDLE,
  NFTA_TABLE_NAME,
} from '../../../../native/nft/constants.ts';
import { NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE } from '../../../../native/nftables.ts';
import { textAttribute, u32, u64 } from '../netlink/format.ts';
import { NFTA_CHAIN_HANDLE, NFTA_RULE_POSITION, NFTA_SET_HANDLE, NFTA_TABLE_OWNER, objectHeader } from './format.ts';
import type { Chain, Element, Rule, SetOf, Table } from './ruleset.ts';

/** The generation is written over the header when the message is sent. */
const start = ({ family }: Table) => objectHeader(family, 0);

export function tableBody(table: Table): Buffer {
  return Buffer.concat([
    start(table),
    textAttribute(NFTA_TABLE_NAME, table.name),
    attribute(NFTA_TABLE_FLAGS, u32(table.flags)),
    attribute(NFTA_TABLE_HANDLE, u64(table.handle)),
    ...(table.owner === undefined ? [] : [attribute(NFTA_TABLE_OWNER, u32(table.owner))]),
    table.raw,
  ]);
}

export function chainBody(table: Table, { name, handle, hook }: Chain): Buffer {
  return Buffer.concat([
    start(table),
    textAttribute(NFTA_CHAIN_TABLE, table.name),
    textAttribute(NFTA_CHAIN_NAME, name),
    attribute(NFTA_CHAIN_HANDLE, u64(handle)),
    ...(hook === undefined ? [] : [hook]),
  ]);
}

/** `before`: the rule before it in its chain. */
export function ruleBody(table: Table, chain: Chain, rule: Rule, before?: Rule): Buffer {
  return Buffer.concat([
    start(table),
    textAttribute(NFTA_RULE_TABLE, table.name),
    textAttribute(NFTA_RULE_CHAIN, chain.name),
    attribute(NFTA_RULE_HANDLE, u64(rule.handle)),
    ...(before === undefined ? [] : [attribute(NFTA_RULE_POSITION, u64(before.handle))]),
    rule.raw,
  ]);
}

export function setBody(table: Table, { name, handle, raw }: SetOf): Buffer {
  return Buffer.concat([
    start(table),
    textAttribute(NFTA_SET_TABLE, table.name),
    textAttribute(NFTA_SET_NAME, name),
    attribute(NFTA_SET_HANDLE, u64(handle)),
    raw,
  ]);
}

/** `now`: milliseconds of simulated time. */
export function elementsBody(table: Table, { name }: SetOf, elements: readonly Element[], now: number): Buffer {
  const list = elements.map((element) => elementAttribute(element, now));
  return Buffer.concat([
    start(table),
    textAttribute(NFTA_SET_ELEM_LIST_TABLE, table.name),
    textAttribute(NFTA_SET_ELEM_LIST_SET, name),
    nested(NFTA_SET_ELEM_LIST_ELEMENTS, ...list),
  ]);
}

export function elementAttribute({ raw, expiresAt }: Element, now: number): Buffer {
  const left = expiresAt === undefined ? [] : [attribute(NFTA_SET_ELEM_EXPIRATION, u64(Math.max(0, expiresAt - now)))];
  return nested(NFTA_LIST_ELEM, raw, ...left);
}
