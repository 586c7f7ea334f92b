/**
 * `--failover=confirm`: finds Nodes that died before their endpoints stop being ready, and keeps these out of new connections
 * (docs/semantics.md 3.6, k8s#101101).
 *
 * At most once a second it reads the TCP and SCTP connections that nobody has answered, which the kernel filters. Reading
 * conntrack takes at most a fiftieth of a core. Where a connection is found twice, the agent itself connects to endpoints of that Node and of
 * others. A suspect is asked every second, and its first answer takes it back.
 */

import type { Address } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import { breath, type Clock, sleep } from '../../base/clock.ts';
import type { Flow, FlowTable } from '../../kernel/conntrack.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { Places, type PlacesInput, type SeenOpening, type ServiceTarget } from './places.ts';
import { limited, type Probe } from './probe.ts';
import { type ProbedTarget, type ProbeTarget, SUSPICION_TIMEOUT_MS, Suspicion, verdictOf } from './suspicion.ts';

/** Milliseconds: the shortest and the longest rest between two readings. */
const MIN_REST_MS = 1000;
const MAX_REST_MS = 10_000;
/** Rest this many times as long as the reading took. */
const REST_FACTOR = 49;
/** Milliseconds until a failed reading is repeated. */
const RETRY_MS = 30_000;
/** Openings of a reading that count; a flood has more. */
const MAX_OPENINGS = 10_000;
/** Endpoints of a reading that are looked up. */
const MAX_ENDPOINTS = 100;
/** Nodes that are judged at a time. */
const MAX_NODES = 4;
/** Connections that are attempted at a time. */
const MAX_PROBES = 24;
/** Milliseconds that an endpoint has for its answer. */
const PROBE_TIMEOUT_MS = 700;
/** Endpoints of other Nodes that are asked. */
const OTHERS = 3;
/** Nobody serves it (RFC 863), and a machine that works refuses it, also where an endpoint takes no connections. */
const UNSERVED = 9;
/** Milliseconds between two questions to a suspect, and after how many of these it counts that nobody is left to ask. */
const ASK_AGAIN = 1000;
const LOOK_AGAIN = 5;

/** What happened to a Node. Milliseconds. */
export type FailoverEvent =
  /** It is a suspect: so many addresses of it were asked, and so many other Nodes answered. */
  | { readonly kind: 'suspect'; readonly node: string; readonly asked: number; readonly others: number }
  /** It is none any more. `expired`: it is judged anew. `unused`: no ready endpoint is left there to ask. */
  | { readonly kind: 'answers' | 'expired' | 'unused'; readonly node: string; readonly after: number }
  /** It was asked because of an unanswered connection, and is no suspect. */
  | { readonly kind: 'spared'; readonly node: string; readonly verdict: 'answers' | 'unclear' }
  | { readonly kind: 'unread'; readonly cause: string };

export interface FailoverParts extends Omit<PlacesInput, 'random'> {
  readonly open: () => Promise<FlowTable>;
  readonly probe: Probe;
  readonly random?: () => number;
  /** Takes the suspects, sorted, and the Services that have endpoints on a Node that became one, or is one no more. */
  readonly suspect: (nodes: readonly string[], services: Iterable<ServiceKey>) => void;
  readonly onEvent: (event: FailoverEvent) => void;
}

export class FailoverWatch {
  readonly #parts: FailoverParts;
  readonly #probe: Probe;
  readonly #places: Places;
  readonly #suspicion = new Suspicion();
  /** Nodes that are being judged. */
  readonly #judging = new Set<string>();
  #openings: readonly SeenOpening[] = [];
  #isUnread = false;

  constructor(parts: FailoverParts) {
    this.#parts = parts;
    this.#probe = limited(parts.probe, MAX_PROBES);
    this.#places = new Places({ ...parts, random: parts.random ?? Math.random });
  }

  /** Until the signal aborts; a question that is on its way then has no effect. Rejects with an unexpected error of its own. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    // An error of one of its tasks ends all of them.
    const own = new AbortController();
    const until = AbortSignal.any([signal, own.signal]);
    const begin: Begin = (task) => void task.catch((error: unknown) => own.abort(error));
    try {
      for (;;) {
        const took = await this.#read(until);
        until.throwIfAborted();
        if (took !== undefined)
          for (const [node, found] of this.#suspicious()) begin(this.#judge(node, found, begin, until));
        const rest = took === undefined ? RETRY_MS : Math.max(MIN_REST_MS, Math.min(took * REST_FACTOR, MAX_REST_MS));
        await sleep(clock, rest, until);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      own.abort();
    }
  }

  /** Reads the unanswered connections. Returns its milliseconds of work; undefined when the kernel refuses. */
  async #read(signal: AbortSignal): Promise<number | undefined> {
    const { clock } = this.#parts;
    const openings: SeenOpening[] = [];
    let took = 0;
    try {
      const table = await this.#parts.open();
      try {
        took = await readInto(openings, table.openings(), clock, signal);
      } finally {
        table.close();
      }
    } catch (error) {
      if (!this.#isUnread) this.#parts.onEvent({ kind: 'unread', cause: causeOf(error) });
      this.#isUnread = true;
      return undefined;
    }
    this.#isUnread = false;
    this.#openings = openings;
    return took;
  }

