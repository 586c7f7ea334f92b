/**
 * A network namespace of this process, joined to the node's by a pair of veth devices, as the network plugins of Kubernetes do it for a Pod. What is
 * sent there enters the node from a device: so it passes the hooks prerouting and forward, which no packet of the node itself passes. It is gone with
 * the process, also where that is killed. It takes CAP_SYS_ADMIN.
 */
import { Socket } from 'node:net';
import { ENODEV, EPERM, errnoOf } from '../../native/errno.ts';
import type { OtherNetwork } from '../../native/network-namespace.ts';
import { type Address, addressOctets, familyOf, type SocketAddress } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';

/** The end of the pair on the node. */
export const POD_DEVICE = 'slicewire0';
/** The other end. */
const INNER_DEVICE = 'eth0';
/** Of the documents' range, locally administered (RFC 7042, section 2.1.2 names 00-00-5E-00-53). Both ends have it. */
const MAC = Uint8Array.of(0x02, 0x00, 0x5e, 0x00, 0x53, 0x50);

export interface PodNetwork {
  /** The end of the pair on the node. */
  readonly device: string;
  readonly addresses: readonly Address[];
  /** Begins a connection. The socket says `data`, `end` or `error` first, and never `connect`. Throws SystemError. */
  connect(to: SocketAddress): Socket;
  /** A descriptor of a socket that is bound to an address and to a free port. Throws SystemError. */
  bound(at: Address): number;
  close(): void;
}

/** `addresses`: those of the Pod, one a family. Throws SystemError and NetlinkError, and NoPodNetwork without the capability. */
export async function makePodNetwork(addresses: readonly Address[]): Promise<PodNetwork> {
  const [libc, { OtherNetwork }] = await Promise.all([
    import('../../native/libc.ts'),
    import('../../native/network-namespace.ts'),
  ]);
  const network = made(() => new OtherNetwork());
  try {
    await join(network, addresses);
  } catch (error) {
    network.close();
    throw error;
  }
  const opened = (address: Address, use: (descriptor: number) => void) =>
    network.inside(() => {
      const domain = familyOf(address) === 'IPv4' ? libc.AF_INET : libc.AF_INET6;
      const descriptor = libc.socket(domain, libc.SOCK_STREAM | libc.SOCK_NONBLOCK, 0);
      try {
        use(descriptor);
        return descriptor;
      } catch (error) {
        libc.close(descriptor);
        throw error;
      }
    });
  const at = ({ address, port }: SocketAddress) => libc.internetAddress(addressOctets(address), port);
  return {
    device: POD_DEVICE,
    addresses,
    connect: (to) => {
      const fd = opened(to.address, (descriptor) => libc.beginConnect(descriptor, at(to)));
      return new Socket({ fd, readable: true, writable: true });
    },
    bound: (address) => opened(address, (descriptor) => libc.bind(descriptor, at({ address, port: 0 }))),
    close: () => network.close(),
  };
}

/** This process may make no network namespace. */
export class NoPodNetwork extends Error {
  readonly code = 'NO_POD_NETWORK';
}

function made(make: () => OtherNetwork): OtherNetwork {
  try {
    return make();
  } catch (error) {
    if (errnoOf(error) !== EPERM) throw error;
    throw new NoPodNetwork(`${causeOf(error)}: a network namespace takes the capability SYS_ADMIN`);
  }
}

/** Makes the pair, and the routes and addresses at both ends. */
async function join(network: OtherNetwork, addresses: readonly Address[]): Promise<void> {
  const [rtnetlink, { NetlinkSocket, openTransport }] = await Promise.all([
    import('../../native/rtnetlink.ts'),
    import('../../native/netlink-socket.ts'),
  ]);
  const open = () => new NetlinkSocket(openTransport(rtnetlink.NETLINK_ROUTE));
  const octets = addresses.map((address) => ({ family: familyOf(address), bytes: addressOctets(address) }));
  const node = open();
  // A socket belongs to the namespace in which it was opened.
  const pod = network.inside(open);
  const write = (socket: typeof node, ...requests: Parameters<typeof node.acknowledge>[0][number][]) => {
    for (const error of socket.acknowledge(requests)) if (error !== undefined) throw error;
  };
  try {
    removeFormer(node, rtnetlink);
    write(pod, rtnetlink.addVethRequest(INNER_DEVICE, { name: POD_DEVICE, namespace: network.own }, MAC));
    const inner = rtnetlink.findLink(pod, INNER_DEVICE).index;
    const outer = rtnetlink.findLink(node, POD_DEVICE).index;
    write(pod, ...octets.map(({ bytes }) => rtnetlink.addAddressRequest(inner, bytes)), rtnetlink.setUpRequest(inner));
    write(node, rtnetlink.setUpRequest(outer));
    write(pod, ...octets.map(({ family }) => rtnetlink.addRouteRequest(inner, { family, bytes: undefined })));
    write(node, ...octets.map((to) => rtnetlink.addRouteRequest(outer, to)));
  } finally {
    pod.close();
    node.close();
  }
}

/** The kernel removes the devices of a process that ended, and takes its time. */
function removeFormer(
  node: Parameters<typeof import('../../native/rtnetlink.ts')['findLink']>[0],
  { findLink, deleteLinkRequest }: typeof import('../../native/rtnetlink.ts'),
): void {
  try {
    if (findLink(node, POD_DEVICE).kind !== 'veth') return;
    node.acknowledge([deleteLinkRequest(POD_DEVICE)]);
  } catch (error) {
    if (errnoOf(error) !== ENODEV) throw error;
  }
}
