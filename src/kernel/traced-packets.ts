/** The events of a trace, put together packet by packet. Pure. */
import type { TracedHeaders, TraceEvent } from '../../native/nft/trace.ts';
import type { Protocol } from '../base/address.ts';
import { type Address, addressOfBytes } from '../base/address.ts';
import { BEGINNINGS, ENDS, TRACE_TABLE } from './trace-names.ts';

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

interface Going {
  readonly at: number;
  readonly steps: TracedStep[];
  readonly began: string;
  readonly print: string;
  known: PacketAt | undefined;
}

export interface CollectorOptions {
  readonly family: 'ip' | 'ip6';
  readonly protocol: Protocol;
  readonly most: number;
}

/**
 * The id of an event is made of the packet's place in memory and its hash (nf_tables_trace.c): it may change between two hooks, and a
 * later packet may have it again. So packets are known by their content wherever the kernel sends it, which it does at each hook.
 */
export class PacketCollector {
  readonly #options: CollectorOptions;
  readonly #all: Going[] = [];
  readonly #byId = new Map<number, Going>();
  /** Contents of packets that are too many. */
  readonly #tooMany = new Set<string>();

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    return this.#all.length >= this.#options.most;
  }

  get packets(): readonly TracedPacket[] {
    return this.#all.map(({ at, steps }) => ({ at, steps }));
  }

  /** Takes the next event, which came at `now`, in milliseconds since 1970. Events of packets that others trace are dropped. */
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

  /** Finds the packet of an event with headers, or begins one when the event is of a rule that begins traces. */
  #meet({ id, chain }: TraceEvent, headers: TracedHeaders, begins: number | undefined): void {
    const print = printOf(headers, this.#options.protocol);
    const before = this.#tooMany.has(print) ? undefined : this.#all.findLast((one) => one.print === print);
    // What the node sends to itself comes back by the loopback device.
    const isBack = chain === BEGINNINGS.prerouting && headers.input === LOOPBACK && before?.began === BEGINNINGS.output;
    let going = before;
    if (begins !== undefined && !isBack) {
      going = this.isFull ? undefined : { at: begins, steps: [], began: chain, print, known: undefined };
      if (going === undefined) this.#tooMany.add(print);
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
function printOf({ network, transport }: TracedHeaders, protocol: Protocol): string {
  const isV6 = network.length > 0 && network.readUInt8(0) >> 4 === 6;
  const inNetwork = isV6 ? network.subarray(0, 4) : network.subarray(4, 6);
  const [from, to] = PRINTS[protocol];
  return `${inNetwork.toString('hex')} ${transport.subarray(from, to).toString('hex')}`;
}

const PRINTS: Readonly<Record<Protocol, readonly [number, number]>> = { TCP: [4, 8], UDP: [4, 6], SCTP: [16, 20] };

const HOOKS: ReadonlyMap<string, 'prerouting' | 'output' | 'input' | 'postrouting'> = new Map([
  [BEGINNINGS.prerouting, 'prerouting'],
  [BEGINNINGS.output, 'output'],
  [ENDS.input, 'input'],
  [ENDS.postrouting, 'postrouting'],
]);

/** Notes the packet where it enters or leaves, and where it changed. */
function note(going: Going, hook: ReturnType<typeof HOOKS.get>, headers: TracedHeaders): void {
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
export function packetOf({ network, transport, input, output }: TracedHeaders): PacketAt | undefined {
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
