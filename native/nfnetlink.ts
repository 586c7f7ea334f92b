/** The common part of netfilter's subsystems over netlink (linux/netfilter/nfnetlink.h). */
import { AF_INET, AF_INET6, AF_UNSPEC } from './libc.ts';

export const NETLINK_NETFILTER = 12;
/** struct nfgenmsg: family, version 0, resource 0. */
export const NFGENMSG = 4;

export type NetfilterFamily = 'IPv4' | 'IPv6';

/** AF_INET or AF_INET6. */
export function familyNumber(family: NetfilterFamily): number {
  return family === 'IPv4' ? AF_INET : AF_INET6;
}

/** The header of every message; without a family where it does not matter. */
export function netfilterHeader(family?: NetfilterFamily): Buffer {
  return Buffer.from([family === undefined ? AF_UNSPEC : familyNumber(family), 0, 0, 0]);
}

/** The type of a message: the number of the subsystem (NFNL_SUBSYS_…), and that of its message. */
export function netfilterType(subsystem: number, message: number): number {
  return (subsystem << 8) | message;
}
