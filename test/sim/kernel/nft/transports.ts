/** Sockets of simulated processes to the simulated nftables, and to its multicast group. */
import { ENOBUFS, EPROTONOSUPPORT } from '../../../../native/errno.ts';
import { SystemError } from '../../../../native/libc.ts';
import type { NetlinkTransport, openTransport } from '../../../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../../../native/nfnetlink.ts';
import type { SimProcess } from '../../engine/process.ts';
import { openedSocket, receive, transportTo } from '../netlink/transports.ts';
import type { NftKernelState } from './kernel.ts';

const NOTICES_BUFFER = 2 * 1024 * 1024;
/** Milliseconds until the signal that something arrived is handled. */
const SIGNAL = 1;

/** A socket of the multicast group of nftables. */
export interface SimListener extends NetlinkTransport {
  /** Calls soon after something arrived; the result ends it. */
  onData(call: () => void): () => void;
}

/** Opens sockets as `openTransport`. They know their ports. `longestSent`: see `TransportOptions`. */
export function transportsOf(
  kernel: NftKernelState,
  process: SimProcess,
  longestSent: number,
): (...how: Parameters<typeof openTransport>) => NetlinkTransport & { readonly port: number } {
  return (protocol, longest) => {
    if (protocol !== NETLINK_NETFILTER) throw new SystemError('socket', EPROTONOSUPPORT);
    return transportTo(kernel, process, { longest, longestSent });
  };
}

/** Opens a listener; `own`: the port whose writes it does not hear about, but for their generations. */
export function listenerOf(kernel: NftKernelState, process: SimProcess, own?: number): SimListener {
  const socket = openedSocket(kernel, process, NOTICES_BUFFER);
  const member = { socket, not: own };
  kernel.members.add(member);
  let cancel: (() => void) | undefined;
  const end = () => {
    kernel.members.delete(member);
    cancel?.();
  };
  const forget = process.opened('nftables listener', end);
  return {
    send: () => undefined,
    receive: (into) => receive(into, { process, socket, what: 'nftables: notices', errors: [ENOBUFS] }),
    onData(call) {
      socket.onData(() => {
        cancel ??= process.time.after(
          SIGNAL,
          () => {
            cancel = undefined;
            call();
          },
          process,
        );
      });
      return () => socket.onData(() => undefined);
    },
    close() {
      forget();
      end();
    },
  };
}
