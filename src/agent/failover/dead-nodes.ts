/**
 * `--failover=confirm`: finds Nodes that died before their endpoints stop being ready, and keeps these endpoints out of new connections
 * (docs/semantics.md 3.6, k8s#101101).
 *
 * At most once a second it reads the TCP and SCTP connections without an answer, which the kernel filters. Reading
 * conntrack takes at most a fiftieth of a core. Where a connection is found twice, the agent itself connects to endpoints of that Node and of
 * others. A suspect is probed every second, and its first answer clears it.
 */

import type { Address } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import { breath, type Clock, sleep } from '../../base/clock.ts';
import type { Flow, FlowTable } from '../../kernel/conntrack.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { NodeEndpoints, type NodeEndpointsInput, type SeenOpening, type ServiceTarget } from './node-endpoints.ts';
import { limited, type Probe } from './probe.ts';
import { type ProbedTarget, type ProbeTarget, SUSPICION_TIMEOUT_MS, Suspicion, verdictOf } from './suspicion.ts';

/** Limits of the rest between two readings. */
const MIN_REST_MS = 1000;
const MAX_REST_MS = 10_000;
/** The rest as a multiple of the reading's time. */
const REST_FACTOR = 49;
const RETRY_MS = 30_000;
/** Limit of openings in a reading; a flood has more. */
const MAX_OPENINGS = 10_000;
/** Limit of endpoints in a reading that are looked up. */
const MAX_ENDPOINTS = 100;
/** Limit of Nodes that are judged at a time. */
const MAX_NODES = 4;
/** Limit of simultaneous probes. */
const MAX_PROBES = 24;
const PROBE_TIMEOUT_MS = 700;
/** Limit of endpoints of other Nodes that are probed. */
const MAX_OTHERS = 3;
/** The discard port (RFC 863), which is served nowhere. A machine that works refuses it, also where an endpoint takes no connections. */
const DISCARD_PORT = 9;
/** Interval of probes of a suspect. A suspect without endpoints is cleared at every fifth of them. */
const PROBE_INTERVAL_MS = 1000;
const PROBES_PER_USE_CHECK = 5;

/** Changes of a Node's suspicion. `after` is in milliseconds. */
export type FailoverEvent =
  /** The Node became a suspect. `asked` counts its probed addresses, and `others` the other Nodes that answered. */
  | { readonly kind: 'suspect'; readonly node: string; readonly asked: number; readonly others: number }
  /** The Node is no longer a suspect. `expired`: it will be judged anew. `unused`: it has no ready endpoint left to probe. */
  | { readonly kind: 'answers' | 'expired' | 'unused'; readonly node: string; readonly after: number }
  /** The Node was probed because of an unanswered connection, and did not become a suspect. */
  | { readonly kind: 'spared'; readonly node: string; readonly verdict: 'answers' | 'unclear' }
  | { readonly kind: 'unread'; readonly cause: string };

export interface FailoverParts extends Omit<NodeEndpointsInput, 'random'> {
  readonly open: () => Promise<FlowTable>;
  readonly probe: Probe;
  readonly random?: () => number;
  /** Receives the sorted suspects, and the Services with endpoints on a Node whose suspicion began or ended. */
  readonly suspect: (nodes: readonly string[], services: Iterable<ServiceKey>) => void;
  readonly onEvent: (event: FailoverEvent) => void;
}

export class FailoverWatch {
  readonly #parts: FailoverParts;
  readonly #probe: Probe;
  readonly #endpoints: NodeEndpoints;
  readonly #suspicion = new Suspicion();
  readonly #judging = new Set<string>();
  #openings: readonly SeenOpening[] = [];
  #isUnread = false;

  constructor(parts: FailoverParts) {
    this.#parts = parts;
    this.#probe = limited(parts.probe, MAX_PROBES);
    this.#endpoints = new NodeEndpoints({ ...parts, random: parts.random ?? Math.random });
  }

  /** Watch until the signal aborts; a probe that is on its way then has no effect. Rejects with an unexpected error of its own. */
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
        took = await readInto(openings, table.unanswered(), clock, signal);
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

