/** Sets of the simulated machine at the bytes of ipset (ip_set_core.c). */
import { EEXIST, EINVAL, ENOENT, EOPNOTSUPP } from '../../../../native/errno.ts';
import {
  decodeSetPart,
  type EntryBytes,
  IPSET_ATTR_ADT,
  IPSET_ATTR_CIDR2,
  IPSET_ATTR_DATA,
  IPSET_ATTR_FAMILY,
  IPSET_ATTR_IP,
  IPSET_ATTR_IP2,
  IPSET_ATTR_IPADDR_IPV4,
  IPSET_ATTR_IPADDR_IPV6,
  IPSET_ATTR_MAXELEM,
  IPSET_ATTR_PORT,
  IPSET_ATTR_PROTO,
  IPSET_ATTR_PROTOCOL,
  IPSET_ATTR_REVISION,
  IPSET_ATTR_SETNAME,
  IPSET_ATTR_SETNAME2,
  IPSET_ATTR_TYPENAME,
  IPSET_CMD_ADD,
  IPSET_CMD_CREATE,
  IPSET_CMD_DEL,
  IPSET_CMD_DESTROY,
  IPSET_CMD_LIST,
  IPSET_CMD_SWAP,
  IPSET_CMD_TYPE,
  IPSET_ERR_BUSY,
  IPSET_ERR_EXIST,
  IPSET_ERR_EXIST_SETNAME2,
  IPSET_ERR_FIND_TYPE,
  IPSET_ERR_TYPE_MISMATCH,
  IPSET_ERR_TYPE_SPECIFIC,
  NFNL_SUBSYS_IPSET,
  type SetType,
} from '../../../../native/ipset.ts';
import { AF_INET, AF_INET6, AF_UNSPEC } from '../../../../native/libc.ts';
import {
  attribute,
  findAttribute,
  HEADER_LENGTH,
  type Message,
  NLA_F_NET_BYTEORDER,
  nested,
  textAt,
  valueLength,
} from '../../../../native/netlink.ts';
import { NFGENMSG, netfilterHeader, netfilterType } from '../../../../native/nfnetlink.ts';
import { entryBytes, entryText } from '../../../../src/kernel/ipvs-netlink.ts';
import { type HeldSet, headerOf } from '../../../helpers/kernel/ipvs-state.ts';
import { Refused, type Request, type Said, textAttribute, u16, u32 } from '../netlink/format.ts';
import type { Listed } from '../netlink/listing.ts';
import type { Answers } from '../netlink/request-part.ts';
import type { CarryOut, SimIpvs } from './ipvs.ts';

/** The highest revision of each type. */
const REVISIONS: Readonly<Record<SetType, number>> = {
  'hash:ip': 6,
  'hash:ip,port': 7,
  'hash:ip,port,ip': 7,
  'hash:ip,port,net': 8,
  'bitmap:port': 3,
};
const PROTOCOL_VERSION = 6;
/** Entries of one message of a listing. */
const ENTRIES = 4;
const PROTOCOLS = { tcp: 6, udp: 17, sctp: 132 } as const;

const NAMES: Readonly<Record<number, string>> = {
  [IPSET_CMD_CREATE]: 'create a set',
  [IPSET_CMD_DESTROY]: 'destroy a set',
  [IPSET_CMD_SWAP]: 'swap sets',
  [IPSET_CMD_LIST]: 'list',
  [IPSET_CMD_ADD]: 'add an entry',
  [IPSET_CMD_DEL]: 'remove an entry',
  [IPSET_CMD_TYPE]: 'ask for a type',
};

export class SetAnswers implements Answers {
  readonly #ipvs: SimIpvs;
  readonly #carryOut: CarryOut;

  constructor(ipvs: SimIpvs, carryOut: CarryOut) {
    this.#ipvs = ipvs;
    this.#carryOut = carryOut;
  }

  what(request: Request): string {
    return NAMES[commandOf(request) ?? 0] ?? `request ${request.type}`;
  }

