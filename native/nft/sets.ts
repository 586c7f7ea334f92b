/** Sets of nftables and their elements as requests (linux/netfilter/nf_tables.h). */
import type { BodyWriter } from '../body-writer.ts';
import {
  ATTRIBUTE_HEADER,
  attributes,
  findAttribute,
  HEADER_LENGTH,
  type NetlinkRequest,
  NLM_F_CREATE,
  NLM_F_EXCL,
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

/** A set or map to create. */
export interface NftSetSpec {
  readonly name: string;
  /** Lengths in bytes of the fields of a key; each takes whole words. */
  readonly fields: readonly number[];
  /** The key's type, with which `nft` prints it (nft's datatype.h): six bits for each field. */
  readonly keyType: number;
  readonly data?: 'verdict' | { readonly type: number; readonly length: number };
  readonly isInterval?: boolean;
  /** Packets add the elements; these expire, or go with their last connection. */
  readonly isDynamic?: 'expiring' | 'counting connections' | undefined;
  /** All elements have counters; `nft` loads no set with counters on some. Needs Linux 5.7. */
  readonly isCounting?: boolean;
  /** Data for `nft` beside the types (`typeof.ts`). */
  readonly userData?: Buffer;
}

const words = (bytes: number) => Math.ceil(bytes / 4) * 4;
/** struct nft_verdict */
const VERDICT_LENGTH = 16;

/** `nft add set`, or `add map` with data. `number` identifies the set within the transaction. */
export function addSet(id: TableId, spec: NftSetSpec, number: number): NetlinkRequest {
  const { name, fields, keyType, data, isInterval = false, isDynamic, isCounting = false, userData } = spec;
  const flags =
    (data ? NFT_SET_MAP : 0) |
    (isInterval ? NFT_SET_INTERVAL : 0) |
    (isDynamic === undefined ? 0 : NFT_SET_EVAL) |
    (isDynamic === 'expiring' ? NFT_SET_TIMEOUT : 0) |
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

/** `nft delete set` */
export function deleteSet(id: TableId, name: string): NetlinkRequest {
  return request(NFT_MSG_DELSET, id, 0, (body) => body.text(NFTA_SET_TABLE, id.table).text(NFTA_SET_NAME, name));
}

/** An element of a set. Bytes are strings of Latin-1, because hundreds of thousands are compared and looked up. */
export interface Element {
  readonly key: string;
  /** The end of a range; "" for a single key. */
  readonly end: string;
  readonly data?: string | Verdict;
  /** Packets that its counter has counted; undefined for an element without a counter. A new counter begins with 0. */
  readonly packets?: number;
}

/** A counter that begins with 0. */
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

/** `nft create element`: the kernel refuses an existing element. */
export function addElements(id: TableId, set: string, elements: readonly Element[]): NetlinkRequest {
  return request(NFT_MSG_NEWSETELEM, id, NLM_F_CREATE | NLM_F_EXCL, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    writeElements(body, elements, true);
  });
}

/** `nft delete element` */
export function deleteElements(id: TableId, set: string, elements: readonly Element[]): NetlinkRequest {
  return request(NFT_MSG_DELSETELEM, id, 0, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    writeElements(body, elements, false);
  });
}

const OF_ELEMENTS: readonly number[] = [NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM];

/** The index of the element at an offset in a request's message; undefined when no element is there. */
export function elementAt({ type, body }: NetlinkRequest, offset: number): number | undefined {
  const [bytes] = body;
  // The same number means another attribute in other messages.
  if (!Buffer.isBuffer(bytes) || !OF_ELEMENTS.includes(type & 0xff)) return undefined;
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
