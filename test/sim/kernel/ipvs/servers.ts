/** Virtual servers and their destinations at the bytes of generic netlink (ip_vs_ctl.c, ip_vs_genl_…). */
import { EEXIST, EINVAL, ENOENT, EOPNOTSUPP, ESRCH } from '../../../../native/errno.ts';
import {
  CTRL_ATTR_FAMILY_ID,
  CTRL_ATTR_FAMILY_NAME,
  CTRL_CMD_GETFAMILY,
  GENERIC_HEADER,
  GENL_ID_CTRL,
  genericHeader,
} from '../../../../native/generic.ts';
import {
  decodeDestination,
  decodeServer,
  decodeTimeouts,
  INET_ADDRESS,
  IP_VS_CONN_F_MASQ,
  IP_VS_SVC_F_HASHED,
  IPVS_CMD_ATTR_DEST,
  IPVS_CMD_ATTR_SERVICE,
  IPVS_CMD_ATTR_TIMEOUT_TCP,
  IPVS_CMD_ATTR_TIMEOUT_TCP_FIN,
  IPVS_CMD_ATTR_TIMEOUT_UDP,
  IPVS_CMD_DEL_DEST,
  IPVS_CMD_DEL_SERVICE,
  IPVS_CMD_GET_CONFIG,
  IPVS_CMD_GET_DEST,
  IPVS_CMD_GET_SERVICE,
  IPVS_CMD_NEW_DEST,
  IPVS_CMD_NEW_SERVICE,
  IPVS_CMD_SET_CONFIG,
  IPVS_CMD_SET_DEST,
  IPVS_CMD_SET_SERVICE,
  IPVS_DEST_ATTR_ACTIVE_CONNS,
  IPVS_DEST_ATTR_ADDR,
  IPVS_DEST_ATTR_ADDR_FAMILY,
  IPVS_DEST_ATTR_FWD_METHOD,
  IPVS_DEST_ATTR_INACT_CONNS,
  IPVS_DEST_ATTR_L_THRESH,
  IPVS_DEST_ATTR_PORT,
  IPVS_DEST_ATTR_U_THRESH,
  IPVS_DEST_ATTR_WEIGHT,
  IPVS_GENL_NAME,
  IPVS_SVC_ATTR_ADDR,
  IPVS_SVC_ATTR_AF,
  IPVS_SVC_ATTR_FLAGS,
  IPVS_SVC_ATTR_NETMASK,
  IPVS_SVC_ATTR_PORT,
  IPVS_SVC_ATTR_PROTOCOL,
  IPVS_SVC_ATTR_SCHED_NAME,
  IPVS_SVC_ATTR_TIMEOUT,
} from '../../../../native/ipvs.ts';
import {
  IPVS_STATS_ATTR_CONNS,
  IPVS_STATS_ATTR_INBYTES,
  IPVS_STATS_ATTR_OUTBYTES,
  IPVS_SVC_ATTR_STATS64,
} from '../../../../native/ipvs-statistics.ts';
import { AF_INET, AF_INET6 } from '../../../../native/libc.ts';
import {
  attribute,
  findAttribute,
  HEADER_LENGTH,
  type Message,
  nested,
  textAt,
  valueLength,
} from '../../../../native/netlink.ts';
import { addressOctets, addressOfBytes } from '../../../../src/base/address.ts';
import type { Destination, Server, ServerId } from '../../../../src/kernel/ipvs-kernel.ts';
import { PROTOCOL_NUMBERS } from '../../../../src/kernel/traced-packets.ts';
import { serverKey } from '../../../../src/proxy/modes/virtual-servers/tracked-objects.ts';
import type { HeldDestination } from '../../../helpers/kernel/ipvs-state.ts';
import { Refused, type Request, type Said, textAttribute, u16, u32 } from '../netlink/format.ts';
import type { Listed } from '../netlink/listing.ts';
import type { Answers } from '../netlink/request-part.ts';
import type { CarryOut, SimIpvs } from './ipvs.ts';

/** The number that generic netlink gave the family IPVS. */
const FAMILY = 0x23;
const CTRL_CMD_NEWFAMILY = 1;

const NAMES: Readonly<Record<number, string>> = {
  [IPVS_CMD_NEW_SERVICE]: 'add a server',
  [IPVS_CMD_SET_SERVICE]: 'change a server',
  [IPVS_CMD_DEL_SERVICE]: 'remove a server',
  [IPVS_CMD_GET_SERVICE]: 'list servers',
  [IPVS_CMD_NEW_DEST]: 'add a destination',
  [IPVS_CMD_SET_DEST]: 'change a destination',
  [IPVS_CMD_DEL_DEST]: 'remove a destination',
  [IPVS_CMD_GET_DEST]: 'list destinations',
  [IPVS_CMD_SET_CONFIG]: 'set timeouts',
  [IPVS_CMD_GET_CONFIG]: 'ask for timeouts',
};

