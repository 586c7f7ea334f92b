/** A rule of iptables, read from the text that iptables-save prints, and whether it matches a packet. Pure. */
import {
  type Address,
  addressOctets,
  addressWidth,
  type Cidr,
  FAMILIES,
  familyOf,
  parseAddress,
  parseCidr,
} from '../../base/address.ts';
import { protocolOf } from '../../proxy/modes/nft-table/element-bytes.ts';
import type { ServersView } from '../../proxy/modes/view.ts';
import { SET_IDS, setName, setSpec } from '../../proxy/modes/virtual-servers/sets.ts';
import { isDeviceNamed, isLocal, type NodeOfPacket, type Packet, type PacketState } from './packet.ts';

type RuleMatch =
  | {
      readonly of: 'source' | 'destination' | 'original destination' | 'virtual address';
      readonly net: Net;
      readonly inverted: boolean;
    }
  /** The packet came in by a port of a bridge. */
  | { readonly of: 'bridge port'; readonly inverted: boolean }
  | {
      readonly of: 'protocol' | 'device' | 'connection state' | 'memory' | 'virtual protocol';
      readonly value: string;
      readonly inverted: boolean;
    }
  | {
      readonly of: 'port' | 'virtual port';
      readonly first: number;
      readonly last: number;
      readonly inverted: boolean;
    }
  | { readonly of: 'mark'; readonly value: number; readonly mask: number; readonly inverted: boolean }
  /** The address is one of this node's. */
  | { readonly of: 'local source' | 'local destination'; readonly inverted: boolean }
  /** `which` as in `dst,dst,src`. */
  | { readonly of: 'set'; readonly set: string; readonly which: readonly string[]; readonly inverted: boolean };

export interface ParsedRule {
  readonly matches: readonly RuleMatch[];
  /** Probability of the match `statistic`; 1 without one. */
  readonly chance: number;
  /** A chain or a target; "" for none. */
  readonly target: string;
  readonly isGoto: boolean;
  /** Of MARK: clear the mask's bits, then flip those of the value (iptables-extensions(8)). */
  readonly setMark: { readonly value: number; readonly mask: number } | undefined;
  /** Of DNAT. */
  readonly to: { readonly text: string; readonly address: Address; readonly port: number } | undefined;
  /** The part of the rule that is not interpreted; undefined when all of it is. */
  readonly unknown: string | undefined;
}

/** Sets of IPVS mode by their names, and whether their entries end with a net. */
const SETS: ReadonlyMap<string, boolean> = new Map(
  SET_IDS.flatMap((id) => FAMILIES.map((family) => [setName(family, id), setSpec(family, id).type.endsWith(',net')])),
);

/** Targets with options that are interpreted. */
const TARGETS = new Set(['ACCEPT', 'DROP', 'REJECT', 'RETURN', 'MARK', 'DNAT', 'MASQUERADE']);
const MODULES = new Set([
  'comment',
  'conntrack',
  'addrtype',
  'mark',
  'set',
  'statistic',
  'recent',
  'tcp',
  'udp',
  'sctp',
  // Of packets that IPVS sends: the virtual server that they came to (iptables-extensions(8)).
  'ipvs',
  'physdev',
  // A limit of a Service.
  'hashlimit',
  // Counts only: kube-proxy's metrics of packets that its rules accept or drop.
  'nfacct',
]);

/** Options that do not matter to the first packet of a connection, with their number of values. */
const IGNORED: Readonly<Record<string, number>> = {
  '--comment': 1,
  '--reject-with': 1,
  '--random-fully': 0,
  '--seconds': 1,
  '--reap': 0,
  '--set': 0,
  '--mask': 1,
  '--rsource': 0,
  '--nfacct-name': 1,
  '--hashlimit-burst': 1,
  '--hashlimit-htable-expire': 1,
};

interface RuleDraft {
  readonly matches: RuleMatch[];
  chance: number;
  target: string;
  isGoto: boolean;
  setMark: ParsedRule['setMark'];
  to: ParsedRule['to'];
  /** Of the match `recent`. */
  list: string;
  recalls: { readonly inverted: boolean } | undefined;
}

/** Reads a rule without its `-A CHAIN`. */
export function parseRule(text: string): ParsedRule {
  const words = text.match(/"(?:\\.|[^"])*"|\S+/g) ?? [];
  const draft: RuleDraft = {
    matches: [],
    chance: 1,
    target: '',
    isGoto: false,
    setMark: undefined,
    to: undefined,
    list: '',
    recalls: undefined,
  };
  let unknown: string | undefined;
  for (let i = 0; i < words.length && unknown === undefined; ) {
    const inverted = words[i] === '!';
    if (inverted) i += 1;
    const option = words[i] ?? '';
    const taken = readOption(draft, { option, inverted, values: words.slice(i + 1, i + 3) });
    if (taken === undefined) unknown = [option, words[i + 1]].join(' ').trim();
    i += 1 + (taken ?? 0);
  }
  const { list, recalls, ...rule } = draft;
  if (recalls !== undefined) rule.matches.push({ of: 'memory', value: list, ...recalls });
  return { ...rule, unknown };
}

