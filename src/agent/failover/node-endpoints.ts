/**
 * Finds endpoints by Node: the Node behind an unanswered connection, other endpoints of a Node, and the Services with endpoints there. All
 * slices are read for an index of a few endpoints of each Node, which is rare, and done in portions.
 */

import { type Address, type Family, socketOf } from '../../base/address.ts';
import { breath, type Clock } from '../../base/clock.ts';
import type { Flow } from '../../kernel/conntrack.ts';
import type { ServiceKey, Slice } from '../../proxy/model/objects.ts';
import type { FrontendLookup } from '../../proxy/model/opening-flows.ts';
import type { ProbeTarget, UnansweredConnection } from './suspicion.ts';

export interface NodeEndpointsInput {
  readonly frontend: FrontendLookup;
  readonly slicesOf: (service: ServiceKey) => readonly Slice[];
  readonly slices: () => Iterable<Slice>;
  readonly nodeName: string;
  readonly clock: Clock;
  /** At least 0, less than 1. */
  readonly random: () => number;
}

/** An unanswered connection to an endpoint. */
export interface SeenOpening extends UnansweredConnection {
  readonly family: Family;
  readonly protocol: Flow['protocol'];
  /** Address and port as bytes, as in `Flow`. */
  readonly destination: string;
  readonly replySource: string;
}

/** A target with its Service. */
export interface ServiceTarget extends ProbeTarget {
  readonly service: ServiceKey;
}

/** Limit of endpoints of a Node that are indexed and probed. Each has another address. */
const MAX_PER_NODE = 3;
/** The index expires after this time. Where it has too few endpoints of a Node, it is made anew after the shorter one. */
const MAX_INDEX_AGE_MS = 30_000;
const MIN_INDEX_AGE_MS = 5000;
/** Slices that are read before the event loop gets its turn. */
const SLICES_AT_ONCE = 100;

export class NodeEndpoints {
  readonly #input: NodeEndpointsInput;
  #index: ReadonlyMap<string, readonly ServiceTarget[]> = new Map();
  #indexedAt = Number.NEGATIVE_INFINITY;

  constructor(input: NodeEndpointsInput) {
    this.#input = input;
  }

  /**
   * The endpoint of an opening, if it is ready and on another Node. `read` keeps the Nodes of a Service's ready endpoints for further
   * openings of the same reading: a Service is unpacked once.
   */
  locate(
    { family, protocol, destination, replySource }: SeenOpening,
    read: Map<ServiceKey, ReadonlyMap<Address, string>>,
  ): ServiceTarget | undefined {
    const { frontend, nodeName } = this.#input;
    const [to, by] = [socketOf(destination), socketOf(replySource)];
    const at = { family, protocol, port: to.port };
    const port = frontend({ ...at, address: to.address }) ?? frontend({ ...at, address: undefined });
    if (port === undefined) return undefined;
    const { service } = port;
    const nodes = read.get(service) ?? this.#nodesOf(service);
    read.set(service, nodes);
    const node = nodes.get(by.address) ?? '';
    return node === '' || node === nodeName ? undefined : { node, ...by, service };
  }

  /** The Nodes of a Service's ready endpoints, by address. */
  #nodesOf(service: ServiceKey): ReadonlyMap<Address, string> {
    const slices = this.#input.slicesOf(service);
    const ready = slices.flatMap(({ endpoints }) => endpoints.filter((endpoint) => endpoint.ready));
    return new Map(ready.map(({ address, nodeName }) => [address, nodeName]));
  }

  /** Ready TCP endpoints of a Node with different addresses, at most three, of as many namespaces as possible. */
  async ofNode(node: string): Promise<readonly ServiceTarget[]> {
    const known = await this.#known(node);
    const age = this.#input.clock.now() - this.#indexedAt;
    if (known.length >= MAX_PER_NODE || age < MIN_INDEX_AGE_MS) return known;
    await this.#makeIndex();
    return await this.#known(node);
  }

  /** One endpoint of each of some other Nodes, chosen at random. */
  async ofOthers(isExcluded: (node: string) => boolean, limit: number): Promise<readonly ServiceTarget[]> {
    if (this.#input.clock.now() - this.#indexedAt >= MAX_INDEX_AGE_MS) await this.#makeIndex();
    const nodes = [...this.#index.keys()].filter((node) => !isExcluded(node));
    const chosen: ServiceTarget[] = [];
    while (chosen.length < limit && nodes.length > 0) {
      const [node = ''] = nodes.splice(Math.floor(this.#input.random() * nodes.length), 1);
      const [target] = await this.#known(node);
      if (target !== undefined) chosen.push(target);
    }
    return chosen;
  }

  /** The Services that have endpoints on a Node. */
  async servicesOn(node: string): Promise<ReadonlySet<ServiceKey>> {
    const services = new Set<ServiceKey>();
    for await (const { service, endpoints } of this.#inPortions()) {
      if (endpoints.some(({ nodeName }) => nodeName === node)) services.add(service);
    }
    return services;
  }

  /** The indexed endpoints that are still ready. A pod that is gone would be silent, too. */
  async #known(node: string): Promise<readonly ServiceTarget[]> {
    if (this.#input.clock.now() - this.#indexedAt >= MAX_INDEX_AGE_MS) await this.#makeIndex();
    return (this.#index.get(node) ?? []).filter((target) => this.isReady(target));
  }

  /** Whether it is a ready endpoint of its Service on its Node now. */
  isReady({ node, address, service }: ServiceTarget): boolean {
    const slices = this.#input.slicesOf(service);
    return slices.some(({ endpoints }) =>
      endpoints.some((each) => each.ready && each.address === address && each.nodeName === node),
    );
  }

  async #makeIndex(): Promise<void> {
    const index = new Map<string, ServiceTarget[]>();
    for await (const { service, ports, endpoints } of this.#inPortions()) {
      const port = ports.find(({ protocol }) => protocol === 'TCP');
      if (port === undefined) continue;
      for (const { address, nodeName: node, ready } of endpoints) {
        if (!ready || node === '' || node === this.#input.nodeName) continue;
        const targets = index.get(node) ?? [];
        const at = seatFor(targets, address, service);
        if (at === undefined) continue;
        targets[at] = { node, address, port: port.port, service };
        index.set(node, targets);
      }
    }
    this.#index = index;
    this.#indexedAt = this.#input.clock.now();
  }

  async *#inPortions(): AsyncGenerator<Slice> {
    let read = 0;
    for (const slice of this.#input.slices()) {
      yield slice;
      read += 1;
      if (read % SLICES_AT_ONCE === 0) await breath();
    }
  }
}

/**
 * The index that an endpoint takes among those of its Node; undefined when it is left out. A missing namespace replaces one that is there
 * twice, because a NetworkPolicy often shields all pods of a namespace.
 */
function seatFor(targets: readonly ServiceTarget[], address: Address, service: ServiceKey): number | undefined {
  if (targets.some((target) => target.address === address)) return undefined;
  if (targets.length < MAX_PER_NODE) return targets.length;
  const namespaces = targets.map((target) => namespaceOf(target.service));
  if (namespaces.includes(namespaceOf(service))) return undefined;
  const at = namespaces.findLastIndex((namespace, i) => namespaces.indexOf(namespace) !== i);
  return at < 0 ? undefined : at;
}

function namespaceOf(service: ServiceKey): string {
  return service.slice(0, service.indexOf('/'));
}
