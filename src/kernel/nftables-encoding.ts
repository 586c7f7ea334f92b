/**
 * nftables mode's writes as netlink requests. Pure: `nftables-netlink.ts` sends them, and `nftables-reading.ts` reads the objects back.
 */

import type { NetlinkRequest } from '../../native/netlink.ts';
import * as bytecode from '../../native/nft/expressions.ts';
import type { TableId } from '../../native/nft/request.ts';
import {
  addElements,
  addSet,
  deleteElements,
  deleteSet,
  type Element,
  type NftSetSpec,
} from '../../native/nft/sets.ts';
import { addChain, addRule, addTable, deleteChain, deleteTable, flushChain } from '../../native/nft/table-requests.ts';
import { type TypeofPart, typeofMap } from '../../native/nft/typeof.ts';
import type { Family } from '../base/address.ts';
import type {
  Expression,
  KeyField,
  Latin1Bytes,
  NftElement,
  NftSet,
  NftWrite,
  PacketField,
} from './nftables-kernel.ts';

/** The comment of the table. */
const COMMENT = 'Services, by slicewire';
/** Elements in one request: the kernel takes at most 64 KiB of them. */
const ELEMENTS = 300;

/** The write that a request belongs to, and the index of the request's first element in that write. */
export interface RequestOrigin {
  readonly write: number;
  readonly first: number;
}

/** Requests for these writes in their order, and the origin of each request. A write of many elements takes several requests. */
export function encode(id: TableId, writes: readonly NftWrite[]): { requests: NetlinkRequest[]; of: RequestOrigin[] } {
  const { family } = id;
  const requests: NetlinkRequest[] = [];
  const of: RequestOrigin[] = [];
  for (const [write, what] of writes.entries()) {
    const add = (request: NetlinkRequest, first = 0) => {
      requests.push(request);
      of.push({ write, first });
    };
    switch (what.kind) {
      case 'add-table':
        add(addTable(id, COMMENT));
        break;
      case 'delete-table':
        add(deleteTable(id));
        break;
      case 'add-chain':
        add(addChain(id, what.chain, what.hook));
        break;
      case 'flush-chain':
        add(flushChain(id, what.chain));
        break;
      case 'delete-chain':
        add(deleteChain(id, what.chain));
        break;
      case 'add-rule':
        add(
          addRule(
            id,
            what.chain,
            what.rule.expressions.map((expression) => compiled(expression, family)),
            what.rule.text,
          ),
        );
        break;
      case 'add-set':
        add(addSet(id, setSpec(what.set, family), write + 1));
        break;
      case 'delete-set':
        add(deleteSet(id, what.set));
        break;
      default:
        for (let first = 0; first < what.elements.length; first += ELEMENTS) {
          const some = what.elements.slice(first, first + ELEMENTS).map((element) => asElement(what.set, element));
          add((what.kind === 'add-elements' ? addElements : deleteElements)(id, what.set.name, some), first);
        }
    }
  }
  return { requests, of };
}

function asElement({ data: type }: NftSet, { key, end, data, isCounted }: NftElement): Element {
  const value = type === 'verdict' ? verdictOf(data) : data;
  return { key, end, ...(type === undefined ? {} : { data: value }), ...(isCounted ? { packets: 0 } : {}) };
}

function verdictOf(text: string): bytecode.Verdict {
  return text.startsWith('goto ') ? { kind: 'goto', chain: text.slice(5) } : { kind: 'drop' };
}

/** An expression as the kernel takes it. */
function compiled(expression: Expression, family: Family): bytecode.ExpressionWriter {
  const bytes = (text: Latin1Bytes) => Buffer.from(text, 'latin1');
  switch (expression.do) {
    case 'load':
      return loading(expression.what, expression.to, family);
    case 'compare':
      return bytecode.compare(expression.from, expression.is === 'equal' ? 'eq' : 'neq', bytes(expression.value));
    case 'mask':
      return bytecode.bitwise(expression.at, expression.at, bytes(expression.mask), bytes(expression.flip));
    case 'lookup':
      return bytecode.lookup(expression.set, expression.from, expression);
    case 'random':
      return bytecode.random(expression.count, expression.first, expression.to);
    case 'hash': {
      const { from, bytes: length, to, count: modulus, seed, first: offset } = expression;
      return bytecode.hash({ from, length, to }, { modulus, seed, offset });
    }
    case 'value':
      return bytecode.immediate(expression.to, bytes(expression.value));
    case 'remember':
      return bytecode.remember(expression.set, expression.key, expression.seconds * 1000);
    case 'over-rate':
      return bytecode.overRate(expression.perSecond, expression.burst);
    case 'over-connections': {
      const { most, per } = expression;
      return per === undefined ? bytecode.overConnections(most) : bytecode.overConnectionsOf(per.set, per.key, most);
    }
    case 'count':
      return bytecode.counter();
    case 'set-mark':
      return bytecode.setMark(expression.from);
    case 'translate':
      return bytecode.dnat(family, expression.address, expression.port);
    case 'masquerade':
      return bytecode.masquerade();
    case 'reject':
      return bytecode.reject(family);
    case 'reset tcp':
      return bytecode.resetTcp();
    case 'verdict':
      return bytecode.verdict(expression.verdict);
  }
}

