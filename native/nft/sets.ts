/** Sets of nftables and their elements as requests (linux/netfilter/nf_tables.h). */
import type { BodyWriter } from '../body-writer.ts';
import {
  ATTRIBUTE_HEADER,
  attributes,
  findAttribute,
  HEADER_LENGTH,
  NLM_F_CREATE,
  NLM_F_EXCL,
  type Request,
  valueLength,
} from '../netlink.ts';
import { NFGENMSG } from '../nfnetlink.ts';
import {
  NFT_DATA_VERDICT,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_SET_CONCAT,
  NFT_SET_EVAL,
  NFT_SET_INTERVAL,
  NFT_SET_MAP,
  NFT_SET_TIMEOUT,
  NFTA_DATA_VALUE,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_LIST_ELEM,
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
} from './constants.ts';
import { type Verdict, writeVerdict } from './expressions.ts';
import { COUNTER, request, type TableId } from './request.ts';

export interface SetSpec {
  readonly name: string;
  /** Lengths in bytes of what a key is put together from, each rounded up to words. */
  readonly fields: readonly number[];
  /** Number of the key's type for those who list it (nft's datatype.h): six bits a field. */
  readonly keyType: number;
  readonly data?: 'verdict' | { readonly type: number; readonly length: number };
  readonly isInterval?: boolean;
  /** Elements are added by packets, and time out. */
  readonly isDynamic?: boolean;
  /** All of its elements have counters; `nft` loads no others. Kernel 5.7. */
  readonly isCounting?: boolean;
  /** What `nft` reads of it beside its types (`typeof.ts`). */
  readonly userData?: Buffer;
}

const words = (bytes: number) => Math.ceil(bytes / 4) * 4;
/** struct nft_verdict */
const VERDICT_LENGTH = 16;

export function addSet(id: TableId, spec: SetSpec, number: number): Request {
  const { name, fields, keyType, data, isInterval = false, isDynamic = false, isCounting = false, userData } = spec;
  const flags =
    (data ? NFT_SET_MAP : 0) |
    (isInterval ? NFT_SET_INTERVAL : 0) |
    (isDynamic ? NFT_SET_TIMEOUT | NFT_SET_EVAL : 0) |
    (isInterval && fields.length > 1 ? NFT_SET_CONCAT : 0);
  return request(NFT_MSG_NEWSET, id, NLM_F_CREATE, (body) => {
    body
      .text(NFTA_SET_TABLE, id.table)
      .text(NFTA_SET_NAME, name)
      .u32be(NFTA_SET_FLAGS, flags)
      .u32be(NFTA_SET_KEY_TYPE, keyType);
    body.u32be(
      NFTA_SET_KEY_LEN,
      fields.reduce((sum, length) => sum + words(length), 0),
    );
    if (data === 'verdict') body.u32be(NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT).u32be(NFTA_SET_DATA_LEN, VERDICT_LENGTH);
    else if (data !== undefined) body.u32be(NFTA_SET_DATA_TYPE, data.type).u32be(NFTA_SET_DATA_LEN, data.length);
    if (isInterval && fields.length > 1) {
      body.nest(NFTA_SET_DESC, (desc) =>
        desc.nest(NFTA_SET_DESC_CONCAT, (concat) => {
          for (const length of fields) concat.nest(NFTA_LIST_ELEM, (field) => field.u32be(NFTA_SET_FIELD_LEN, length));
        }),
      );
    }
    body.u32be(NFTA_SET_ID, number);
    if (isCounting) body.nest(NFTA_SET_EXPR, writeCounter);
    if (userData !== undefined) body.bytes(NFTA_SET_USERDATA, userData);
  });
}

export function deleteSet(id: TableId, name: string): Request {
  return request(NFT_MSG_DELSET, id, 0, (body) => body.text(NFTA_SET_TABLE, id.table).text(NFTA_SET_NAME, name));
}

/** Bytes are strings, each a character of Latin-1: hundreds of thousands are compared and looked up. */
export interface Element {
  readonly key: string;
  /** The end of a range; "": none. */
  readonly end: string;
  readonly data?: string | Verdict;
  /** It has a counter of its own: what it counted so far, when it was read; a new one begins with 0. */
  readonly packets?: number;
}

/** One that begins with 0. */
function writeCounter(body: BodyWriter): void {
  body.text(NFTA_EXPR_NAME, COUNTER).nest(NFTA_EXPR_DATA, () => {});
}

function writeElements(body: BodyWriter, elements: readonly Element[], withData: boolean): void {
  body.nest(NFTA_SET_ELEM_LIST_ELEMENTS, (list) => {
    for (const { key, end, data, packets } of elements) {
      list.nest(NFTA_LIST_ELEM, (element) => {
        element.nest(NFTA_SET_ELEM_KEY, (inner) => inner.latin1(NFTA_DATA_VALUE, key));
        if (end !== '') element.nest(NFTA_SET_ELEM_KEY_END, (inner) => inner.latin1(NFTA_DATA_VALUE, end));
        if (!withData) return;
        if (packets !== undefined) {
          element.nest(NFTA_SET_ELEM_EXPR, writeCounter);
        }
        if (data === undefined) return;
        element.nest(NFTA_SET_ELEM_DATA, (inner) => {
          if (typeof data === 'string') inner.latin1(NFTA_DATA_VALUE, data);
          else writeVerdict(inner, data);
        });
      });
    }
  });
}

/** An element that is there already is refused. */
export function addElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request(NFT_MSG_NEWSETELEM, id, NLM_F_CREATE | NLM_F_EXCL, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    writeElements(body, elements, true);
  });
}

export function deleteElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request(NFT_MSG_DELSETELEM, id, 0, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    writeElements(body, elements, false);
  });
}

/** Which element of a request an offset in its message lies in; undefined: in none. */
export function elementAt({ body }: Request, offset: number): number | undefined {
  const [bytes] = body;
  if (!Buffer.isBuffer(bytes)) return undefined;
  const inBody = offset - HEADER_LENGTH;
  const list = findAttribute(bytes, NFGENMSG, bytes.length, NFTA_SET_ELEM_LIST_ELEMENTS);
  if (list < 0) return undefined;
  let n = 0;
  for (const [at, length] of attributes(bytes, list, list + valueLength(bytes, list))) {
    if (inBody >= at - ATTRIBUTE_HEADER && inBody < at + length) return n;
    n += 1;
  }
  return undefined;
}
