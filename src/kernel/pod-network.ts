/**
 * A network namespace of this process, joined to the node's by a pair of veth devices, as the network plugins of Kubernetes join a Pod. Packets that
 * are sent there enter the node from a device: so they pass the hooks prerouting and forward, which no packet of the node itself passes. It ends soon
 * after the process, also where that is killed. It takes CAP_SYS_ADMIN.
 */
import { Socket } from 'node:net';
import { ENODEV, EPERM, errnoOf } from '../../native/errno.ts';
import type { NetlinkRequest } from '../../native/netlink.ts';
import type { NetlinkSocket } from '../../native/netlink-socket.ts';
import type { OtherNetwork } from '../../native/network-namespace.ts';
import { type Address, addressOctets, familyOf, type SocketAddress } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';

/** The end of the pair on the node. */
export const POD_DEVICE = 'slicewire0';
/** The other end. */
const INNER_DEVICE = 'eth0';
/** Of the documents' range, locally administered (RFC 7042, section 2.1.2 names 00-00-5E-00-53). Both ends have it. */
const MAC = Uint8Array.of(0x02, 0x00, 0x5e, 0x00, 0x53, 0x50);

type Rtnetlink = typeof import('../../native/rtnetlink.ts');

export interface PodNetwork {
  /** The end of the pair on the node. */
  readonly device: string;
  /** Those that the Pod got. */
  readonly addresses: readonly Address[];
  /** Begins a connection. The socket emits `data`, `end` or `error` first, and never `connect`. Throws SystemError. */
  connect(to: SocketAddress): Socket;
  /** A descriptor of a socket that is bound to an address and to a free port. Throws SystemError. */
  bound(at: Address): number;
  close(): void;
}

/**
 * `addresses`: for the Pod, one a family. A family that the node's kernel refuses is left out. Throws an Error where no namespace can be made, and
 * SystemError or NetlinkError where no family can be joined: EEXIST where the node has a route to each address.
 */
export async function makePodNetwork(addresses: readonly Address[]): Promise<PodNetwork> {
  const [libc, { OtherNetwork }, rtnetlink, { NetlinkSocket, openTransport }] = await Promise.all([
    import('../../native/libc.ts'),
    import('../../native/network-namespace.ts'),
    import('../../native/rtnetlink.ts'),
    import('../../native/netlink-socket.ts'),
  ]);
  const network = made(() => new OtherNetwork());
  const open = () => new NetlinkSocket(openTransport(rtnetlink.NETLINK_ROUTE));
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
  let joined: readonly Address[];
  try {
    joined = joinDevices(network, { addresses, rtnetlink, open });
  } catch (error) {
    network.close();
    throw error;
  }
  return {
    device: POD_DEVICE,
    addresses: joined,
    connect: (to) => {
      const fd = opened(to.address, (descriptor) => libc.beginConnect(descriptor, at(to)));
      try {
        return new Socket({ fd, readable: true, writable: true });
      } catch (error) {
        libc.close(fd);
        throw error;
      }
    },
    bound: (address) => opened(address, (descriptor) => libc.bind(descriptor, at({ address, port: 0 }))),
    close: () => network.close(),
  };
}

function made(make: () => OtherNetwork): OtherNetwork {
  try {
    return make();
  } catch (error) {
    if (errnoOf(error) !== EPERM) throw error;
    throw new Error(
      `${causeOf(error)}: a network namespace takes the capability SYS_ADMIN, and a service manager or a container that does not forbid it`,
    );
  }
}

interface JoinInput {
  readonly addresses: readonly Address[];
  readonly rtnetlink: Rtnetlink;
  readonly open: () => NetlinkSocket;
}

/** Makes the pair, and the routes and addresses at both ends. Returns the addresses of the families that could be joined. */
function joinDevices(network: OtherNetwork, { addresses, rtnetlink, open }: JoinInput): readonly Address[] {
  const node = open();
  try {
    // A socket belongs to the namespace in which it was opened.
    const pod = network.inside(open);
    try {
      removeFormer(node, rtnetlink);
      write(pod, [rtnetlink.addVethRequest(INNER_DEVICE, { name: POD_DEVICE, namespace: network.own }, MAC)]);
      const inner = rtnetlink.findLink(pod, INNER_DEVICE).index;
      const outer = rtnetlink.findLink(node, POD_DEVICE).index;
      write(pod, [rtnetlink.setUpRequest(inner)]);
      write(node, [rtnetlink.setUpRequest(outer)]);
      const joined: Address[] = [];
      let refused: unknown;
      for (const address of addresses) {
        const to = { family: familyOf(address), bytes: addressOctets(address) };
        try {
          const back = rtnetlink.addRouteRequest(inner, { family: to.family, bytes: undefined });
          write(pod, [rtnetlink.addAddressRequest(inner, to.bytes), back]);
          write(node, [rtnetlink.addRouteRequest(outer, to)]);
          joined.push(address);
        } catch (error) {
          refused = error;
        }
      }
      if (joined.length === 0 && refused !== undefined) throw refused;
      return joined;
    } finally {
      pod.close();
    }
  } finally {
    node.close();
  }
}

function write(socket: NetlinkSocket, requests: readonly NetlinkRequest[]): void {
  for (const error of socket.acknowledge(requests)) if (error !== undefined) throw error;
}

/** The kernel removes the devices of a process that ended, and takes its time. */
function removeFormer(node: NetlinkSocket, { findLink, deleteLinkRequest }: Rtnetlink): void {
  try {
    if (findLink(node, POD_DEVICE).kind === 'veth') write(node, [deleteLinkRequest(POD_DEVICE)]);
  } catch (error) {
    if (errnoOf(error) !== ENODEV) throw error;
  }
}