  answer(request: Request): readonly Said[] {
    const { bytes } = request;
    const name = textIn(bytes, IPSET_ATTR_SETNAME) ?? '';
    switch (commandOf(request)) {
      case IPSET_CMD_TYPE:
        return [typeAnswer(bytes)];
      case IPSET_CMD_CREATE:
        return this.#create(name, bytes);
      case IPSET_CMD_DESTROY:
        return this.#carryOut({ kind: 'remove-set', set: name }, { missing: ENOENT, environment: IPSET_ERR_BUSY });
      case IPSET_CMD_SWAP: {
        const other = textIn(bytes, IPSET_ATTR_SETNAME2) ?? '';
        const missing = this.#ipvs.state.sets.has(name) ? IPSET_ERR_EXIST_SETNAME2 : ENOENT;
        return this.#carryOut(
          { kind: 'swap-set', set: name, with: other },
          { missing, refused: IPSET_ERR_TYPE_MISMATCH },
        );
      }
      case IPSET_CMD_ADD:
      case IPSET_CMD_DEL: {
        const set = this.#ipvs.state.sets.get(name);
        if (set === undefined) throw new Refused(ENOENT);
        const kind = commandOf(request) === IPSET_CMD_ADD ? 'add-entry' : 'remove-entry';
        const entry = entryText(entryIn(bytes), set.spec.type);
        return this.#carryOut(
          { kind, set: name, entry },
          { missing: IPSET_ERR_EXIST, refused: IPSET_ERR_TYPE_SPECIFIC },
        );
      }
      default:
        throw new Refused(EOPNOTSUPP);
    }
  }

  /** Names of all sets, or one set with its entries, which keep their places. (The kernel keeps a set that is listed; here it may go.) */
  list(request: Request): Listed {
    if (commandOf(request) !== IPSET_CMD_LIST) throw new Refused(EOPNOTSUPP);
    const { sets } = this.#ipvs.state;
    const name = textIn(request.bytes, IPSET_ATTR_SETNAME);
    if (name === undefined) {
      const names = [...sets.keys()].map((each) => () => said(IPSET_CMD_LIST, textAttribute(IPSET_ATTR_SETNAME, each)));
      return { entries: () => names };
    }
    const set = sets.get(name);
    if (set === undefined) throw new Refused(ENOENT);
    const parts = [...chunksOf([...set.entries])].map((part, i) => () => {
      const still = part.filter((entry) => set.entries.has(entry));
      const header = i === 0 ? headerAttributes(set) : [];
      const entries = nested(IPSET_ATTR_ADT, ...still.map(entryAttribute));
      return said(IPSET_CMD_LIST, textAttribute(IPSET_ATTR_SETNAME, name), ...header, entries);
    });
    return { entries: () => parts };
  }

  #create(name: string, bytes: Buffer): readonly Said[] {
    const type = typeIn(bytes);
    const family = bytes[attributeIn(bytes, IPSET_ATTR_FAMILY)] === AF_INET6 ? 'IPv6' : 'IPv4';
    const revision = bytes[attributeIn(bytes, IPSET_ATTR_REVISION)] ?? 0;
    if (revision > REVISIONS[type]) throw new Refused(IPSET_ERR_FIND_TYPE);
    const data = attributeIn(bytes, IPSET_ATTR_DATA);
    const size = findAttribute(bytes, data, data + valueLength(bytes, data), IPSET_ATTR_MAXELEM, 4);
    const maxelem = size < 0 ? 65_536 : bytes.readUInt32BE(size);
    return this.#carryOut({ kind: 'add-set', set: { name, type, family, maxelem } }, { exists: EEXIST });
  }
}

function commandOf({ type }: Request): number | undefined {
  return type >> 8 === NFNL_SUBSYS_IPSET ? type & 0xff : undefined;
}

function textIn(bytes: Buffer, type: number): string | undefined {
  return textAt(bytes, HEADER_LENGTH + NFGENMSG, bytes.length, type);
}

function attributeIn(bytes: Buffer, type: number): number {
  const at = findAttribute(bytes, HEADER_LENGTH + NFGENMSG, bytes.length, type);
  if (at < 0) throw new Refused(EINVAL);
  return at;
}

