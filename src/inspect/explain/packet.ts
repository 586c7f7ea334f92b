/** A packet to explain, the node that it meets, and what becomes of it on its way and in the end. Pure. */
import type { Address } from '../../base/address.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { ServersView } from '../../proxy/modes/view.ts';

/** The first packet of a connection. */
export interface Packet {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** The device by which it comes in; undefined when the node sends it. */
  readonly device: string | undefined;
  /** The state by conntrack. Invalid packets are not translated. */
  readonly state: 'NEW' | 'INVALID';
}

/** The facts of a node that decide beside its rules. */
export interface NodeOfPacket {
  /** Addresses of this node. Loopback addresses, and those on the device of IPVS mode, count without being listed. */
  readonly localAddresses: ReadonlySet<string>;
  /**
   * Names of the memories of session affinity that know the packet's source: a `recent` list of iptables, a set of nftables, or
   * `SERVER -> DESTINATION` of IPVS (`destinationKey`).
   */
  readonly remembered: ReadonlySet<string>;
}

/** Whether an address is one of this node's. */
export function isLocal(
  address: Address,
  { facts, servers }: { readonly facts: NodeOfPacket; readonly servers: ServersView | undefined },
): boolean {
  if (address.startsWith('127.') || address === '::1') return true;
  return facts.localAddresses.has(address) || servers?.hasAddress(address) === true;
}

/** Whether a device has a name of iptables' form: `veth+` is the name of every device that begins with `veth`. */
export function isDeviceNamed(name: string, device: string): boolean {
  return name.endsWith('+') ? device.startsWith(name.slice(0, -1)) : device === name;
}

/** The effect of a step on the packet. */
export type Effect =
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** The packet's mark from here on. */
  | { readonly kind: 'mark'; readonly mark: number }
  /** A random number was drawn, one of `of`. */
  | { readonly kind: 'choose'; readonly number: number; readonly of: number }
  /** An element was found, which alone does nothing to the packet; `found` is its value, "" for none. */
  | { readonly kind: 'lookup'; readonly found: string }
  /** The new destination, as `ip:port`. */
  | { readonly kind: 'translate'; readonly to: string }
  /** The client is remembered by this memory of session affinity. */
  | { readonly kind: 'remember'; readonly memory: string }
  | { readonly kind: 'masquerade' | 'reject' | 'drop' | 'accept' | 'return' };

/** A rule, an element or a destination that had an effect on the packet. */
export interface WalkStep {
  /** `filter`, `nat` or `mangle` of iptables; `ip slicewire` or `ip6 slicewire`; `ipvs`. */
  readonly table: string;
  /** Chain, set or map; a virtual server as ipvsadm(8) writes it. */
  readonly chain: string;
  /** The rule without its `-A CHAIN`, the element, or the destination, as the kernel's tools list it; `policy DROP` of a built-in chain. */
  readonly rule: string;
  /** Of an element of nftables: its key. */
  readonly key?: string | undefined;
  readonly effect: Effect;
  /** The share of packets at this step that go through it; 1 unless chosen at random. */
  readonly share: number;
  /** Its Service; undefined when Services share it, or when that is unknown. */
  readonly owner: ServiceKey | undefined;
}

export interface Fate {
  readonly kind: 'balanced' | 'rejected' | 'dropped' | 'untouched';
  /** `ip:port` when balanced, "" otherwise. */
  readonly backend: string;
  readonly masqueraded: boolean;
  readonly probability: number;
  /** The steps that mattered, in order; those of the likeliest way where several ways lead to the same fate. */
  readonly way: readonly WalkStep[];
}

/** The words for the kinds of fates in sentences. */
export const FATE_WORDS: Readonly<Record<Fate['kind'], string>> = {
  balanced: 'balanced',
  rejected: 'refused',
  dropped: 'dropped',
  untouched: 'left alone',
};

/** The steps so far, the last one first. Packets that part ways share their former steps. */
interface Way {
  readonly step: WalkStep;
  readonly before: Way | undefined;
}

