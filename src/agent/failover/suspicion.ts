/**
 * Decides which Nodes are suspects: Nodes of which nothing answers this one (docs/semantics.md 3.6, k8s#101101). A connection that nobody
 * has answered for two readings is the sign, and what the agent then asks itself is the proof.
 *
 * Pure: it holds state, does no I/O, and takes the time as an argument. Times are milliseconds of a clock that never goes backwards.
 */
import type { Address } from '../../base/address.ts';

/** A TCP port that is asked. */
export interface ProbeTarget {
  readonly node: string;
  readonly address: Address;
  readonly port: number;
}

/** `answer`: something answered, also by a refusal. `unknown`: this node could not ask. */
export type Reply = 'answer' | 'silence' | 'unknown';

export interface ProbedTarget extends ProbeTarget {
  readonly reply: Reply;
}

/** `unclear`: too few could be asked, or this node's own network may be the cause. */
export type ProbeResult = 'answers' | 'silent' | 'unclear';

/** Addresses of a Node that must all be silent: one alone may be a pod that a NetworkPolicy shields. */
export const MIN_ADDRESSES = 2;

/**
 * What the replies of a Node's endpoints, and of endpoints of other Nodes, say about the Node. It is silent when at least two addresses of
 * it were asked, none answered, and at least half of the other Nodes that were asked answered.
 */
export function verdictOf(own: readonly ProbedTarget[], others: readonly ProbedTarget[]): ProbeResult {
  if (own.some(({ reply }) => reply === 'answer')) return 'answers';
  const silent = new Set(own.filter(({ reply }) => reply === 'silence').map(({ address }) => address));
  for (const { address, reply } of own) if (reply === 'unknown') silent.delete(address);
  const answering = others.filter(({ reply }) => reply === 'answer').length;
  const isOurs = answering === 0 || answering * 2 < others.length;
  return silent.size < MIN_ADDRESSES || isOurs ? 'unclear' : 'silent';
}

/** An unanswered connection, as a reading finds it. */
export interface UnansweredConnection {
  /** The same at each reading, and no other connection's. */
  readonly key: string;
  /** The endpoint that it goes to, as a key. */
  readonly endpoint: string;
}

/** Milliseconds for which a silent endpoint of a Node that answers is no sign: a NetworkPolicy may shield it. */
export const SHIELDED = 30_000;
/** Milliseconds until a Node is asked again that could not be judged. */
export const UNCLEAR = 5000;
/** Milliseconds after which a suspect is none any more, and has to become one anew. */
export const SUSPICION_TIMEOUT_MS = 300_000;

export class Suspicion {
  /** Openings of the last reading. */
  #seen: ReadonlySet<string> = new Set();
  /** Openings to endpoints that answered when they were asked. */
  #explained = new Set<string>();
  /** Endpoints, and the time until which they are no sign. */
  readonly #patience = new Map<string, number>();
  /** Suspects, and since when. */
  readonly #suspects = new Map<string, number>();

  /** The names of the suspects, sorted. */
  get suspects(): readonly string[] {
    return [...this.#suspects.keys()].sort();
  }

  isSuspect(node: string): boolean {
    return this.#suspects.has(node);
  }

  /** Takes a reading. Returns an opening for each endpoint that should be looked at: the reading before had it too. */
  read<O extends UnansweredConnection>(openings: readonly O[], now: number): readonly O[] {
    const present = new Set(openings.map(({ key }) => key));
    const before = this.#seen;
    this.#seen = present;
    this.#explained = this.#explained.intersection(present);
    for (const [endpoint, until] of this.#patience) if (until <= now) this.#patience.delete(endpoint);
    const standing = new Map<string, O>();
    for (const opening of openings) {
      const { key, endpoint } = opening;
      if (before.has(key) && !this.#explained.has(key) && !this.#patience.has(endpoint))
        standing.set(endpoint, opening);
    }
    return [...standing.values()];
  }

  /** An endpoint answered: its present openings prove nothing. */
  endpointAnswered(endpoint: string, openings: readonly UnansweredConnection[]): void {
    for (const opening of openings) if (opening.endpoint === endpoint) this.#explained.add(opening.key);
  }

  /** Takes the verdict about a Node, which this endpoint led to. Returns whether the Node became a suspect. */
  judged(node: string, endpoint: string, verdict: ProbeResult, now: number): boolean {
    if (verdict === 'silent') {
      const isNew = !this.#suspects.has(node);
      if (isNew) this.#suspects.set(node, now);
      return isNew;
    }
    this.#patience.set(endpoint, now + (verdict === 'answers' ? SHIELDED : UNCLEAR));
    return false;
  }

  /** Milliseconds for which the Node has been a suspect; undefined: it is none. */
  age(node: string, now: number): number | undefined {
    const since = this.#suspects.get(node);
    return since === undefined ? undefined : now - since;
  }

  /** The Node is no suspect any more. Its endpoints are a sign again at once. */
  clear(node: string): void {
    this.#suspects.delete(node);
  }
}
