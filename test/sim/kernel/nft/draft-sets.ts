/** Sets and their elements in a transaction (nf_tables_api.c, nf_tables_newset to nf_tables_delsetelem; nft_set_pipapo.c for ranges). */
import { EBUSY, EEXIST, EINVAL, ENOENT, EOPNOTSUPP } from '../../../../native/errno.ts';
import {
  attributes,
  findAttribute,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  valueLength,
} from '../../../../native/netlink.ts';
import { Fields } from '../../../../native/nft/attributes.ts';
import {
  NFT_DATA_VERDICT,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_SET_CONCAT,
  NFT_SET_MAP,
  NFTA_SET_DATA_LEN,
  NFTA_SET_DATA_TYPE,
  NFTA_SET_DESC,
  NFTA_SET_DESC_CONCAT,
  NFTA_SET_ELEM_DATA,
  NFTA_SET_ELEM_EXPR,
  NFTA_SET_ELEM_KEY,
  NFTA_SET_ELEM_KEY_END,
  NFTA_SET_ELEM_LIST_ELEMENTS,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
  NFTA_SET_EXPR,
  NFTA_SET_FIELD_LEN,
  NFTA_SET_FLAGS,
  NFTA_SET_ID,
  NFTA_SET_KEY_LEN,
  NFTA_SET_KEY_TYPE,
  NFTA_SET_NAME,
  NFTA_SET_TABLE,
  NFTA_SET_USERDATA,
} from '../../../../native/nft/constants.ts';
import { Refused } from '../netlink/format.ts';
import type { Draft } from './draft.ts';
import { type Asked, kept, NFTA_SET_ELEM_FLAGS, NFTA_SET_ELEM_TIMEOUT, NLM_F_NONREC, u64At } from './format.ts';
import { elementsBody, setBody } from './listing.ts';
import { type Element, isSetUsed, isVerdict, type SetOf, type Table, verdictChain } from './ruleset.ts';

/** What two sets of a name must have in common (nft_set_is_same). */
const FACTS = [
  NFTA_SET_FLAGS,
  NFTA_SET_KEY_TYPE,
  NFTA_SET_KEY_LEN,
  NFTA_SET_DATA_TYPE,
  NFTA_SET_DATA_LEN,
  NFTA_SET_DESC,
  NFTA_SET_EXPR,
];
/** NFT_DATA_VALUE_MAXLEN */
const MAX_KEY = 64;

export function newSet(draft: Draft, asked: Asked): void {
  const { fields, bytes, flags: how } = asked;
  const table = draft.find(asked, NFTA_SET_TABLE);
  const name = fields.text(NFTA_SET_NAME);
  const keyLength = fields.number(NFTA_SET_KEY_LEN);
  if (name === undefined || keyLength === undefined || !fields.has(NFTA_SET_ID)) throw new Refused(EINVAL);
  if (keyLength === 0 || keyLength > MAX_KEY) throw new Refused(EINVAL);
  const flags = fields.number(NFTA_SET_FLAGS) ?? 0;
  if (((flags & NFT_SET_MAP) !== 0) !== fields.has(NFTA_SET_DATA_TYPE)) throw new Refused(EINVAL);
  const raw = kept(bytes, 20, bytes.length, [...FACTS, NFTA_SET_USERDATA]);
  const before = table.sets.get(name);
  if (before !== undefined) {
    if ((how & NLM_F_EXCL) !== 0) throw new Refused(EEXIST, fields.at(NFTA_SET_NAME) - 4);
    if ((how & NLM_F_REPLACE) !== 0) throw new Refused(EOPNOTSUPP);
    const facts = (of: Buffer) => kept(of, 0, of.length, FACTS);
    if (!facts(before.raw).equals(facts(raw))) throw new Refused(EEXIST, fields.at(NFTA_SET_NAME) - 4);
    draft.told(NFT_MSG_NEWSET, () => setBody(table, before));
    return;
  }
  if ((how & NLM_F_CREATE) === 0) throw new Refused(ENOENT, fields.at(NFTA_SET_NAME) - 4);
  const set: SetOf = {
    name,
    handle: draft.handle(table),
    raw,
    flags,
    keyLength,
    data: dataOf(fields),
    fields: (flags & NFT_SET_CONCAT) === 0 ? [keyLength] : fieldsOf(asked),
    elements: new Map(),
  };
  draft.own(table).sets.set(name, set);
  draft.told(NFT_MSG_NEWSET, () => setBody(table, set));
}

function dataOf(fields: Fields): SetOf['data'] {
  const type = fields.number(NFTA_SET_DATA_TYPE);
  if (type === undefined) return undefined;
  return type === NFT_DATA_VERDICT ? 'verdict' : (fields.number(NFTA_SET_DATA_LEN) ?? 0);
}

