/** A question about real packets, and the events of its trace, put together packet by packet. Pure. */
import type { TracedHeaders, TraceEvent } from '../../native/nft/trace.ts';
import { type Address, addressOfBytes, type Family, type Protocol } from '../base/address.ts';

/** The table that makes the kernel trace. */
export const TRACE_TABLE = 'slicewire-trace';
/** Chains that begin a trace: before conntrack and before every table of others that could drop the packet unseen. */
export const BEGINNINGS = { prerouting: 'coming', output: 'sending' } as const;
/** Chains that see the packet as it leaves: behind every other table. */
export const ENDS = { input: 'arriving', postrouting: 'leaving' } as const;

/** IANA's numbers. */
export const PROTOCOL_NUMBERS: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

/** Packets to one destination. */
export interface TraceQuestion {
  readonly family: Family;
  /** undefined for any sender. */
  readonly source: Address | undefined;
  /** The place where they enter this network namespace: its own programs, or a device; undefined for both. */
  readonly origin?: 'node' | 'network' | undefined;
  readonly destination: Address;
  readonly protocol: Protocol;
  readonly port: number;
}

export type { TraceEvent } from '../../native/nft/trace.ts';

/** A packet as it was at one moment. */
export interface PacketAt {
  readonly source: Address;
  readonly sourcePort: number;
  readonly destination: Address;
  readonly port: number;
  /** Indices of devices; 0 for none. */
  readonly input: number;
  readonly output: number;
}

/** A rule or a policy that decided, or the packet as it was when a hook began. */
export type TracedStep =
  | {
      readonly kind: 'packet';
      readonly hook: 'prerouting' | 'output' | 'input' | 'postrouting' | undefined;
      readonly packet: PacketAt;
    }
  | ({ readonly kind: 'event' } & Omit<TraceEvent, 'packet' | 'id'>);

export interface TracedPacket {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly steps: readonly TracedStep[];
}

/** The index of the loopback device in every network namespace (net/flow.h, LOOPBACK_IFINDEX). */
const LOOPBACK = 1;
/** Events of one packet: rules that jump to each other could report very many. */
const MAX_STEPS = 1000;

interface PacketOnItsWay {
  readonly at: number;
  readonly steps: TracedStep[];
  readonly began: string;
  readonly fingerprint: string;
  known: PacketAt | undefined;
}

interface CollectorOptions {
  readonly family: 'ip' | 'ip6';
  readonly protocol: Protocol;
  readonly most: number;
}

/**
 * The kernel makes the id of an event from the packet's place in memory and its hash (nf_tables_trace.c): the id may change between two
 * hooks, and a later packet may have it again. So packets are recognised by their content, which the kernel sends at each hook.
 */
export class PacketCollector {
  readonly #options: CollectorOptions;
  readonly #all: PacketOnItsWay[] = [];
  readonly #byId = new Map<number, PacketOnItsWay>();
  /** Fingerprints of packets beyond the limit. */
  readonly #beyondLimit = new Set<string>();

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    return this.#all.length >= this.#options.most;
  }

  get packets(): readonly TracedPacket[] {
    return this.#all.map(({ at, steps }) => ({ at, steps }));
  }

  /** Adds the next event, which came at `now` in milliseconds since 1970. Events of packets that other programs trace are dropped. */
  add(event: TraceEvent, now: number): void {
    const isOurs = event.table === TRACE_TABLE && event.family === this.#options.family;
    // At the end of a chain newer kernels report a rule without a handle (nf_tables_core.c, nft_do_chain).
    const isRule = event.type === 'rule' && event.handle !== undefined;
    if (event.packet !== undefined) this.#meet(event, event.packet, isOurs && isRule ? now : undefined);
    const going = this.#byId.get(event.id);
    if (going === undefined || going.steps.length >= MAX_STEPS) return;
    if (event.packet !== undefined) note(going, isOurs ? HOOKS.get(event.chain) : undefined, event.packet);
    const isEnd = event.type === 'rule' && !isRule;
    const { id: _, packet: __, ...what } = event;
    if (!isOurs && !isEnd) going.steps.push({ kind: 'event', ...what });
  }

  /** Finds the packet of an event with headers, or begins one when the event is of our rule that begins traces. */
  #meet({ id, chain }: TraceEvent, headers: TracedHeaders, begins: number | undefined): void {
    const fingerprint = fingerprintOf(headers, this.#options.protocol);
    const before = this.#beyondLimit.has(fingerprint)
      ? undefined
      : this.#all.findLast((one) => one.fingerprint === fingerprint);
    // A packet that the node sends to itself comes back by the loopback device.
    const isBack = chain === BEGINNINGS.prerouting && headers.input === LOOPBACK && before?.began === BEGINNINGS.output;
    let going = before;
    if (begins !== undefined && !isBack) {
      going = this.isFull ? undefined : { at: begins, steps: [], began: chain, fingerprint, known: undefined };
      if (going === undefined) this.#beyondLimit.add(fingerprint);
      else this.#all.push(going);
    }
    if (going === undefined) this.#byId.delete(id);
    else this.#byId.set(id, going);
  }
}

/**
 * The part of a packet that no translation changes: the identification of IPv4 or the flow label of IPv6, and of TCP the sequence number,
 * of UDP the length, of SCTP the initiate tag.
 */
function fingerprintOf({ network, transport }: TracedHeaders, protocol: Protocol): string {
  const isV6 = network.length > 0 && network.readUInt8(0) >> 4 === 6;
  const inNetwork = isV6 ? network.subarray(0, 4) : network.subarray(4, 6);
  const [from, to] = FINGERPRINT_BYTES[protocol];
  return `${inNetwork.toString('hex')} ${transport.subarray(from, to).toString('hex')}`;
}

const FINGERPRINT_BYTES: Readonly<Record<Protocol, readonly [number, number]>> = {
  TCP: [4, 8],
  UDP: [4, 6],
  SCTP: [16, 20],
};

const HOOKS: ReadonlyMap<string, 'prerouting' | 'output' | 'input' | 'postrouting'> = new Map([
  [BEGINNINGS.prerouting, 'prerouting'],
  [BEGINNINGS.output, 'output'],
  [ENDS.input, 'input'],
  [ENDS.postrouting, 'postrouting'],
]);

/** Adds a step for the packet where it enters or leaves, and where it changed. */
function note(going: PacketOnItsWay, hook: ReturnType<typeof HOOKS.get>, headers: TracedHeaders): void {
  const packet = packetOf(headers);
  if (packet === undefined) return;
  const { known } = going;
  const isSame =
    known !== undefined &&
    known.source === packet.source &&
    known.sourcePort === packet.sourcePort &&
    known.destination === packet.destination &&
    known.port === packet.port;
  going.known = packet;
  if (isSame && hook === undefined) return;
  going.steps.push({ kind: 'packet', hook, packet });
}

/** Addresses and ports; undefined when the kernel sent less than these. */
function packetOf({ network, transport, input, output }: TracedHeaders): PacketAt | undefined {
  const isV6 = network.length > 0 && network.readUInt8(0) >> 4 === 6;
  const [from, to, length] = isV6 ? [8, 24, 16] : [12, 16, 4];
  if (network.length < to + length || transport.length < 4) return undefined;
  return {
    source: addressOfBytes(network.subarray(from, from + length)),
    sourcePort: transport.readUInt16BE(0),
    destination: addressOfBytes(network.subarray(to, to + length)),
    port: transport.readUInt16BE(2),
    input,
    output,
  };
}
