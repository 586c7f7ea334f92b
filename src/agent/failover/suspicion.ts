/**
 * Decides which Nodes are suspects: Nodes of which nothing answers this one (docs/semantics.md 3.6, k8s#101101). A connection without an
 * answer for two readings is the sign, and the probes that the agent then sends are the proof.
 *
 * Pure: it holds state, does no I/O, and takes the time as an argument. Times are milliseconds of a clock that never goes backwards.
 */
import type { Address } from '../../base/address.ts';

/** A TCP port to probe. */
export interface ProbeTarget {
  readonly node: string;
  readonly address: Address;
  readonly port: number;
}

/** `answer`: something answered, also by a refusal. `unknown`: the probe proves nothing. */
export type Reply = 'answer' | 'silence' | 'unknown';

export interface ProbedTarget extends ProbeTarget {
  readonly reply: Reply;
}

/** `unclear`: too few endpoints could be probed, or this node's own network may be the cause. */
export type ProbeResult = 'answers' | 'silent' | 'unclear';

/** Minimum of silent addresses of a Node. One alone may be a pod that a NetworkPolicy shields. */
export const MIN_ADDRESSES = 2;

/**
 * Judges a Node by the replies of its endpoints and of endpoints of other Nodes. The Node is silent when at least two of its addresses were
 * probed, none answered, and at least half of the other probed Nodes answered.
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
  /** Identifies the connection at each reading. */
  readonly key: string;
  /** The key of its endpoint. */
  readonly endpoint: string;
}

/** A silent endpoint of a Node that answers is no sign for this time, because a NetworkPolicy may shield it. */
export const SHIELDED_MS = 30_000;
/** A Node that could not be judged is probed again after this time. */
export const UNCLEAR_MS = 5000;
/** A suspect is cleared after this time, and has to be judged anew. */
export const SUSPICION_TIMEOUT_MS = 300_000;

export class Suspicion {
  /** Openings of the last reading. */
  #seen: ReadonlySet<string> = new Set();
  /** Openings to endpoints that answered a probe. */
  #explained = new Set<string>();
  /** Endpoints that are no sign, and the time until which they are ignored. */
  readonly #ignoredUntil = new Map<string, number>();
  /** Suspects, and the time since they are ones. */
  readonly #suspects = new Map<string, number>();

  /** The sorted names of the suspects. */
  get suspects(): readonly string[] {
    return [...this.#suspects.keys()].sort();
  }

  isSuspect(node: string): boolean {
    return this.#suspects.has(node);
  }

  /** Takes a reading. Returns an opening for each endpoint that should be probed, because the reading before had the opening too. */
  read<O extends UnansweredConnection>(openings: readonly O[], now: number): readonly O[] {
    const present = new Set(openings.map(({ key }) => key));
    const before = this.#seen;
    this.#seen = present;
    this.#explained = this.#explained.intersection(present);
    for (const [endpoint, until] of this.#ignoredUntil) if (until <= now) this.#ignoredUntil.delete(endpoint);
    const standing = new Map<string, O>();
    for (const opening of openings) {
      const { key, endpoint } = opening;
      if (before.has(key) && !this.#explained.has(key) && !this.#ignoredUntil.has(endpoint))
        standing.set(endpoint, opening);
    }
    return [...standing.values()];
  }

  /** An endpoint answered, so its present openings prove nothing. */
  endpointAnswered(endpoint: string, openings: readonly UnansweredConnection[]): void {
    for (const opening of openings) if (opening.endpoint === endpoint) this.#explained.add(opening.key);
  }

  /** Takes the verdict about the Node of this endpoint. Returns whether the Node became a suspect. */
  judged(node: string, endpoint: string, verdict: ProbeResult, now: number): boolean {
    if (verdict === 'silent') {
      const isNew = !this.#suspects.has(node);
      if (isNew) this.#suspects.set(node, now);
      return isNew;
    }
    this.#ignoredUntil.set(endpoint, now + (verdict === 'answers' ? SHIELDED_MS : UNCLEAR_MS));
    return false;
  }

  /** Milliseconds for which the Node has been a suspect; undefined if it is none. */
  age(node: string, now: number): number | undefined {
    const since = this.#suspects.get(node);
    return since === undefined ? undefined : now - since;
  }

  /** The Node is no longer a suspect. Its endpoints are a sign again at once. */
  clear(node: string): void {
    this.#suspects.delete(node);
  }
}