function typeIn(bytes: Buffer): SetType {
  const type = textIn(bytes, IPSET_ATTR_TYPENAME) ?? '';
  if (!isType(type)) throw new Refused(IPSET_ERR_FIND_TYPE);
  return type;
}

function isType(text: string): text is SetType {
  return Object.hasOwn(REVISIONS, text);
}

function typeAnswer(bytes: Buffer): Said {
  const type = typeIn(bytes);
  const revision = attribute(IPSET_ATTR_REVISION, Buffer.from([REVISIONS[type]]));
  return said(IPSET_CMD_TYPE, textAttribute(IPSET_ATTR_TYPENAME, type), revision);
}

function said(command: number, ...attributes: readonly Buffer[]): Said {
  const version = attribute(IPSET_ATTR_PROTOCOL, Buffer.from([PROTOCOL_VERSION]));
  const type = netfilterType(NFNL_SUBSYS_IPSET, command);
  return { type, body: Buffer.concat([netfilterHeader(), version, ...attributes]) };
}

/** An entry of a request has the attributes of one in a listing. */
function entryIn(bytes: Buffer): EntryBytes {
  const data = attributeIn(bytes, IPSET_ATTR_DATA);
  const inner = bytes.subarray(data, data + valueLength(bytes, data));
  const body = Buffer.concat([netfilterHeader(), nested(IPSET_ATTR_ADT, nested(IPSET_ATTR_DATA, inner))]);
  const whole: Message = { type: 0, flags: 0, sequence: 0, port: 0, start: 0, end: body.length };
  const [entry] = decodeSetPart(body, whole).entries;
  if (entry === undefined) throw new Refused(EINVAL);
  return entry;
}

function headerAttributes({ spec }: HeldSet): readonly Buffer[] {
  const { type, family } = spec;
  const number = type === 'bitmap:port' ? AF_UNSPEC : family === 'IPv4' ? AF_INET : AF_INET6;
  const maxelem = headerOf(spec);
  const size = maxelem === undefined ? [] : [attribute(IPSET_ATTR_MAXELEM | NLA_F_NET_BYTEORDER, u32(maxelem))];
  return [
    textAttribute(IPSET_ATTR_TYPENAME, type),
    attribute(IPSET_ATTR_FAMILY, Buffer.from([number])),
    attribute(IPSET_ATTR_REVISION, Buffer.from([REVISIONS[type]])),
    nested(IPSET_ATTR_DATA, ...size),
  ];
}

/** At least one part: an empty set has a header, too. */
function* chunksOf(entries: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at === 0 || at < entries.length; at += ENTRIES) yield entries.slice(at, at + ENTRIES);
}

function entryAttribute(text: string): Buffer {
  const { address, protocol, port, second, length } = entryBytes(text);
  const parts: Buffer[] = [];
  if (address !== undefined) parts.push(addressAttribute(IPSET_ATTR_IP, address));
  if (port !== undefined) parts.push(attribute(IPSET_ATTR_PORT | NLA_F_NET_BYTEORDER, u16(port)));
  if (protocol !== undefined) {
    const number = typeof protocol === 'number' ? protocol : PROTOCOLS[protocol];
    parts.push(attribute(IPSET_ATTR_PROTO, Buffer.from([number])));
  }
  if (second !== undefined) parts.push(addressAttribute(IPSET_ATTR_IP2, second));
  // The kernel omits the prefix length of a single address.
  if (length !== undefined && length < (second?.length ?? 0) * 8)
    parts.push(attribute(IPSET_ATTR_CIDR2, Buffer.from([length])));
  return nested(IPSET_ATTR_DATA, ...parts);
}

function addressAttribute(type: number, bytes: Uint8Array): Buffer {
  const inner = bytes.length === 4 ? IPSET_ATTR_IPADDR_IPV4 : IPSET_ATTR_IPADDR_IPV6;
  return nested(type, attribute(inner | NLA_F_NET_BYTEORDER, bytes));
}
