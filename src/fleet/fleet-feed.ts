/**
 * The lists and watches of the fleet, on the agent's own reflector: Services and EndpointSlices with a proxy's selectors, Nodes, and the
 * slices of the agents' headless Service. Each event goes to the parts that answer from it.
 */

import { familyOf } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../cluster/api/client.ts';
import { objectKey } from '../cluster/api/decode/checks.ts';
import {
  type AgentEndpoint,
  decodeAgents,
  decodeFleetNode,
  decodeNamedSlice,
  type NamedSlice,
} from '../cluster/api/decode/fleet.ts';
import { decodeService } from '../cluster/api/decode/service.ts';
import { PAGE } from '../cluster/api/paged-list.ts';
import { SERVICES } from '../cluster/api/protobuf/service.ts';
import { NAMED_SLICES } from '../cluster/api/protobuf/slice.ts';
import { Reflector, type ReflectorSink, type Resource } from '../cluster/api/reflector.ts';
import { Watches, type WatchLog, watchSink } from '../cluster/api/watch.ts';
import { FaultBook } from '../proxy/model/fault-book.ts';
import { SERVED, SERVED_FIELDS, SERVICE_NAME_LABEL } from '../proxy/model/labels.ts';
import type { Fault, SliceKey } from '../proxy/model/objects.ts';
import type { FleetObjects, FleetSlice } from './fleet-objects.ts';
import type { AgentLinks } from './link.ts';
import type { FleetNodes } from './nodes.ts';
import type { AgentPlace } from './tracked-node.ts';

const FLEET_KINDS = ['services', 'slices', 'nodes', 'agents'] as const;
type FleetFeedKind = (typeof FLEET_KINDS)[number];

interface FleetFeedOptions {
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly links: Pick<AgentLinks, 'set'>;
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly log: WatchLog;
  readonly onFault: (fault: Fault) => void;
  /** The headless Service of the agents. */
  readonly agents: { readonly namespace: string; readonly name: string };
}

/** Takes the objects of one kind. */
type Taking = Pick<ReflectorSink, 'set' | 'gone'> & {
  /** The first list is complete, up to this version. */
  readonly synced: (version: string) => void;
  readonly restored?: () => void;
};

const SLICES = '/apis/discovery.k8s.io/v1';

export class FleetFeed {
  readonly #options: FleetFeedOptions;
  readonly #watches: Watches<FleetFeedKind>;
  readonly #faults = new FaultBook();
  readonly #places = new AgentPlaces();

  constructor(options: FleetFeedOptions) {
    this.#options = options;
    const meanwhile = 'what was seen until now stays';
    this.#watches = new Watches(FLEET_KINDS, { ...options, meanwhile });
  }

  /** The first lists are complete. */
  get isSynced(): boolean {
    return this.#watches.isSynced;
  }

  /** State of the watch of each kind. */
  get watches() {
    return this.#watches.statuses;
  }

  /** Why the newest objects are not known, as a sentence; undefined: they are. */
  get gap(): string | undefined {
    if (!this.isSynced) return 'the lists of the fleet are not complete yet';
    const failing = this.watches.find(({ failure }) => failure !== undefined);
    return failing && `the fleet cannot follow ${failing.of}: ${failing.failure?.cause}`;
  }