export class ServerAnswers implements Answers {
  readonly #ipvs: SimIpvs;
  readonly #carryOut: CarryOut;

  constructor(ipvs: SimIpvs, carryOut: CarryOut) {
    this.#ipvs = ipvs;
    this.#carryOut = carryOut;
  }

  what({ type, bytes }: Request): string {
    const command = bytes[HEADER_LENGTH] ?? 0;
    return type === GENL_ID_CTRL ? 'ask for the family' : (NAMES[command] ?? `command ${command}`);
  }

  answer({ type, bytes }: Request): readonly Said[] {
    const command = bytes[HEADER_LENGTH];
    if (type === GENL_ID_CTRL && command === CTRL_CMD_GETFAMILY) return [familyNamed(bytes)];
    if (type !== FAMILY) throw new Refused(ENOENT);
    switch (command) {
      case IPVS_CMD_NEW_SERVICE:
        // ENOENT: it has no such scheduler (ip_vs_add_service).
        return this.#carryOut(
          { kind: 'add-server', server: wholeServerIn(bytes) },
          { exists: EEXIST, refused: ENOENT },
        );
      case IPVS_CMD_SET_SERVICE:
        return this.#carryOut(
          { kind: 'change-server', server: wholeServerIn(bytes) },
          { missing: ESRCH, refused: ENOENT },
        );
      case IPVS_CMD_DEL_SERVICE:
        return this.#carryOut({ kind: 'remove-server', server: serverIn(bytes) }, { missing: ESRCH });
      case IPVS_CMD_NEW_DEST:
        return this.#writeDestination('add-destination', bytes);
      case IPVS_CMD_SET_DEST:
        return this.#writeDestination('change-destination', bytes);
      case IPVS_CMD_DEL_DEST:
        return this.#writeDestination('remove-destination', bytes);
      case IPVS_CMD_GET_CONFIG:
        return [{ type: FAMILY, body: this.#timeouts() }];
      case IPVS_CMD_SET_CONFIG:
        this.#setTimeouts(bytes);
        return [];
      default:
        throw new Refused(EOPNOTSUPP);
    }
  }

  /** It counts the entries from the beginning, and tells of no change (ip_vs_genl_dump_services). A server that is missing has no destinations. */
  list({ type, bytes }: Request): Listed {
    if (type !== FAMILY) throw new Refused(ENOENT);
    const { servers } = this.#ipvs.state;
    switch (bytes[HEADER_LENGTH]) {
      case IPVS_CMD_GET_SERVICE:
        return {
          entries: () =>
            [...servers.values()].map(({ server }) => () => ({ type: FAMILY, body: serverBody(server) })),
        };
      case IPVS_CMD_GET_DEST: {
        const key = serverKey(serverIn(bytes));
        return {
          entries: () =>
            // A new one comes first (__ip_vs_add_dest).
            [...(servers.get(key)?.destinations.values() ?? [])].toReversed().map((destination) => () => ({
              type: FAMILY,
              body: destinationBody(destination),
            })),
        };
      }
      default:
        throw new Refused(EOPNOTSUPP);
    }
  }

  #writeDestination(
    kind: 'add-destination' | 'change-destination' | 'remove-destination',
    bytes: Buffer,
  ): readonly Said[] {
    const server = serverIn(bytes);
    if (!this.#ipvs.state.servers.has(serverKey(server))) throw new Refused(ESRCH);
    if (kind !== 'remove-destination') mustHave(bytes, IPVS_CMD_ATTR_DEST, OF_DESTINATIONS);
    const destination = destinationIn(bytes, addressOctets(server.address).length);
    return this.#carryOut({ kind, server, destination }, { exists: EEXIST, missing: ENOENT });
  }

  #timeouts(): Buffer {
    const { tcp, tcpFin, udp } = this.#ipvs.state.timeouts;
    return Buffer.concat([
      genericHeader(IPVS_CMD_SET_CONFIG),
      attribute(IPVS_CMD_ATTR_TIMEOUT_TCP, u32(tcp, 'machine')),
      attribute(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, u32(tcpFin, 'machine')),
      attribute(IPVS_CMD_ATTR_TIMEOUT_UDP, u32(udp, 'machine')),
    ]);
  }

  /** 0 leaves a value as it is (ip_vs_set_timeout). */
  #setTimeouts(bytes: Buffer): void {
    const { tcp, tcpFin, udp } = decodeTimeouts(bytes, wholeOf(bytes));
    const { state } = this.#ipvs;
    const now = state.timeouts;
    state.timeouts = { tcp: tcp || now.tcp, tcpFin: tcpFin || now.tcpFin, udp: udp || now.udp };
  }
}

function familyNamed(bytes: Buffer): Said {
  const name = textAt(bytes, HEADER_LENGTH + GENERIC_HEADER, bytes.length, CTRL_ATTR_FAMILY_NAME);
  if (name !== IPVS_GENL_NAME) throw new Refused(ENOENT);
  const number = attribute(CTRL_ATTR_FAMILY_ID, u16(FAMILY, 'machine'));
  const body = [genericHeader(CTRL_CMD_NEWFAMILY, 2), textAttribute(CTRL_ATTR_FAMILY_NAME, name), number];
  return { type: GENL_ID_CTRL, body: Buffer.concat(body) };
}

