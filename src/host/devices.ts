/** The addresses of this machine's devices; and the device that holds those of Services in IPVS mode. */
import type { NetlinkSocket } from '../../native/netlink-socket.ts';
import { type Address, addressOfBytes, type Family, isLoopback } from '../model/address.ts';
import { wholeListing } from './listing.ts';

/** kube-proxy's name (pkg/proxy/ipvs/proxier.go). */
export const SERVICE_DEVICE = 'kube-ipvs0';
const ENODEV = 19;

/** The device of Services is of another kind than it should be. */
export class DeviceUnusable extends Error {
  readonly code = 'DEVICE_UNUSABLE';
}

export interface DeviceAddresses {
  /** Of the device of Services. */
  readonly service: readonly Address[];
  /** 127.0.0.0/8 and ::1. */
  readonly loopback: readonly Address[];
  /** All others but IPv6 link-local ones; also those that routing put on the loopback device, and those of scope link of IPv4. */
  readonly others: readonly Address[];
}

/** Index of the device of Services; undefined when there is none. Throws DeviceUnusable when the name is that of another kind of device. */
export async function serviceDevice(route: NetlinkSocket): Promise<number | undefined> {
  const { findLink } = await import('../../native/rtnetlink.ts');
  try {
    const { index, kind } = findLink(route, SERVICE_DEVICE);
    if (kind === 'dummy') return index;
    throw new DeviceUnusable(`the device ${SERVICE_DEVICE} is of kind ${kind || 'unknown'}, not dummy`);
  } catch (error) {
    if ((error as { errno?: number }).errno === ENODEV) return undefined;
    throw error;
  }
}

/** Whether there is such a device, of the right kind, in this network namespace. */
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
 * fe80::/10, which is good on one link alone (RFC 4291, 2.5.6). Of IPv4 the scope is what an administrator gave the address, and
 * says nothing of who may use it: kube-proxy takes all of them (net.InterfaceAddrs).
 */
function isLinkLocal(bytes: Uint8Array): boolean {
  return bytes.length === 16 && bytes[0] === 0xfe && ((bytes[1] ?? 0) & 0xc0) === 0x80;
}

/** The same on a socket of its own. */
export async function localAddresses(family: Family): Promise<DeviceAddresses> {
  return await withRoute((route) => readAddresses(route, family));
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
