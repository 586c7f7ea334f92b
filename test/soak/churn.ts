/** Changes without end: endpoints come and go, Services come and go. The same seed and shape give the same changes. */
import { type ClusterShape, churnStep, FIRST, serviceKey, serviceOf, sliceOf } from '../bench/cluster.ts';
import { Random } from '../helpers/base/random.ts';

/** One write to the API server. `key` is `namespace/name`. */
export type Write =
  | { readonly kind: 'put'; readonly object: object }
  | { readonly kind: 'delete'; readonly of: 'Service' | 'EndpointSlice'; readonly key: string };

interface State {
  /** How often the last endpoint was replaced. */
  turn: number;
  endpoints: number;
  isGone: boolean;
  /** The Service's port is another one. */
  isElsewhere: boolean;
}

/** Beyond it the pods have no addresses left: the addresses of the first turns come again. */
const TURNS = 400;
/** Shares of the kinds of changes, in percent. The rest replaces an endpoint. */
const SHARES = { scale: 12, empty: 2, remove: 5, edit: 4 };

export class Churn {
  readonly #shape: ClusterShape;
  readonly #states = new Map<number, State>();
  /** Deleted Services, the longest gone first. */
  readonly #gone: number[] = [];
  readonly #random: Random;
  #steps = 0;

  constructor(shape: ClusterShape, seed: number) {
    this.#shape = shape;
    this.#random = new Random(seed);
  }

  /** Services that are there. */
  get services(): number {
    return this.#shape.services - this.#gone.length;
  }

  /** The next change, made at this time (RFC 3339): the Service's slices before it, where it goes. */
  next(changedAt: string): Write[] {
    const { n } = churnStep(this.#shape, this.#steps++, 1);
    const state = this.#stateOf(n);
    const dice = this.#below(100);
    // As many come back as go.
    const back =
      dice < SHARES.remove && this.#gone.length > this.#shape.services / 100 ? this.#gone.shift() : undefined;
    if (back !== undefined) return this.#create(back, changedAt);
    if (state.isGone) return this.#create(this.#take(n), changedAt);
    if (dice < SHARES.remove && n >= FIRST) return this.#remove(n, state);
    if (dice < SHARES.remove + SHARES.edit) {
      state.isElsewhere = !state.isElsewhere;
      return [this.#service(n, state)];
    }
    state.turn = (state.turn % TURNS) + 1;
    if (dice < SHARES.remove + SHARES.edit + SHARES.scale) state.endpoints = 1 + this.#below(this.#shape.endpoints);
    else if (dice < SHARES.remove + SHARES.edit + SHARES.scale + SHARES.empty) state.endpoints = 0;
    else state.endpoints = this.#shape.endpoints;
    return [this.#slice(n, state, changedAt)];
  }

  #stateOf(n: number): State {
    const known = this.#states.get(n) ?? {
      turn: 0,
      endpoints: this.#shape.endpoints,
      isGone: false,
      isElsewhere: false,
    };
    this.#states.set(n, known);
    return known;
  }

  #take(n: number): number {
    this.#gone.splice(this.#gone.indexOf(n), 1);
    return n;
  }

  #create(n: number, changedAt: string): Write[] {
    const state = this.#stateOf(n);
    state.isGone = false;
    state.endpoints = this.#shape.endpoints;
    return [this.#service(n, state), this.#slice(n, state, changedAt)];
  }

  #remove(n: number, state: State): Write[] {
    state.isGone = true;
    this.#gone.push(n);
    const { metadata } = sliceOf(this.#shape, n, 0) as { metadata: { namespace: string; name: string } };
    return [
      { kind: 'delete', of: 'Service', key: serviceKey(this.#shape, n) },
      { kind: 'delete', of: 'EndpointSlice', key: `${metadata.namespace}/${metadata.name}` },
    ];
  }

  #service(n: number, { isElsewhere }: State): Write {
    const object = serviceOf(this.#shape, n) as { spec: { ports: readonly { port: number }[] } };
    if (!isElsewhere) return { kind: 'put', object };
    const ports = object.spec.ports.map((port) => ({ ...port, port: port.port + 1000 }));
    return { kind: 'put', object: { ...object, spec: { ...object.spec, ports } } };
  }

  #slice(n: number, { turn, endpoints }: State, changedAt: string): Write {
    const object = sliceOf(this.#shape, n, 0, { turn, changedAt }) as { endpoints: readonly object[] };
    return { kind: 'put', object: { ...object, endpoints: object.endpoints.slice(this.#shape.endpoints - endpoints) } };
  }

  /** A whole number below `end`. */
  #below(end: number): number {
    return this.#random.bits() % end;
  }
}