function fieldsOf({ bytes, fields }: Asked): number[] {
  const inside = (at: number, type: number) =>
    at < 0 ? -1 : findAttribute(bytes, at, at + valueLength(bytes, at), type);
  const concat = inside(fields.at(NFTA_SET_DESC), NFTA_SET_DESC_CONCAT);
  if (concat < 0) throw new Refused(EINVAL);
  const found: number[] = [];
  for (const [at, length] of attributes(bytes, concat, concat + valueLength(bytes, concat)))
    found.push(new Fields(bytes, at, at + length).number(NFTA_SET_FIELD_LEN) ?? 0);
  return found;
}

export function deleteSet(draft: Draft, asked: Asked): void {
  const table = draft.find(asked, NFTA_SET_TABLE);
  const set = table.sets.get(asked.fields.text(NFTA_SET_NAME) ?? '');
  if (set === undefined) throw new Refused(ENOENT, asked.fields.at(NFTA_SET_NAME) - 4);
  const isKept = (asked.flags & NLM_F_NONREC) !== 0 && set.elements.size > 0;
  if (isKept || isSetUsed(table, set.name)) throw new Refused(EBUSY, asked.fields.at(NFTA_SET_NAME) - 4);
  draft.own(table).sets.delete(set.name);
  draft.told(NFT_MSG_DELSET, () => setBody(table, set));
}

/** `now`: milliseconds of simulated time. */
export function newElements(draft: Draft, asked: Asked, now: number): void {
  const { table, set, list } = elementsAsked(draft, asked);
  if (list === undefined) throw new Refused(EINVAL);
  const { elements } = draft.ownElements(table, set);
  for (const [at, length] of attributes(asked.bytes, list, list + valueLength(asked.bytes, list))) {
    try {
      add(draft, { table, set, elements }, elementOf(set, { buffer: asked.bytes, start: at, end: at + length }, now), {
        isNew: (asked.flags & NLM_F_EXCL) !== 0,
        now,
      });
    } catch (error) {
      throw error instanceof Refused ? new Refused(error.errno, at - 4) : error;
    }
  }
}

interface Place {
  readonly table: Table;
  readonly set: SetOf;
  readonly elements: Map<string, Element>;
}

function add(
  draft: Draft,
  { table, set, elements }: Place,
  element: Element,
  { isNew, now }: { readonly isNew: boolean; readonly now: number },
): void {
  if (element.chain !== undefined) {
    const chain = table.chains.get(element.chain);
    if (chain === undefined) throw new Refused(ENOENT);
    if (chain.hook !== undefined) throw new Refused(EOPNOTSUPP);
  }
  const clash = clashOf(set, elements, element, now);
  if (clash !== undefined) {
    if (isNew || !isSameData(clash, element)) throw new Refused(EEXIST);
    return;
  }
  elements.set(idOf(element), element);
  draft.told(NFT_MSG_NEWSETELEM, () => elementsBody(table, set, [element], 0));
}

export function idOf({ key, end }: Pick<Element, 'key' | 'end'>): string {
  return key + end;
}

function isSameData(a: Element, b: Element): boolean {
  return a.data === undefined || b.data === undefined ? a.data === b.data : a.data.equals(b.data);
}

/** The element that the kernel takes for the same one. Throws Refused for one that overlaps this one. */
function clashOf(
  set: SetOf,
  elements: ReadonlyMap<string, Element>,
  element: Element,
  now: number,
): Element | undefined {
  const lives = livingAt(now);
  if ((set.flags & NFT_SET_CONCAT) === 0) {
    const found = elements.get(idOf(element));
    return found !== undefined && lives(found) ? found : undefined;
  }
  const first = (key: string) => elements.values().find((one) => lives(one) && has(set, one, key));
  const same = first(element.key) ?? first(endOf(element));
  // The sets' own ENOTEMPTY for an overlap becomes EEXIST (nf_tables_api.c, nft_add_set_elem).
  if (same !== undefined && (same.key !== element.key || endOf(same) !== endOf(element))) throw new Refused(EEXIST);
  return same;
}

function livingAt(now: number): (element: Element) => boolean {
  return ({ expiresAt }) => expiresAt === undefined || expiresAt > now;
}

function endOf({ key, end }: Element): string {
  return end || key;
}

/** Whether the key is in the ranges of the element. */
function has({ fields }: SetOf, { key, end }: Element, wanted: string): boolean {
  let at = 0;
  for (const length of fields) {
    const part = (of: string) => of.slice(at, at + length);
    if (part(wanted) < part(key) || part(wanted) > part(end || key)) return false;
    at += Math.ceil(length / 4) * 4;
  }
  return true;
}

