/** Whether a rule of iptables matches a packet. Pure. */
import type { Address } from '../../base/address.ts';
import type { ServersView } from '../../proxy/modes/view.ts';
import type { PacketState } from './fates.ts';
import type { NodeOfPacket, Packet } from './packet.ts';
import { isHeldBy, type Nets, type Octets, type RuleMatch, SETS } from './rule.ts';

/** The memories of session affinity that were asked (`Memories`). */
export interface AskedMemories {
  readonly lists: Set<string>;
  readonly destinations: Set<string>;
}

/** The surroundings of the packet on its way, at which matches look. */
export interface Surroundings {
  readonly packet: Packet;
  readonly facts: NodeOfPacket;
  readonly servers: ServersView | undefined;
  readonly asked: AskedMemories;
  readonly nets: Nets;
  readonly octets: Octets;
}

export function isMatching(match: RuleMatch, state: PacketState, around: Surroundings): boolean {
  return holds(match, state, around) !== match.inverted;
}

function holds(match: RuleMatch, state: PacketState, around: Surroundings): boolean {
  const { packet, facts, octets } = around;
  switch (match.of) {
    case 'source':
      return isHeldBy(match.net, octets.of(packet.source));
    case 'destination':
      return isHeldBy(match.net, octets.of(state.destination));
    case 'original destination':
      return isHeldBy(match.net, octets.of(packet.destination));
    case 'protocol':
      return packet.protocol === match.value;
    case 'device':
      return isDevice(match.value, packet.device);
    case 'port':
      return state.port >= match.first && state.port <= match.last;
    case 'mark':
      return (state.mark & match.mask) >>> 0 === match.value;
    case 'connection state': {
      const states = match.value.split(',');
      return states.includes(packet.state) || (states.includes('DNAT') && state.dnat !== undefined);
    }
    case 'local source':
      return isLocal(packet.source, around);
    case 'local destination':
      return isLocal(state.destination, around);
    case 'memory':
      around.asked.lists.add(match.value);
      return facts.remembered.has(match.value);
    case 'set':
      return isInSet(match, state, around);
  }
}

function isDevice(name: string, device: string | undefined): boolean {
  if (device === undefined) return false;
  return name.endsWith('+') ? device.startsWith(name.slice(0, -1)) : device === name;
}

/** Whether an address is one of this node's. */
export function isLocal(address: Address, { facts, servers }: Pick<Surroundings, 'facts' | 'servers'>): boolean {
  if (address.startsWith('127.') || address === '::1') return true;
  return facts.localAddresses.has(address) || servers?.addresses.has(address) === true;
}

/** The entry that the packet's addresses and port make: `10.96.0.10,tcp:80,10.244.1.1` of `dst,dst,src`. */
function isInSet(
  { set, which: [first, second, third] }: Extract<RuleMatch, { of: 'set' }>,
  { destination, port }: PacketState,
  { packet: { protocol, source }, servers, nets }: Surroundings,
): boolean {
  const entries = servers?.entries(set);
  if (entries === undefined || entries.size === 0) return false;
  if (second === undefined) {
    return entries.has(first === 'src' ? source : destination) || (first === 'dst' && entries.has(String(port)));
  }
  const socket = `${destination},${protocol.toLowerCase()}:${port}`;
  if (third === undefined) return entries.has(socket);
  if (entries.has(`${socket},${source}`)) return true;
  return SETS.get(set) === true && nets.of(source).some((net) => entries.has(`${socket},${net}`));
}