interface Option {
  readonly option: string;
  readonly inverted: boolean;
  readonly values: readonly string[];
}

/** The number of values that the option took; undefined when it is not interpreted. */
function readOption(draft: RuleDraft, { option, inverted, values }: Option): number | undefined {
  const [value = '', second = ''] = values;
  switch (option) {
    case '-m':
      return MODULES.has(value) ? 1 : undefined;
    case '-j':
    case '-g':
      draft.target = value;
      draft.isGoto = option === '-g';
      // A target that is unknown may have options of any form.
      return second === '' || TARGETS.has(value) ? 1 : undefined;
    case '--set-xmark':
      draft.setMark = numbers(value, 0xffffffff);
      return draft.setMark && 1;
    case '--to-destination':
      draft.to = socketOf(value);
      return draft.to && 1;
    case '--mode':
      return value === 'random' ? 1 : undefined;
    case '--probability':
      if (!/^[01](?:\.\d+)?$/.test(value) || Number(value) > 1) return undefined;
      draft.chance *= inverted ? 1 - Number(value) : Number(value);
      return 1;
    case '--hashlimit-above':
      // A packet of the question is within the limits of its Service (docs/traffic.md).
      draft.chance = 0;
      return inverted ? undefined : 1;
    case '--hashlimit-name':
      return /^KUBE-LIM-/.test(value) ? 1 : undefined;
    case '--name':
      draft.list = value;
      return 1;
    case '--rcheck':
      draft.recalls = { inverted };
      return 0;
    default: {
      const ignored = Object.hasOwn(IGNORED, option) ? IGNORED[option] : undefined;
      if (ignored !== undefined) return inverted ? undefined : ignored;
      const match = matchOf({ option, inverted, values });
      if (match !== undefined) draft.matches.push(match);
      return match && (VALUES[match.of] ?? 1);
    }
  }
}

/** Values of an option other than one. */
const VALUES: Readonly<Partial<Record<RuleMatch['of'], number>>> = { set: 2, 'bridge port': 0 };

function matchOf({ option, inverted, values: [value = '', second = ''] }: Option): RuleMatch | undefined {
  switch (option) {
    case '-s':
      return ofNet('source', value, inverted);
    case '-d':
      return ofNet('destination', value, inverted);
    case '--ctorigdst':
      return ofNet('original destination', value, inverted);
    case '--vaddr':
      return ofNet('virtual address', value, inverted);
    case '--vport': {
      const port = portOf(value);
      return port === undefined ? undefined : { of: 'virtual port', first: port, last: port, inverted };
    }
    case '--vproto': {
      // iptables-save prints its number.
      const protocol = protocolOf(Number(value));
      return protocol === undefined ? undefined : { of: 'virtual protocol', value: protocol, inverted };
    }
    case '--physdev-is-in':
      return { of: 'bridge port', inverted };
    case '-p':
      return { of: 'protocol', value: value.toUpperCase(), inverted };
    case '-i':
      return { of: 'device', value, inverted };
    case '--ctstate':
      return { of: 'connection state', value, inverted };
    case '--dport': {
      const [first, last = first, ...rest] = value.split(':').map(portOf);
      if (first === undefined || last === undefined || rest.length > 0) return undefined;
      return { of: 'port', first, last, inverted };
    }
    case '--mark': {
      const mark = numbers(value, 0xffffffff);
      return mark && { of: 'mark', ...mark, inverted };
    }
    case '--dst-type':
    case '--src-type':
      if (value !== 'LOCAL') return undefined;
      return { of: option === '--src-type' ? 'local source' : 'local destination', inverted };
    case '--match-set':
      // Other sets are not in a view.
      return SETS.has(value) ? { of: 'set', set: value, which: second.split(','), inverted } : undefined;
    default:
      return undefined;
  }
}

