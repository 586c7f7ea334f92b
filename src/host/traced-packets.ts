/** The events of a trace, put together packet by packet. Pure. */
import type { TracedHeaders, TraceEvent } from '../../native/nft/trace.ts';
import { type Address, addressOfBytes } from '../model/address.ts';
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
const MOST_STEPS = 1000;

interface Going {
  readonly at: number;
  readonly steps: TracedStep[];
  readonly began: string;
  known: PacketAt | undefined;
}

export class PacketCollector {
  readonly #family: 'ip' | 'ip6';
  readonly #most: number;
  readonly #all: Going[] = [];
  /** By the id of their events, which the kernel uses again when a packet is gone. */
  readonly #byId = new Map<number, Going>();

  constructor(family: 'ip' | 'ip6', most: number) {
    this.#family = family;
    this.#most = most;
  }

  get isFull(): boolean {
    return this.#all.length >= this.#most;
  }

  get packets(): readonly TracedPacket[] {
    return this.#all;
  }

  /** Takes the next event, which came at `now`, in milliseconds since 1970. Events of packets that others trace are dropped. */
  add(event: TraceEvent, now: number): void {
    const isOurs = event.table === TRACE_TABLE && event.family === this.#family;
    // At the end of a chain newer kernels report a rule without a handle (nf_tables_core.c, nft_do_chain).
    const isRule = event.type === 'rule' && event.handle !== undefined;
    if (isOurs && isRule) this.#begin(event, now);
    const going = this.#byId.get(event.id);
    if (going === undefined || going.steps.length >= MOST_STEPS) return;
    if (event.packet !== undefined) note(going, isOurs ? HOOKS.get(event.chain) : undefined, event.packet);
    const { id: _, packet: __, ...what } = event;
    const isEnd = event.type === 'rule' && !isRule;
    if (!isOurs && !isEnd) going.steps.push({ kind: 'event', ...what });
  }

  #begin({ id, chain, packet }: TraceEvent, now: number): void {
    const before = this.#byId.get(id);
    // What the node sends to itself comes back by the loopback device.
    const isBack = chain === BEGINNINGS.prerouting && packet?.input === LOOPBACK && before?.began === BEGINNINGS.output;
    if (isBack) return;
    this.#byId.delete(id);
    if (this.isFull) return;
    const going: Going = { at: now, steps: [], began: chain, known: undefined };
    this.#byId.set(id, going);
    this.#all.push(going);
  }
}

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
