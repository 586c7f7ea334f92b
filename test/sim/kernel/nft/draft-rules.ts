/** Rules in a transaction (nf_tables_api.c, nf_tables_newrule and nf_tables_delrule). */
import { EEXIST, EINVAL, ENOENT, EOPNOTSUPP } from '../../../../native/errno.ts';
import { NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from '../../../../native/netlink.ts';
import {
  NFT_MSG_DELRULE,
  NFT_MSG_NEWRULE,
  NFT_SET_MAP,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_HANDLE,
  NFTA_RULE_TABLE,
  NFTA_RULE_USERDATA,
} from '../../../../native/nft/constants.ts';
import { Refused } from '../netlink/format.ts';
import type { Draft } from './draft.ts';
import { type Asked, kept, NFTA_RULE_POSITION, NLM_F_APPEND, u64At } from './format.ts';
import { ruleBody } from './listing.ts';
import { type Chain, type Rule, type Table, type Use, usesIn } from './ruleset.ts';

export function newRule(draft: Draft, asked: Asked): void {
  const { fields, bytes, flags } = asked;
  const table = draft.find(asked, NFTA_RULE_TABLE);
  const chain = chainOf(table, asked);
  const named = u64At(fields, NFTA_RULE_HANDLE);
  const replaced = named === undefined ? undefined : ruleAt(chain, named, fields.at(NFTA_RULE_HANDLE));
  if (replaced !== undefined) {
    if ((flags & NLM_F_EXCL) !== 0) throw new Refused(EEXIST, fields.at(NFTA_RULE_HANDLE) - 4);
    if ((flags & NLM_F_REPLACE) === 0) throw new Refused(EOPNOTSUPP);
  } else if ((flags & NLM_F_CREATE) === 0 || (flags & NLM_F_REPLACE) !== 0) throw new Refused(EINVAL);
  const uses = usesIn(bytes, fields.at(NFTA_RULE_EXPRESSIONS));
  for (const use of uses) mustExist(table, use);
  const rule: Rule = {
    handle: draft.handle(table),
    raw: kept(bytes, 20, bytes.length, [NFTA_RULE_EXPRESSIONS, NFTA_RULE_USERDATA]),
    uses: {
      chains: uses.filter(({ kind }) => kind === 'chain').map(({ name }) => name),
      sets: uses.filter(({ kind }) => kind !== 'chain').map(({ name }) => name),
    },
  };
  const rules = [...chain.rules];
  if (replaced !== undefined) {
    rules.splice(rules.indexOf(replaced), 1, rule);
    draft.told(NFT_MSG_DELRULE, () => ruleBody(table, chain, replaced));
  } else rules.splice(placeOf(chain, asked), 0, rule);
  draft.putRules(table, chain, rules);
  draft.told(NFT_MSG_NEWRULE, () => ruleBody(table, chain, rule));
}

/** The index for a new rule: behind or before another one, at the end, or the first. */
function placeOf(chain: Chain, { fields, flags }: Asked): number {
  const isAppended = (flags & NLM_F_APPEND) !== 0;
  const position = u64At(fields, NFTA_RULE_POSITION);
  if (position === undefined) return isAppended ? chain.rules.length : 0;
  const at = chain.rules.indexOf(ruleAt(chain, position, fields.at(NFTA_RULE_POSITION)));
  return isAppended ? at + 1 : at;
}

/** One rule, all rules of a chain, or all of a table. */
export function deleteRule(draft: Draft, asked: Asked): void {
  const { fields } = asked;
  const table = draft.find(asked, NFTA_RULE_TABLE);
  if (!fields.has(NFTA_RULE_CHAIN)) {
    for (const chain of table.chains.values()) remove(draft, table, chain, chain.rules);
    return;
  }
  const chain = chainOf(table, asked);
  const handle = u64At(fields, NFTA_RULE_HANDLE);
  remove(
    draft,
    table,
    chain,
    handle === undefined ? chain.rules : [ruleAt(chain, handle, fields.at(NFTA_RULE_HANDLE))],
  );
}

function remove(draft: Draft, table: Table, chain: Chain, rules: readonly Rule[]): void {
  if (rules.length === 0) return;
  for (const rule of rules) draft.told(NFT_MSG_DELRULE, () => ruleBody(table, chain, rule));
  draft.putRules(
    table,
    chain,
    chain.rules.filter((rule) => !rules.includes(rule)),
  );
}

function chainOf(table: Table, { fields }: Asked): Chain {
  const chain = table.chains.get(fields.text(NFTA_RULE_CHAIN) ?? '');
  if (chain === undefined) throw new Refused(ENOENT, fields.at(NFTA_RULE_CHAIN) - 4);
  return chain;
}

function ruleAt(chain: Chain, handle: number, at: number): Rule {
  const rule = chain.rules.find((one) => one.handle === handle);
  if (rule === undefined) throw new Refused(ENOENT, at - 4);
  return rule;
}

/** Throws Refused: a rule cannot lead to a missing chain or set, nor to a chain with a hook, nor take data from a set. */
function mustExist(table: Table, { kind, name, at }: Use): void {
  if (kind === 'chain') {
    const chain = table.chains.get(name);
    if (chain === undefined) throw new Refused(ENOENT, at);
    if (chain.hook !== undefined) throw new Refused(EOPNOTSUPP, at);
    return;
  }
  const set = table.sets.get(name);
  if (set === undefined) throw new Refused(ENOENT, at);
  if (kind === 'map' && (set.flags & NFT_SET_MAP) === 0) throw new Refused(EINVAL, at);
}
