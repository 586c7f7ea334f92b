/** Packets to a frontend, of every class of sender. Pure. */

import { type Address, type Family, isLoopback } from '../../../src/base/address.ts';
import type { Packet } from '../../../src/inspect/explain/packet.ts';
import type { FrontendAt } from '../../../src/proxy/model/claims.ts';

/** Who sends. Without a device the node itself: its address is the source, or the destination where the node has that. */
export type Sender =
  | { readonly name: string; readonly source: Readonly<Record<Family, Address>>; readonly device: string }
  | { readonly name: 'node'; readonly source: Readonly<Record<Family, Address>>; readonly device: undefined };

/** A Pod in the ranges of the lab's nodes, a machine far away, and the node. */
export function sendersOf(node: Readonly<Record<Family, Address>>): readonly Sender[] {
  return [
    { name: 'pod', source: { IPv4: '10.244.1.199', IPv6: 'fd00:244:1::199' } as Sender['source'], device: 'cni0' },
    { name: 'node', source: node, device: undefined },
    { name: 'outside', source: { IPv4: '203.0.113.9', IPv6: '2001:db8::9' } as Sender['source'], device: 'eth0' },
  ];
}

export interface SentPacket {
  /** For people, and unique: `outside -> TCP 10.96.0.10:80`. */
  readonly name: string;
  readonly packet: Packet;
  readonly isNodePort: boolean;
}

const LOOPBACK = '127.0.0.1' as Address;

/** To a node port, on each address that the node has. */
export function packetsTo(at: FrontendAt, senders: readonly Sender[], local: ReadonlySet<string>): SentPacket[] {
  const { family, address } = at;
  if (address !== undefined) return senders.map((sender) => packetTo(address, { at, sender, local }));
  const addresses = [...local].filter((one) => !isLoopback(one as Address)) as Address[];
  const packets = addresses.flatMap((one) => senders.map((sender) => packetTo(one, { at, sender, local })));
  const itself = senders.find(({ device }) => device === undefined);
  if (family === 'IPv4' && itself !== undefined) packets.push(packetTo(LOOPBACK, { at, sender: itself, local }));
  return packets;
}

interface From {
  readonly at: FrontendAt;
  readonly sender: Sender;
  readonly local: ReadonlySet<string>;
}

function packetTo(destination: Address, { at: { family, protocol, port, address }, sender, local }: From): SentPacket {
  const { name, device } = sender;
  const isOwn = device === undefined && (local.has(destination) || isLoopback(destination));
  const source = isOwn ? destination : sender.source[family];
  const to = family === 'IPv4' ? `${destination}:${port}` : `[${destination}]:${port}`;
  return {
    name: `${name} -> ${protocol} ${to}`,
    packet: { protocol, source, destination, port, device, state: 'NEW' },
    isNodePort: address === undefined,
  };
}
