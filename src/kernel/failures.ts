/** Errors of this machine: of its kernel, of the tools of iptables, and of files under /proc. */
import { ESRCH, errnoOf } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { NetlinkError } from '../../native/netlink.ts';
import { NetlinkProtocolError } from '../../native/netlink-socket.ts';
import { DeviceUnusable } from './devices.ts';
import { IptablesError } from './iptables-tools.ts';
import { IpvsUnusable, KernelError } from './ipvs-kernel.ts';
import { NftUnusable } from './nftables-kernel.ts';
import { FactUnknown } from './node-facts.ts';
import { ListingUnsteady } from './whole-listing.ts';

const FAILURES = [
  ...[NetlinkError, NetlinkProtocolError, SystemError, ListingUnsteady],
  ...[DeviceUnusable, IpvsUnusable, KernelError, NftUnusable, IptablesError, FactUnknown],
];

/** Whether the error is about this machine, and no fault of the program. */
export function isMachineFailure(error: unknown): boolean {
  return FAILURES.some((kind) => error instanceof kind);
}

/** Whether the kernel says that there is no such virtual server (ip_vs_ctl.c, ip_vs_genl_find_service). */
export function isNoServer(error: unknown): boolean {
  return errnoOf(error) === ESRCH;
}
