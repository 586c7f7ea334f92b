/** Questions to the simulated nftables: one object, or a listing in several datagrams (nf_tables_api.c, nf_tables_get… and nf_tables_dump_…). */
import { EINVAL, ENOENT, EOPNOTSUPP } from '../../../../native/errno.ts';
import { attributes, valueLength } from '../../../../native/netlink.ts';
import { netfilterType } from '../../../../native/nfnetlink.ts';
import { Fields } from '../../../../native/nft/attributes.ts';
import {
  NFT_MSG_GETRULE,
  NFT_MSG_GETSET,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFTA_RULE_CHAIN,
  NFTA_RULE_HANDLE,
  NFTA_RULE_TABLE,
  NFTA_SET_ELEM_KEY,
  NFTA_SET_ELEM_LIST_ELEMENTS,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
  NFTA_SET_NAME,
  NFTA_SET_TABLE,
  NFTA_TABLE_NAME,
} from '../../../../native/nft/constants.ts';
import {
  NFNL_SUBSYS_NFTABLES,
  NFT_MSG_GETCHAIN,
  NFT_MSG_NEWCHAIN,
  NFTA_CHAIN_NAME,
  NFTA_CHAIN_TABLE,
} from '../../../../native/nftables.ts';
import { Refused, type Said } from '../netlink/format.ts';
import type { Listed } from '../netlink/listing.ts';
import { type Asked, u64At } from './format.ts';
import { chainBody, elementsBody, ruleBody, setBody, tableBody } from './listing.ts';
import { type Element, type Ruleset, type SetOf, type Table, tableKey } from './ruleset.ts';

/** What the kernel has at this moment. */
export interface Now {
  readonly ruleset: Ruleset;
  readonly generation: number;
  /** Milliseconds of simulated time. */
  readonly time: number;
}

const FAMILY_ANY = 0;

/** The answers to a question about single objects. Throws Refused. */
export function answersTo(asked: Asked, now: Now): readonly Said[] {
  const { fields } = asked;
  switch (asked.type) {
    case NFT_MSG_GETTABLE:
      return [{ type: NFT_MSG_NEWTABLE, body: tableBody(tableOf(asked, NFTA_TABLE_NAME, now)) }];
    case NFT_MSG_GETCHAIN: {
      const table = tableOf(asked, NFTA_CHAIN_TABLE, now);
      const chain = table.chains.get(fields.text(NFTA_CHAIN_NAME) ?? '');
      if (chain === undefined) throw new Refused(ENOENT, fields.at(NFTA_CHAIN_NAME) - 4);
      return [{ type: NFT_MSG_NEWCHAIN, body: chainBody(table, chain) }];
    }
    case NFT_MSG_GETRULE: {
      const table = tableOf(asked, NFTA_RULE_TABLE, now);
      const chain = table.chains.get(fields.text(NFTA_RULE_CHAIN) ?? '');
      const handle = u64At(fields, NFTA_RULE_HANDLE);
      const rule = chain?.rules.find((one) => one.handle === handle);
      if (chain === undefined || rule === undefined) throw new Refused(ENOENT);
      return [{ type: NFT_MSG_NEWRULE, body: ruleBody(table, chain, rule) }];
    }
    case NFT_MSG_GETSET: {
      const table = tableOf(asked, NFTA_SET_TABLE, now);
      return [{ type: NFT_MSG_NEWSET, body: setBody(table, setOf(table, asked, NFTA_SET_NAME)) }];
    }
    case NFT_MSG_GETSETELEM:
      return elementsAsked(asked, now);
    default:
      throw new Refused(EINVAL);
  }
}

function elementsAsked(asked: Asked, now: Now): Said[] {
  const { fields, bytes } = asked;
  const table = tableOf(asked, NFTA_SET_ELEM_LIST_TABLE, now);
  const set = setOf(table, asked, NFTA_SET_ELEM_LIST_SET);
  const list = fields.at(NFTA_SET_ELEM_LIST_ELEMENTS);
  if (list < 0) throw new Refused(EINVAL);
  const found: Said[] = [];
  for (const [at, length] of attributes(bytes, list, list + valueLength(bytes, list))) {
    const key = new Fields(bytes, at, at + length).value(NFTA_SET_ELEM_KEY);
    const element = living(set, now).find((one) => one.key === key);
    if (element === undefined) throw new Refused(ENOENT, at - 4);
    found.push({ type: NFT_MSG_NEWSETELEM, body: elementsBody(table, set, [element], now.time) });
  }
  return found;
}