  /** Follow the cluster until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    const taking = this.#taking();
    const reflectors = FLEET_KINDS.map((kind) => {
      const sink = this.#sink(kind, taking[kind]);
      return new Reflector({
        resource: this.#resource(kind),
        client,
        clock,
        sink,
        random: Math.random,
        pageSize: PAGE,
      });
    });
    await Promise.all(reflectors.map((reflector) => reflector.run(signal)));
  }

  #resource(kind: FleetFeedKind): Resource {
    const { namespace, name } = this.#options.agents;
    const served = { labelSelector: SERVED, streams: true };
    switch (kind) {
      case 'services':
        return { path: '/api/v1/services', ...served, fieldSelector: SERVED_FIELDS, protobuf: SERVICES };
      case 'slices':
        return { path: `${SLICES}/endpointslices`, ...served, protobuf: NAMED_SLICES };
      case 'nodes':
        return { path: '/api/v1/nodes' };
      case 'agents': {
        const labelSelector = `${SERVICE_NAME_LABEL}=${name}`;
        return { path: `${SLICES}/namespaces/${namespace}/endpointslices`, labelSelector };
      }
    }
  }

  #sink(kind: FleetFeedKind, taking: Taking): ReflectorSink {
    const watch = this.#watches.of(kind);
    const ofWatch = watchSink(watch);
    let reached = '';
    /** After a restore everything is listed again, and what is reached next is that list. */
    let isListedAgain = false;
    return {
      ...ofWatch,
      set: (key, object, isEvent) => {
        // The API server checks names, so an invalid one does not come from it.
        if (kind !== 'nodes' && objectKey(object) !== key) return;
        taking.set(key, object, isEvent);
      },
      gone: (key, version, isEvent) => {
        this.#faults.set(`${kind} ${key}`, []);
        taking.gone(key, version, isEvent);
      },
      reached: (version) => {
        reached = version;
        if (isListedAgain) taking.synced(version);
        isListedAgain = false;
      },
      synced: () => {
        this.#watches.synced(kind);
        taking.synced(reached);
      },
      restored: (from, to) => {
        ofWatch.restored(from, to);
        isListedAgain = true;
        taking.restored?.();
      },
    };
  }

  #taking(): Readonly<Record<FleetFeedKind, Taking>> {
    const { objects, nodes } = this.#options;
    const restored = (kind: 'services' | 'slices') => () => {
      objects.restored(kind);
      nodes.restored(kind);
    };
    return {
      services: {
        set: (key, object, isEvent) => {
          const { service, faults } = decodeService(object, key);
          this.#report(`services ${key}`, faults);
          objects.setService(key, service, versionOf(object), isEvent);
        },
        gone: (key, version, isEvent) => objects.setService(key, undefined, version, isEvent),
        synced: (version) => objects.synced('services', version),
        restored: restored('services'),
      },
      slices: {
        set: (key, object, isEvent) => {
          const { value, faults } = decodeNamedSlice(object, key);
          this.#report(`slices ${key}`, faults);
          objects.setSlice(key, value && fleetSlice(value), versionOf(object), isEvent);
        },
        gone: (key, version, isEvent) => objects.setSlice(key, undefined, version, isEvent),
        synced: (version) => objects.synced('slices', version),
        restored: restored('slices'),
      },
      nodes: {
        set: (name, object) => {
          const { value, faults } = decodeFleetNode(object, name);
          this.#report(`nodes ${name}`, faults);
          // A Node that cannot be read is there all the same.
          nodes.setNode(name, value ?? 'unreadable');
        },
        gone: (name) => nodes.setNode(name, undefined),
        synced: () => nodes.synced('nodes'),
      },
      agents: {
        set: (key, object) => {
          const { value, faults } = decodeAgents(object, key);
          this.#report(`agents ${key}`, faults);
          if (value !== undefined) this.#placed(this.#places.set(key, value));
        },
        gone: (key) => this.#placed(this.#places.set(key, [])),
        synced: () => nodes.synced('agents'),
      },
    };
  }

  #placed(names: ReadonlySet<string>): void {
    const { nodes, links } = this.#options;
    for (const name of names) {
      const place = this.#places.of(name);
      nodes.setAgent(name, place);
      if (links.set(name, place)) nodes.setLink(name, { state: 'connecting' });
    }
  }

  #report(key: string, faults: readonly Fault[]): void {
    for (const fault of this.#faults.set(key, faults)) this.#options.onFault(fault);
  }
}

function fleetSlice({ slice, pods }: NamedSlice): FleetSlice {
  const { key, service, family, ports } = slice;
  const endpoints = slice.endpoints.map(({ address, nodeName, ready, serving, terminating }, i) => ({
    ...{ address, nodeName, ready, serving, terminating },
    pod: pods[i] ?? '',
  }));
  return { key, service, family, ports, endpoints };
}

function versionOf(object: unknown): string {
  const { metadata } = object as { readonly metadata?: { readonly resourceVersion?: string } };
  return metadata?.resourceVersion ?? '';
}

// Where the agent of each node listens, from the EndpointSlices of the agents' headless Service. Pure.

class AgentPlaces {
  readonly #slices = new Map<SliceKey, readonly AgentEndpoint[]>();
  /** By node: the slices that have an agent of it. */
  readonly #byNode = new Map<string, Set<SliceKey>>();

  /** A slice changed. Returns the nodes whose agents it has or had. */
  set(key: SliceKey, endpoints: readonly AgentEndpoint[]): ReadonlySet<string> {
    const before = this.#slices.get(key) ?? [];
    if (endpoints.length === 0) this.#slices.delete(key);
    else this.#slices.set(key, endpoints);
    for (const { node } of before) {
      const slices = this.#byNode.get(node);
      slices?.delete(key);
      if (slices?.size === 0) this.#byNode.delete(node);
    }
    for (const { node } of endpoints) this.#byNode.set(node, (this.#byNode.get(node) ?? new Set()).add(key));
    return new Set([...before, ...endpoints].map(({ node }) => node));
  }

  /** undefined: there is none. An agent that ends gives way to its successor, and IPv6 to IPv4. */
  of(node: string): AgentPlace | undefined {
    const all = [...(this.#byNode.get(node) ?? [])].sort().flatMap((key) => this.#slices.get(key) ?? []);
    const rank = ({ terminating, address }: AgentEndpoint) =>
      (terminating ? 2 : 0) + (familyOf(address) === 'IPv6' ? 1 : 0);
    const [best] = all.filter((each) => each.node === node).sort((a, b) => rank(a) - rank(b));
    return best === undefined ? undefined : { address: best.address, port: best.port };
  }
}