interface Span {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
}

function elementOf(set: SetOf, { buffer, start, end: stop }: Span, now: number): Element {
  const fields = new Fields(buffer, start, stop);
  const { key, end } = keyOf(set, fields);
  const at = fields.at(NFTA_SET_ELEM_DATA);
  if (at >= 0 !== (set.data !== undefined)) throw new Refused(EINVAL);
  const data = at < 0 ? undefined : Buffer.from(buffer.subarray(at, at + valueLength(buffer, at)));
  if (at >= 0 && isVerdict(buffer, at) !== (set.data === 'verdict')) throw new Refused(EINVAL);
  if (typeof set.data === 'number' && fields.value(NFTA_SET_ELEM_DATA)?.length !== set.data) throw new Refused(EINVAL);
  const timeout = u64At(fields, NFTA_SET_ELEM_TIMEOUT);
  const all = [
    NFTA_SET_ELEM_KEY,
    NFTA_SET_ELEM_KEY_END,
    NFTA_SET_ELEM_DATA,
    NFTA_SET_ELEM_FLAGS,
    NFTA_SET_ELEM_TIMEOUT,
  ];
  const own = kept(buffer, start, stop, [...all, NFTA_SET_ELEM_EXPR]);
  // Each element of a set with a counter has one.
  const counter = fields.has(NFTA_SET_ELEM_EXPR) ? Buffer.alloc(0) : counterOf(set);
  return {
    key,
    end,
    raw: Buffer.concat([own, counter]),
    data,
    chain: verdictChain(buffer, at),
    expiresAt: timeout === undefined ? undefined : now + timeout,
  };
}

/** The set's own expression as an attribute of an element. */
export function counterOf({ raw }: SetOf): Buffer {
  const copy = kept(raw, 0, raw.length, [NFTA_SET_EXPR]);
  if (copy.length > 0) copy.writeUInt16LE((copy.readUInt16LE(2) & 0x8000) | NFTA_SET_ELEM_EXPR, 2);
  return copy;
}

function keyOf(set: SetOf, fields: Fields): { readonly key: string; readonly end: string } {
  const [key, end] = [fields.value(NFTA_SET_ELEM_KEY), fields.value(NFTA_SET_ELEM_KEY_END)];
  if (key?.length !== set.keyLength || (end ?? key).length !== set.keyLength) throw new Refused(EINVAL);
  return { key, end: end ?? '' };
}

/** The element to delete. Among ranges the kernel looks for the beginning alone (nft_set_pipapo.c, nft_pipapo_deactivate). */
function found(
  set: SetOf,
  elements: ReadonlyMap<string, Element>,
  wanted: Pick<Element, 'key' | 'end'>,
  now: number,
): Element | undefined {
  const lives = livingAt(now);
  const exact = elements.get(idOf(wanted));
  if (exact !== undefined && lives(exact)) return exact;
  if ((set.flags & NFT_SET_CONCAT) === 0) return undefined;
  return elements.values().find((one) => lives(one) && has(set, one, wanted.key));
}

/** Without a list: all of them. */
export function deleteElements(draft: Draft, asked: Asked, now: number): void {
  const { table, set, list } = elementsAsked(draft, asked);
  if (list === undefined) {
    if (set.elements.size === 0) return;
    const { elements } = draft.ownElements(table, set);
    for (const element of elements.values())
      draft.told(NFT_MSG_DELSETELEM, () => elementsBody(table, set, [element], 0));
    elements.clear();
    return;
  }
  const { elements } = draft.ownElements(table, set);
  for (const [at, length] of attributes(asked.bytes, list, list + valueLength(asked.bytes, list))) {
    const wanted = keyOf(set, new Fields(asked.bytes, at, at + length));
    const element = found(set, elements, wanted, now);
    if (element === undefined) throw new Refused(ENOENT, at - 4);
    elements.delete(idOf(element));
    draft.told(NFT_MSG_DELSETELEM, () => elementsBody(table, set, [element], 0));
  }
}

function elementsAsked(draft: Draft, asked: Asked): { table: Table; set: SetOf; list: number | undefined } {
  const { fields } = asked;
  const table = draft.find(asked, NFTA_SET_ELEM_LIST_TABLE);
  const set = table.sets.get(fields.text(NFTA_SET_ELEM_LIST_SET) ?? '');
  if (set === undefined) throw new Refused(ENOENT, fields.at(NFTA_SET_ELEM_LIST_SET) - 4);
  const list = fields.at(NFTA_SET_ELEM_LIST_ELEMENTS);
  return { table, set, list: list < 0 ? undefined : list };
}