/** A packet on its way. */
export interface PacketState {
  readonly mark: number;
  /** Its destination so far. */
  readonly destination: Address;
  readonly port: number;
  readonly dnat: string | undefined;
  readonly masqueraded: boolean;
  readonly probability: number;
  readonly way: Way | undefined;
}

export type RuleVerdict = 'end' | 'return' | 'accept' | 'drop' | 'reject';

export interface WalkOutcome {
  readonly state: PacketState;
  readonly verdict: RuleVerdict;
}

export function startOf({ destination, port }: Packet): PacketState {
  return { mark: 0, destination, port, dnat: undefined, masqueraded: false, probability: 1, way: undefined };
}

export function stepped(state: PacketState, step: WalkStep): PacketState {
  return { ...state, way: { step, before: state.way } };
}

export function translated(state: PacketState, to: string, destination: Address, port: number): PacketState {
  return { ...state, destination, port, dnat: to };
}

/** The note of a rule that is not interpreted: a walk goes on, because nearly every node has such rules of others. */
export function uncertain(problem: string, goesOn: string): string {
  return `${problem}: the answer is certain as far as this rule, and goes on as if ${goesOn}`;
}

export function isStopped({ verdict }: WalkOutcome): boolean {
  return verdict === 'drop' || verdict === 'reject';
}

/** Whether the packet goes on after the chain. */
export function isFallen({ verdict }: WalkOutcome): boolean {
  return verdict === 'end' || verdict === 'return';
}

export function stopped({ state, verdict }: WalkOutcome): Fate {
  const kind = verdict === 'drop' ? 'dropped' : 'rejected';
  return { kind, backend: '', masqueraded: false, probability: state.probability, way: wayOf(state) };
}

export function isStop(kind: Fate['kind']): boolean {
  return kind === 'dropped' || kind === 'rejected';
}

/** Whether a packet is refused or dropped in every case. */
export function areStopped(fates: readonly Fate[]): boolean {
  return fates.every(({ kind }) => isStop(kind));
}

/** The fates of packets that are sent to an endpoint, by `ip:port`. */
export function backendsOf(fates: readonly Fate[]): Map<string, Fate> {
  return new Map(fates.filter(({ kind }) => kind === 'balanced').map((fate) => [fate.backend, fate]));
}

/** Of a packet that is not stopped. */
export function fateOf(state: PacketState): Fate {
  const { dnat, masqueraded, probability } = state;
  if (dnat !== undefined) return { kind: 'balanced', backend: dnat, masqueraded, probability, way: wayOf(state) };
  const way = wayOf(state);
  const isLeftAlone = way.every(({ effect }) => PASSING.has(effect.kind));
  return { kind: 'untouched', backend: '', masqueraded, probability, way: isLeftAlone ? [] : way };
}

/** Effects that alone mean nothing to a packet that goes on as it came. */
const PASSING: ReadonlySet<Effect['kind']> = new Set(['jump', 'goto', 'return', 'lookup', 'choose']);

function wayOf({ way }: PacketState): WalkStep[] {
  const steps: WalkStep[] = [];
  for (let at = way; at !== undefined; at = at.before) steps.push(at.step);
  return steps.reverse();
}

/** The same fates once each, without those that cannot happen. */
export function mergedFates(fates: readonly Fate[]): Fate[] {
  const merged = new Map<string, { fate: Fate; probability: number }>();
  for (const fate of fates) {
    if (fate.probability <= 0) continue;
    const key = `${fate.kind} ${fate.backend} ${fate.masqueraded}`;
    const before = merged.get(key);
    const likeliest = before === undefined || fate.probability > before.fate.probability ? fate : before.fate;
    merged.set(key, { fate: likeliest, probability: (before?.probability ?? 0) + fate.probability });
  }
  return [...merged.values()].map(({ fate, probability }) => ({ ...fate, probability }));
}
