/** Sockets of another network namespace: a socket belongs to the namespace of its thread at its creation. */
import { closeSync, openSync } from 'node:fs';
import { type MulticastSocket, openTransport } from '../../../native/netlink-socket.ts';

/** linux/sched.h */
const CLONE_NEWNET = 0x40000000;

const { dlopen } = process.getBuiltinModule('node:ffi');
const { functions: libc } = dlopen('libc.so.6', {
  setns: { return: 'int32', arguments: ['int32', 'int32'] },
});

/** Opens sockets in the namespace of this name (`ip netns`). The thread returns to its own namespace at once. */
export function transportsIn(namespace: string): typeof openTransport {
  return (protocol, longest) => inNamespace(namespace, () => openTransport(protocol, longest));
}

/** Opens a socket for a multicast group in a namespace. */
export function listenersIn(namespace: string, open: () => MulticastSocket): () => MulticastSocket {
  return () => inNamespace(namespace, open);
}

/** Does something at once, such as opening a socket, in the namespace of this name. What it leaves for later happens outside. */
export function inNamespace<T>(namespace: string, act: () => T): T {
  const home = openSync('/proc/thread-self/ns/net', 'r');
  const there = openSync(`/run/netns/${namespace}`, 'r');
  try {
    enter(there);
    return act();
  } finally {
    enter(home);
    closeSync(there);
    closeSync(home);
  }
}

function enter(descriptor: number): void {
  if (libc.setns(descriptor, CLONE_NEWNET) !== 0) throw new Error('setns failed');
}
