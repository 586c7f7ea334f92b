/** Objects of nftables (linux/netfilter/nf_tables.h) as requests: tables, chains, rules, sets and their elements. */
import { BodyWriter } from '../body-writer.ts';
import { NLM_F_CREATE, NLM_F_EXCL, type Request } from '../netlink.ts';
import { NFNL_SUBSYS_NFTABLES } from '../nftables.ts';
import { type NetfilterFamily, netfilterHeader, netfilterType } from '../nfnetlink.ts';
import { type Expression, NFTA_DATA_VALUE, type Verdict, writeVerdict } from './expressions.ts';

const NFT_MSG = {
  newTable: 0,
  delTable: 2,
  newChain: 3,
  delChain: 5,
  newRule: 6,
  delRule: 8,
  newSet: 9,
  delSet: 11,
  newElement: 12,
  getElement: 13,
  delElement: 14,
} as const;
const NLM_F_APPEND = 0x800;

export interface TableId {
  readonly family: NetfilterFamily;
  readonly table: string;
}

const writer = new BodyWriter(65_536);

function request(message: keyof typeof NFT_MSG, { family }: TableId, flags: number, write: (body: BodyWriter) => void): Request {
  const body = writer.begin(netfilterHeader(family));
  write(body);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG[message]), flags, body: [body.end()] };
}

export function addTable(id: TableId): Request {
  return request('newTable', id, NLM_F_CREATE, (body) => body.text(1, id.table).u32be(2, 0));
}

export function deleteTable(id: TableId): Request {
  return request('delTable', id, 0, (body) => body.text(1, id.table));
}

const HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

export interface BaseChain {
  readonly type: 'nat' | 'filter';
  readonly hook: keyof typeof HOOKS;
  readonly priority: number;
}

export function addChain(id: TableId, name: string, base?: BaseChain): Request {
  return request('newChain', id, NLM_F_CREATE, (body) => {
    body.text(1, id.table).text(3, name);
    if (base === undefined) return;
    body.nest(4, (hook) => hook.u32be(1, HOOKS[base.hook]).u32be(2, base.priority >>> 0)).text(7, base.type);
  });
}

export function deleteChain(id: TableId, name: string): Request {
  return request('delChain', id, 0, (body) => body.text(1, id.table).text(3, name));
}

/** All rules of a chain. */
export function flushChain(id: TableId, name: string): Request {
  return request('delRule', id, 0, (body) => body.text(1, id.table).text(2, name));
}

export function addRule(id: TableId, chain: string, expressions: readonly Expression[]): Request {
  return request('newRule', id, NLM_F_CREATE | NLM_F_APPEND, (body) => {
    body.text(1, id.table).text(2, chain);
    body.nest(4, (list) => {
      for (const write of expressions) write(list);
    });
  });
}

export type DataType = { readonly kind: 'verdict' } | { readonly kind: 'value'; readonly length: number };

export interface SetSpec {
  readonly name: string;
  /** Lengths in bytes of what a key is put together from, each rounded up to words. */
  readonly fields: readonly number[];
  /** Number of the key's type for those who list it (nft's datatype.h): six bits a field. */
  readonly keyType: number;
  readonly data?: DataType & { readonly type: number };
  readonly isInterval?: boolean;
  /** Elements are added by packets, and time out. */
  readonly isDynamic?: boolean;
}

const words = (bytes: number) => Math.ceil(bytes / 4) * 4;
const FLAG = { interval: 4, map: 8, timeout: 16, eval: 32, concat: 128 } as const;
const NFT_DATA_VERDICT = 0xffffff00;

export function addSet(id: TableId, spec: SetSpec, number: number): Request {
  const { name, fields, keyType, data, isInterval = false, isDynamic = false } = spec;
  const flags =
    (data ? FLAG.map : 0) |
    (isInterval ? FLAG.interval : 0) |
    (isDynamic ? FLAG.timeout | FLAG.eval : 0) |
    (isInterval && fields.length > 1 ? FLAG.concat : 0);
  return request('newSet', id, NLM_F_CREATE, (body) => {
    body.text(1, id.table).text(2, name).u32be(3, flags).u32be(4, keyType);
    body.u32be(5, fields.reduce((sum, length) => sum + words(length), 0));
    if (data?.kind === 'verdict') body.u32be(6, NFT_DATA_VERDICT).u32be(7, 16);
    else if (data !== undefined) body.u32be(6, data.type).u32be(7, data.length);
    if (isInterval && fields.length > 1) {
      body.nest(9, (desc) => desc.nest(2, (concat) => {
        for (const length of fields) concat.nest(1, (field) => field.u32be(1, length));
      }));
    }
    body.u32be(10, number);
  });
}

export function deleteSet(id: TableId, name: string): Request {
  return request('delSet', id, 0, (body) => body.text(1, id.table).text(2, name));
}

export interface Element {
  readonly key: Uint8Array;
  readonly end?: Uint8Array;
  readonly data?: Uint8Array | Verdict;
}

function writeElements(body: BodyWriter, elements: readonly Element[], withData: boolean): void {
  body.nest(3, (list) => {
    for (const { key, end, data } of elements) {
      list.nest(1, (element) => {
        element.nest(1, (inner) => inner.bytes(NFTA_DATA_VALUE, key));
        if (end !== undefined) element.nest(10, (inner) => inner.bytes(NFTA_DATA_VALUE, end));
        if (data === undefined || !withData) return;
        element.nest(2, (inner) => {
          if (data instanceof Uint8Array) inner.bytes(NFTA_DATA_VALUE, data);
          else writeVerdict(inner, data);
        });
      });
    }
  });
}

/** An element that is there already is refused. */
export function addElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request('newElement', id, NLM_F_CREATE | NLM_F_EXCL, (body) => {
    body.text(1, id.table).text(2, set);
    writeElements(body, elements, true);
  });
}

export function deleteElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request('delElement', id, 0, (body) => {
    body.text(1, id.table).text(2, set);
    writeElements(body, elements, false);
  });
}