  /** A place for each Node that should be judged, with the opening that led to it. */
  #suspicious(): ReadonlyMap<string, [ServiceTarget, string]> {
    const found = new Map<string, [ServiceTarget, string]>();
    const standing = this.#suspicion.read(this.#openings, this.#parts.clock.now());
    const read = new Map<ServiceKey, ReadonlyMap<Address, string>>();
    for (const opening of standing.slice(0, MAX_ENDPOINTS)) {
      const place = this.#places.locate(opening, read);
      if (place === undefined || found.has(place.node)) continue;
      if (this.#suspicion.isSuspect(place.node) || this.#judging.has(place.node)) continue;
      if (found.size + this.#judging.size < MAX_NODES) found.set(place.node, [place, opening.endpoint]);
    }
    return found;
  }

  async #judge(
    node: string,
    [first, endpoint]: [ServiceTarget, string],
    begin: Begin,
    signal: AbortSignal,
  ): Promise<void> {
    this.#judging.add(node);
    try {
      const ofNode = (await this.#places.ofNode(node)).filter(({ address }) => address !== first.address);
      const isExcluded = (other: string) => other === node || this.#suspicion.isSuspect(other);
      const others = await this.#places.ofOthers(isExcluded, OTHERS);
      const own = [first, ...ofNode];
      const [replies, otherReplies] = await Promise.all([this.#ask(own.flatMap(withUnserved)), this.#ask(others)]);
      if (signal.aborted) return;
      const [ofFirst] = replies;
      const verdict = verdictOf(replies, otherReplies);
      if (verdict !== 'silent') this.#parts.onEvent({ kind: 'spared', node, verdict });
      if (ofFirst?.reply === 'answer') return this.#suspicion.endpointAnswered(endpoint, this.#openings);
      if (!this.#suspicion.judged(node, endpoint, verdict, this.#parts.clock.now())) return;
      const answering = otherReplies.filter(({ reply }) => reply === 'answer').length;
      this.#parts.onEvent({ kind: 'suspect', node, asked: own.length, others: answering });
      begin(this.#follow(node, signal));
      await this.#tell(node, signal);
    } finally {
      this.#judging.delete(node);
    }
  }

  /** Asks a suspect until it is none any more. */
  async #follow(node: string, signal: AbortSignal): Promise<void> {
    const { clock, onEvent } = this.#parts;
    for (let n = 1; ; n++) {
      await sleep(clock, ASK_AGAIN, signal);
      const after = this.#suspicion.age(node, clock.now()) ?? 0;
      const why = after >= SUSPICION_TIMEOUT_MS ? 'expired' : await this.#whyNot(node, n);
      if (signal.aborted) return;
      if (why === undefined) continue;
      this.#suspicion.clear(node);
      onEvent({ kind: why, node, after });
      await this.#tell(node, signal);
      return;
    }
  }

  /** Why a suspect is none any more. */
  async #whyNot(node: string, n: number): Promise<'answers' | 'unused' | undefined> {
    const places = await this.#places.ofNode(node);
    const replies = await this.#ask(places.flatMap(withUnserved));
    if (replies.some(({ reply }) => reply === 'answer')) return 'answers';
    return places.length === 0 && n % LOOK_AGAIN === 0 ? 'unused' : undefined;
  }

  /** First the suspects, so that a Service which changes during the scan is served by them. */
  async #tell(node: string, signal: AbortSignal): Promise<void> {
    const { suspect } = this.#parts;
    suspect(this.#suspicion.suspects, []);
    const services = await this.#places.servicesOn(node);
    if (!signal.aborted) suspect(this.#suspicion.suspects, services);
  }

  async #ask(targets: readonly ProbeTarget[]): Promise<readonly ProbedTarget[]> {
    return await Promise.all(
      targets.map(async (target) => ({ ...target, reply: await this.#probe(target, PROBE_TIMEOUT_MS) })),
    );
  }
}

type Begin = (task: Promise<void>) => void;

/** A target, and the port beside it that nobody serves. */
function withUnserved(target: ProbeTarget): ProbeTarget[] {
  return [target, { ...target, port: UNSERVED }];
}

/** Bytes of an address and port of IPv4. */
const IPV4_SOCKET = 6;

/** Returns the milliseconds of its own work, without those in which other work had its turn. */
async function readInto(
  openings: SeenOpening[],
  parts: ReturnType<FlowTable['openings']>,
  clock: Clock,
  signal: AbortSignal,
): Promise<number> {
  let took = 0;
  while (!signal.aborted) {
    const start = clock.now();
    const next = parts.next();
    // A table that changed meanwhile may hide some: the next reading is close.
    if (next.done !== true) for (const flow of next.value) openings.push(seen(flow));
    took += clock.now() - start;
    if (next.done === true || openings.length >= MAX_OPENINGS) break;
    await breath();
  }
  return took;
}

function seen({ protocol, destination, replySource, id }: Flow): SeenOpening {
  const family = destination.length === IPV4_SOCKET ? 'IPv4' : 'IPv6';
  const endpoint = `${family} ${replySource}`;
  const key = `${Buffer.from(id).toString('latin1')} ${destination} ${endpoint}`;
  return { key, endpoint, family, protocol, destination, replySource };
}
