/** The addresses of this node's devices, and the device that has the addresses of Services in IPVS mode. */
import { EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH, ENODEV, errnoOf } from '../../native/errno.ts';
import type { NetlinkSocket } from '../../native/netlink-socket.ts';
import { type Address, addressOctets, addressOfBytes, type Family, isLoopback } from '../base/address.ts';
import { wholeListing } from './whole-listing.ts';

/** kube-proxy's name (pkg/proxy/ipvs/proxier.go). */
export const SERVICE_DEVICE = 'kube-ipvs0';

/** The device of Services exists, but is no dummy device. */
export class DeviceUnusable extends Error {
  readonly code = 'DEVICE_UNUSABLE';
}

export interface DeviceAddresses {
  /** On the device of Services. */
  readonly service: readonly Address[];
  /** 127.0.0.0/8 and ::1. */
  readonly loopback: readonly Address[];
  /** All others, except IPv6 link-local ones. Other addresses of the loopback device count, and IPv4 addresses of scope link. */
  readonly others: readonly Address[];
}

/** The index of the device of Services; undefined when there is none. Throws NetlinkError, and DeviceUnusable for a device of another kind. */
export async function serviceDevice(route: NetlinkSocket): Promise<number | undefined> {
  const { findLink } = await import('../../native/rtnetlink.ts');
  try {
    const { index, kind } = findLink(route, SERVICE_DEVICE);
    if (kind === 'dummy') return index;
    throw new DeviceUnusable(
      `the device ${SERVICE_DEVICE} is a device of kind ${kind || 'unknown'}; it must be a dummy device`,
    );
  } catch (error) {
    if (errnoOf(error) === ENODEV) return undefined;
    throw error;
  }
}

/** Whether this network namespace has the device, of the right kind. */
export async function hasServiceDevice(): Promise<boolean> {
  return await withRoute(async (route) => {
    try {
      return (await serviceDevice(route)) !== undefined;
    } catch (error) {
      if (error instanceof DeviceUnusable) return false;
      throw error;
    }
  });
}

/** Whether the device, if it exists, has addresses of these families. */
export async function hasServiceAddress(families: readonly Family[]): Promise<boolean> {
  if (!(await hasServiceDevice())) return false;
  for (const family of families) if ((await localAddresses(family)).service.length > 0) return true;
  return false;
}

/** A family's addresses on all devices. Throws DeviceUnusable, NetlinkError, ListingUnsteady. */
export async function readAddresses(route: NetlinkSocket, family: Family): Promise<DeviceAddresses> {
  const { deviceAddresses } = await import('../../native/rtnetlink.ts');
  const mine = await serviceDevice(route);
  const listed = await wholeListing(() => deviceAddresses(route, family));
  const unique = (some: typeof listed) => [...new Set(some.map(({ bytes }) => addressOfBytes(bytes)))];
  const host = unique(listed.filter(({ index, bytes }) => index !== mine && !isLinkLocal(bytes)));
  return {
    service: unique(listed.filter(({ index }) => index === mine)),
    loopback: host.filter(isLoopback),
    others: host.filter((address) => !isLoopback(address)),
  };
}

/**
 * fe80::/10, valid on one link only (RFC 4291, 2.5.6). The scope of an IPv4 address is the administrator's choice and does not
 * restrict its use: kube-proxy takes all of them (net.InterfaceAddrs).
 */
function isLinkLocal(bytes: Uint8Array): boolean {
  return bytes.length === 16 && bytes[0] === 0xfe && ((bytes[1] ?? 0) & 0xc0) === 0x80;
}

/** `readAddresses` on a socket of its own. */
export async function localAddresses(family: Family): Promise<DeviceAddresses> {
  return await withRoute((route) => readAddresses(route, family));
}

/** The way to an address. Each is undefined where the kernel names none. */
export interface Route {
  /** The address from which this node sends. */
  readonly source: Address | undefined;
  readonly device: string | undefined;
}

/** The errors of routes that lead nowhere: none, and those of type unreachable, blackhole and prohibit (ip-route(8)). */
const NO_WAY: readonly (number | undefined)[] = [ENETUNREACH, EHOSTUNREACH, EINVAL, EACCES];

/** The way to an address by this node's routes; undefined when there is none. Throws NetlinkError. */
export async function routeTo(destination: Address): Promise<Route | undefined> {
  const { findRoute, linkName } = await import('../../native/rtnetlink.ts');
  return await withRoute((route) => {
    try {
      const { source, index } = findRoute(route, addressOctets(destination));
      const device = index === 0 ? undefined : linkName(route, index);
      return Promise.resolve({ source: source && addressOfBytes(source), device });
    } catch (error) {
      if (NO_WAY.includes(errnoOf(error))) return Promise.resolve(undefined);
      throw error;
    }
  });
}

async function withRoute<T>(use: (route: NetlinkSocket) => Promise<T>): Promise<T> {
  const [{ NETLINK_ROUTE }, { NetlinkSocket, openTransport }] = await Promise.all([
    import('../../native/rtnetlink.ts'),
    import('../../native/netlink-socket.ts'),
  ]);
  const route = new NetlinkSocket(openTransport(NETLINK_ROUTE));
  try {
    return await use(route);
  } finally {
    route.close();
  }
}