function ofNet(
  of: 'source' | 'destination' | 'original destination' | 'virtual address',
  text: string,
  inverted: boolean,
) {
  const cidr = parseCidr(text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`);
  return cidr && { of, net: netOf(cidr), inverted };
}

/** undefined for text that is no port. */
function portOf(text: string): number | undefined {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined;
}

/** `0x4000/0x4000`, or `0x4000` for all bits of the mask. undefined where one has more than 32 bits. */
function numbers(text: string, all: number): { value: number; mask: number } | undefined {
  const [, value, mask = String(all)] = /^(0x[\da-f]{1,8}|\d{1,10})(?:\/(0x[\da-f]{1,8}|\d{1,10}))?$/i.exec(text) ?? [];
  if (value === undefined || Number(value) > 0xffffffff || Number(mask) > 0xffffffff) return undefined;
  return { value: Number(value), mask: Number(mask) };
}

/** `10.244.1.11:8080` or `[fd00::1]:8080`; a range of addresses or ports is not interpreted. */
export function socketOf(text: string): ParsedRule['to'] {
  const colon = text.lastIndexOf(':');
  const address = parseAddress(text.slice(0, colon).replace(/^\[|\]$/g, ''));
  const port = portOf(text.slice(colon + 1));
  return address === undefined || !port ? undefined : { text, address, port };
}

/** The memories of session affinity that rules on the way look into (`Memories`). */
export interface MemoryNames {
  readonly lists: Set<string>;
  readonly destinations: Set<string>;
}

/** The packet, node and sets at which matches look, beside the packet's state. */
export interface Surroundings {
  readonly packet: Packet;
  readonly facts: NodeOfPacket;
  readonly servers: ServersView | undefined;
  readonly memories: MemoryNames;
  readonly nets: Nets;
  readonly octets: Octets;
}

export function isMatching(match: RuleMatch, state: PacketState, around: Surroundings): boolean {
  // The match `ipvs` takes no other packet, inverted or not (xt_ipvs.c).
  if (match.of.startsWith('virtual ') && !isOfServer(state, around)) return false;
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
    case 'virtual address':
      return isHeldBy(match.net, octets.of(packet.destination));
    case 'virtual port':
      return packet.port === match.first;
    case 'virtual protocol':
      return packet.protocol === match.value;
    case 'bridge port':
      // Only where br_netfilter shows a bridge's packets to iptables. kube-proxy accepts such packets earlier or later, and does nothing else.
      return false;
    case 'protocol':
      return packet.protocol === match.value;
    case 'device':
      return packet.device !== undefined && isDeviceNamed(match.value, packet.device);
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
      around.memories.lists.add(match.value);
      return facts.remembered.has(match.value);
    case 'set':
      return isInSet(match, state, around);
  }
}

/** Whether the packet is one that IPVS has sent to an endpoint. */
function isOfServer({ dnat }: PacketState, { packet, servers }: Surroundings): boolean {
  const { protocol, destination: address, port } = packet;
  return dnat !== undefined && servers?.server({ protocol, address, port }) !== undefined;
}

/** The entry that the packet's addresses and port make: `10.96.0.10,tcp:80,10.244.1.1` of `dst,dst,src`. */
function isInSet(
  { set, which: [first, second, third] }: Extract<RuleMatch, { of: 'set' }>,
  { destination, port }: PacketState,
  { packet: { protocol, source }, servers, nets }: Surroundings,
): boolean {
  if (servers === undefined) return false;
  const has = (entry: string) => servers.hasEntry(set, entry);
  if (second === undefined) {
    return has(first === 'src' ? source : destination) || (first === 'dst' && has(String(port)));
  }
  const socket = `${first === 'src' ? source : destination},${protocol.toLowerCase()}:${port}`;
  if (third === undefined) return has(socket);
  if (has(`${socket},${source}`)) return true;
  return SETS.get(set) === true && nets.of(source).some((net) => has(`${socket},${net}`));
}

/** A CIDR as bytes in network order. */
interface Net {
  readonly cidr: Cidr;
  readonly first: Uint8Array;
  readonly length: number;
}

function netOf(cidr: Cidr): Net {
  const [base = '', length = ''] = cidr.split('/');
  return { cidr, first: addressOctets(base as Address), length: Number(length) };
}

/** False when the families differ. */
function isHeldBy({ first, length }: Net, octets: Uint8Array): boolean {
  if (first.length !== octets.length) return false;
  const whole = length >> 3;
  for (let i = 0; i < whole; i++) if (first[i] !== octets[i]) return false;
  const rest = length & 7;
  return rest === 0 || (((first[whole] ?? 0) ^ (octets[whole] ?? 0)) & (0xff00 >> rest) & 255) === 0;
}

/** Bytes of addresses, each made once. */
export class Octets {
  readonly #known = new Map<Address, Uint8Array>();

  of(address: Address): Uint8Array {
    const known = this.#known.get(address);
    if (known !== undefined) return known;
    const octets = addressOctets(address);
    this.#known.set(address, octets);
    return octets;
  }
}

/** The nets that hold an address, the narrowest first. The kernel tests a set of nets by prefix length, too (ip_set_hash_gen.h). */
export class Nets {
  readonly #known = new Map<Address, readonly Cidr[]>();

  of(address: Address): readonly Cidr[] {
    const known = this.#known.get(address);
    if (known !== undefined) return known;
    const found: Cidr[] = [];
    for (let length = addressWidth(familyOf(address)); length >= 0; length--) {
      const net = parseCidr(`${address}/${length}`);
      if (net !== undefined) found.push(net);
    }
    this.#known.set(address, found);
    return found;
  }
}
