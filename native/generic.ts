/** Generic netlink (linux/genetlink.h): families have names, to which the kernel assigns numbers. */
import { BodyWriter } from './body-writer.ts';
import { findAttribute, type NetlinkRequest } from './netlink.ts';
import type { NetlinkSocket } from './netlink-socket.ts';

export const NETLINK_GENERIC = 16;
export const GENL_ID_CTRL = 16;
export const CTRL_CMD_GETFAMILY = 3;
export const CTRL_ATTR_FAMILY_ID = 1;
export const CTRL_ATTR_FAMILY_NAME = 2;
/** struct genlmsghdr: command, version, two bytes reserved. */
export const GENERIC_HEADER = 4;

const writer = new BodyWriter();

/** struct genlmsghdr */
export function genericHeader(command: number, version = 1): Buffer {
  return Buffer.from([command, version, 0, 0]);
}

/** Asks for the number of a family. */
export function familyRequest(name: string): NetlinkRequest {
  const body = writer.begin(genericHeader(CTRL_CMD_GETFAMILY)).text(CTRL_ATTR_FAMILY_NAME, name).end();
  return { type: GENL_ID_CTRL, flags: 0, body: [body] };
}

/** The number of a family, which is the type of its messages. Throws NetlinkError, with ENOENT when the kernel has no such family. */
export function resolveFamily(socket: NetlinkSocket, name: string): number {
  return socket.ask(familyRequest(name), (buffer, { start, end }) => {
    const id = findAttribute(buffer, start + GENERIC_HEADER, end, CTRL_ATTR_FAMILY_ID, 2);
    if (id < 0) throw new RangeError(`generic netlink answered the family ${name} without its number`);
    return buffer.readUInt16LE(id);
  });
}