function living(set: SetOf, { time }: Now): Element[] {
  return [...set.elements.values()].filter(({ expiresAt }) => expiresAt === undefined || expiresAt > time);
}

function tableOf({ family, fields }: Asked, attribute: number, { ruleset }: Now): Table {
  const name = fields.text(attribute);
  if (name === undefined) throw new Refused(EINVAL);
  const table = ruleset.get(tableKey(family, name));
  if (table === undefined) throw new Refused(ENOENT, fields.at(attribute) - 4);
  return table;
}

function setOf(table: Table, { fields }: Asked, attribute: number): SetOf {
  const set = table.sets.get(fields.text(attribute) ?? '');
  if (set === undefined) throw new Refused(ENOENT, fields.at(attribute) - 4);
  return set;
}

/** The content of a listing. When the generation has moved meanwhile, the kernel marks what it says. */
export function listedBy(asked: Asked, now: () => Now): Listed {
  const stampedAt = (moment: Now, { type, body }: Said) => ({
    type: netfilterType(NFNL_SUBSYS_NFTABLES, type),
    body: stamped(body, moment),
  });
  return {
    entries() {
      const moment = now();
      return entriesOf(asked, moment).map((entry) => () => stampedAt(moment, entry()));
    },
    version: () => now().generation,
  };
}

/** The body with the generation in its header. */
export function stamped(body: Buffer, { generation }: Pick<Now, 'generation'>): Buffer {
  body.writeUInt16BE(generation & 0xffff, 2);
  return body;
}

function entriesOf(asked: Asked, now: Now): readonly (() => Said)[] {
  const { family, fields } = asked;
  const tables = [...now.ruleset.values()].filter((table) => family === FAMILY_ANY || table.family === family);
  const only = (attribute: number) => {
    const name = fields.text(attribute);
    return name === undefined ? tables : tables.filter((table) => table.name === name);
  };
  switch (asked.type) {
    case NFT_MSG_GETTABLE:
      return tables.map((table) => () => ({ type: NFT_MSG_NEWTABLE, body: tableBody(table) }));
    case NFT_MSG_GETCHAIN:
      // The kernel lists the chains of all tables of the family, whatever table is asked for.
      return tables.flatMap((table) =>
        [...table.chains.values()].map((chain) => () => ({ type: NFT_MSG_NEWCHAIN, body: chainBody(table, chain) })),
      );
    case NFT_MSG_GETRULE:
      return only(NFTA_RULE_TABLE).flatMap((table) => rulesOf(table, fields.text(NFTA_RULE_CHAIN)));
    case NFT_MSG_GETSET: {
      if (fields.has(NFTA_SET_TABLE)) tableOf(asked, NFTA_SET_TABLE, now);
      return only(NFTA_SET_TABLE).flatMap((table) =>
        [...table.sets.values()].map((set) => () => ({ type: NFT_MSG_NEWSET, body: setBody(table, set) })),
      );
    }
    case NFT_MSG_GETSETELEM: {
      const table = tableOf(asked, NFTA_SET_ELEM_LIST_TABLE, now);
      const set = setOf(table, asked, NFTA_SET_ELEM_LIST_SET);
      return living(set, now).map((element) => () => ({
        type: NFT_MSG_NEWSETELEM,
        body: elementsBody(table, set, [element], now.time),
      }));
    }
    default:
      throw new Refused(EOPNOTSUPP);
  }
}

function rulesOf(table: Table, only: string | undefined): (() => Said)[] {
  const chains = [...table.chains.values()].filter(({ name }) => only === undefined || name === only);
  return chains.flatMap((chain) =>
    chain.rules.map((rule, i) => () => ({
      type: NFT_MSG_NEWRULE,
      body: ruleBody(table, chain, rule, chain.rules[i - 1]),
    })),
  );
}