function wholeOf(bytes: Buffer): Message {
  return { type: 0, flags: 0, sequence: 0, port: 0, start: HEADER_LENGTH, end: bytes.length };
}

function serverIn(bytes: Buffer): Server {
  const found = decodeServer(bytes, wholeOf(bytes));
  if (found === undefined) throw new Refused(EINVAL);
  return { ...found, address: addressOfBytes(found.address) };
}

/** As for a server that is made or changed (ip_vs_genl_parse_service, full_entry). */
function wholeServerIn(bytes: Buffer): Server {
  mustHave(bytes, IPVS_CMD_ATTR_SERVICE, OF_SERVERS);
  return serverIn(bytes);
}

const OF_SERVERS = [IPVS_SVC_ATTR_SCHED_NAME, IPVS_SVC_ATTR_FLAGS, IPVS_SVC_ATTR_TIMEOUT, IPVS_SVC_ATTR_NETMASK];
const OF_DESTINATIONS = [
  IPVS_DEST_ATTR_FWD_METHOD,
  IPVS_DEST_ATTR_WEIGHT,
  IPVS_DEST_ATTR_U_THRESH,
  IPVS_DEST_ATTR_L_THRESH,
];

/** Throws Refused where an attribute of the nest is missing. */
function mustHave(bytes: Buffer, nest: number, types: readonly number[]): void {
  const at = findAttribute(bytes, HEADER_LENGTH + GENERIC_HEADER, bytes.length, nest);
  const end = at < 0 ? at : at + valueLength(bytes, at);
  if (at < 0 || types.some((type) => findAttribute(bytes, at, end, type) < 0)) throw new Refused(EINVAL);
}

function destinationIn(bytes: Buffer, size: number): Destination {
  const found = decodeDestination(bytes, wholeOf(bytes), size);
  if (found === undefined) throw new Refused(EINVAL);
  return { address: addressOfBytes(found.address), port: found.port, weight: found.weight };
}

function serverBody({ protocol, address, port, scheduler, flags, timeout }: Server): Buffer {
  const pair = Buffer.concat([u32(flags | IP_VS_SVC_F_HASHED, 'machine'), u32(0xffff_ffff, 'machine')]);
  const none = Buffer.alloc(8);
  return Buffer.concat([
    genericHeader(IPVS_CMD_NEW_SERVICE),
    nested(
      IPVS_CMD_ATTR_SERVICE,
      ...identity({ protocol, address, port }),
      textAttribute(IPVS_SVC_ATTR_SCHED_NAME, scheduler),
      attribute(IPVS_SVC_ATTR_FLAGS, pair),
      attribute(IPVS_SVC_ATTR_TIMEOUT, u32(timeout, 'machine')),
      nested(
        IPVS_SVC_ATTR_STATS64,
        attribute(IPVS_STATS_ATTR_CONNS, none),
        attribute(IPVS_STATS_ATTR_INBYTES, none),
        attribute(IPVS_STATS_ATTR_OUTBYTES, none),
      ),
    ),
  ]);
}

function identity({ protocol, address, port }: ServerId): readonly Buffer[] {
  return [
    attribute(IPVS_SVC_ATTR_AF, u16(familyNumber(address), 'machine')),
    attribute(IPVS_SVC_ATTR_PROTOCOL, u16(PROTOCOL_NUMBERS[protocol], 'machine')),
    attribute(IPVS_SVC_ATTR_ADDR, padded(address)),
    attribute(IPVS_SVC_ATTR_PORT, u16(port)),
  ];
}

function destinationBody({ address, port, weight, connections }: HeldDestination): Buffer {
  const number = (type: number, value: number) => attribute(type, u32(value, 'machine'));
  return Buffer.concat([
    genericHeader(IPVS_CMD_NEW_DEST),
    nested(
      IPVS_CMD_ATTR_DEST,
      attribute(IPVS_DEST_ATTR_ADDR, padded(address)),
      attribute(IPVS_DEST_ATTR_PORT, u16(port)),
      number(IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ),
      number(IPVS_DEST_ATTR_WEIGHT, weight),
      number(IPVS_DEST_ATTR_ACTIVE_CONNS, connections),
      number(IPVS_DEST_ATTR_INACT_CONNS, 0),
      attribute(IPVS_DEST_ATTR_ADDR_FAMILY, u16(familyNumber(address), 'machine')),
    ),
  ]);
}

function familyNumber(address: Server['address']): number {
  return addressOctets(address).length === 4 ? AF_INET : AF_INET6;
}

/** union nf_inet_addr */
function padded(address: Server['address']): Buffer {
  const bytes = Buffer.alloc(INET_ADDRESS);
  bytes.set(addressOctets(address));
  return bytes;
}