  /** A target on each Node that should be judged, with the endpoint that led to it. */
  #suspicious(): ReadonlyMap<string, [ServiceTarget, string]> {
    const found = new Map<string, [ServiceTarget, string]>();
    const standing = this.#suspicion.read(this.#openings, this.#parts.clock.now());
    const read = new Map<ServiceKey, ReadonlyMap<Address, string>>();
    for (const opening of standing.slice(0, MAX_ENDPOINTS)) {
      const target = this.#endpoints.locate(opening, read);
      if (target === undefined || found.has(target.node)) continue;
      if (this.#suspicion.isSuspect(target.node) || this.#judging.has(target.node)) continue;
      if (found.size + this.#judging.size < MAX_NODES) found.set(target.node, [target, opening.endpoint]);
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
      const ofNode = (await this.#endpoints.ofNode(node)).filter(({ address }) => address !== first.address);
      const isExcluded = (other: string) => other === node || this.#suspicion.isSuspect(other);
      const others = await this.#endpoints.ofOthers(isExcluded, MAX_OTHERS);
      const own = [first, ...ofNode];
      const [all, otherReplies] = await Promise.all([
        this.#probeAll(own.flatMap(withDiscardPort)),
        this.#probeAll(others),
      ]);
      if (signal.aborted) return;
      const [ofFirst] = all;
      // A pod that went while it was asked was silent, whatever its Node does.
      const there = new Set(own.filter((target) => this.#endpoints.isReady(target)).map(({ address }) => address));
      const replies = all.filter(({ reply, address }) => reply === 'answer' || there.has(address));
      const verdict = verdictOf(replies, otherReplies);
      if (verdict !== 'silent') this.#parts.onEvent({ kind: 'spared', node, verdict });
      if (ofFirst?.reply === 'answer') return this.#suspicion.endpointAnswered(endpoint, this.#openings);
      if (!this.#suspicion.judged(node, endpoint, verdict, this.#parts.clock.now())) return;
      const answering = otherReplies.filter(({ reply }) => reply === 'answer').length;
      this.#parts.onEvent({ kind: 'suspect', node, asked: own.length, others: answering });
      begin(this.#follow(node, signal));
      await this.#report(node, signal);
    } finally {
      this.#judging.delete(node);
    }
  }

  /** Probes a suspect until it is cleared. */
  async #follow(node: string, signal: AbortSignal): Promise<void> {
    const { clock, onEvent } = this.#parts;
    for (let n = 1; ; n++) {
      await sleep(clock, PROBE_INTERVAL_MS, signal);
      const after = this.#suspicion.age(node, clock.now()) ?? 0;
      const why = after >= SUSPICION_TIMEOUT_MS ? 'expired' : await this.#endOfSuspicion(node, n);
      if (signal.aborted) return;
      if (why === undefined) continue;
      this.#suspicion.clear(node);
      onEvent({ kind: why, node, after });
      await this.#report(node, signal);
      return;
    }
  }

  /** The reason to clear a suspect; undefined while it stays one. */
  async #endOfSuspicion(node: string, n: number): Promise<'answers' | 'unused' | undefined> {
    const targets = await this.#endpoints.ofNode(node);
    const replies = await this.#probeAll(targets.flatMap(withDiscardPort));
    if (replies.some(({ reply }) => reply === 'answer')) return 'answers';
    return targets.length === 0 && n % PROBES_PER_USE_CHECK === 0 ? 'unused' : undefined;
  }

  /** Reports the suspects first, so that a Service which changes during the scan already leaves them out. */
  async #report(node: string, signal: AbortSignal): Promise<void> {
    const { suspect } = this.#parts;
    suspect(this.#suspicion.suspects, []);
    const services = await this.#endpoints.servicesOn(node);
    if (!signal.aborted) suspect(this.#suspicion.suspects, services);
  }

  async #probeAll(targets: readonly ProbeTarget[]): Promise<readonly ProbedTarget[]> {
    return await Promise.all(
      targets.map(async (target) => ({ ...target, reply: await this.#probe(target, PROBE_TIMEOUT_MS) })),
    );
  }
}

type Begin = (task: Promise<void>) => void;

/** A target, and the discard port beside it. */
function withDiscardPort(target: ProbeTarget): ProbeTarget[] {
  return [target, { ...target, port: DISCARD_PORT }];
}

/** Returns the milliseconds of its own work, without those in which other work had its turn. */
async function readInto(
  openings: SeenOpening[],
  parts: ReturnType<FlowTable['unanswered']>,
  clock: Clock,
  signal: AbortSignal,
): Promise<number> {
  let took = 0;
  while (!signal.aborted) {
    const start = clock.now();
    const next = parts.next();
    // A table that changed meanwhile may hide some connections. The next reading finds them soon.
    if (next.done !== true) for (const flow of next.value) openings.push(seen(flow));
    took += clock.now() - start;
    if (next.done === true || openings.length >= MAX_OPENINGS) break;
    await breath();
  }
  return took;
}

function seen({ family, protocol, destination, replySource, id }: Flow): SeenOpening {
  const endpoint = `${family} ${replySource}`;
  const key = `${Buffer.from(id).toString('latin1')} ${destination} ${endpoint}`;
  return { key, endpoint, family, protocol, destination, replySource };
}