function loading(what: PacketField, to: number, family: Family): bytecode.ExpressionWriter {
  const isV4 = family === 'IPv4';
  switch (what) {
    case 'source address':
      return isV4 ? bytecode.payload('network', 12, 4, to) : bytecode.payload('network', 8, 16, to);
    case 'destination address':
      return isV4 ? bytecode.payload('network', 16, 4, to) : bytecode.payload('network', 24, 16, to);
    case 'protocol':
      return bytecode.meta('l4proto', to);
    case 'source port':
      return bytecode.payload('transport', 0, 2, to);
    case 'destination port':
      return bytecode.payload('transport', 2, 2, to);
    case 'mark':
      return bytecode.meta('mark', to);
    case 'input interface':
      return bytecode.meta('iifname', to);
    case 'connection state':
      return bytecode.connection('state', to);
    case 'connection status':
      return bytecode.connection('status', to);
    case 'kind of source address':
      return bytecode.addressType('saddr', to);
    case 'kind of destination address':
      return bytecode.addressType('daddr', to);
  }
}

// slicewire's sets, with the types that the kernel stores and `nft list` needs to print them.

/**
 * Numbers of nft's data types (nft's datatype.h: inet_proto, inet_service, mark), with which `nft` prints the table; six bits a
 * field. nft 1.0.6 and later read the type of a number from user data (`partsOf`). Older ones abort when they list an integer in a
 * concatenation (1.0.2: "Assertion `ilen > 0' failed"), but not a mark.
 */
const TYPES: Readonly<Record<Exclude<KeyField, 'address'>, number>> = { protocol: 12, port: 13, number: 19 };
const LENGTHS: Readonly<Record<Exclude<KeyField, 'address'>, number>> = { protocol: 1, port: 2, number: 4 };

/** A set of a family as the kernel takes it. */
function setSpec(
  { name, key, data, hasRanges = false, isMemory = false, isTally = false, isCounting = false }: NftSet,
  family: Family,
): NftSetSpec {
  const value =
    data === undefined
      ? {}
      : {
          data:
            data === 'verdict' ? ('verdict' as const) : { type: typeOf(data, family), length: lengthOf(data, family) },
        };
  return {
    name,
    fields: key.map((field) => fieldLength(field, family)),
    keyType: typeOf(key, family),
    ...value,
    ...(key.includes('number') && Array.isArray(data)
      ? { userData: typeofMap(partsOf(key, family), partsOf(data, family)) }
      : {}),
    isInterval: hasRanges,
    isDynamic: !isMemory ? undefined : isTally ? 'counting connections' : 'expiring',
    isCounting,
  };
}

/** The expressions that `nft` prints for the fields of a map of endpoints. */
function partsOf(fields: readonly KeyField[], family: Family): TypeofPart[] {
  return fields.map((field): TypeofPart => {
    if (field === 'address') return { kind: 'destination address', family };
    return { kind: field === 'number' ? 'random number' : field === 'port' ? 'destination port' : field };
  });
}

function fieldLength(field: KeyField, family: Family): number {
  return field === 'address' ? (family === 'IPv4' ? 4 : 16) : LENGTHS[field];
}

function lengthOf(fields: readonly KeyField[], family: Family): number {
  return fields.reduce((sum, field) => sum + Math.ceil(fieldLength(field, family) / 4) * 4, 0);
}

function typeOf(fields: readonly KeyField[], family: Family): number {
  return fields.reduce(
    (sum, field) => (sum << 6) | (field === 'address' ? (family === 'IPv4' ? 7 : 8) : TYPES[field]),
    0,
  );
}
