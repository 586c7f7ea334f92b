/**
 * The lists and watches of the fleet: Services and EndpointSlices with a proxy's selectors, Nodes, and the slices of the agents' headless
 * Service. Each event goes to the parts that answer from it.
 */
import { familyOf } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../cluster/api/client.ts';
import {
  type AgentEndpoint,
  decodeAgents,
  decodeNamedSlice,
  NAMED_SLICES,
  type NamedSlice,
} from '../cluster/api/decode/agent-slices.ts';
import { objectKey } from '../cluster/api/decode/checks.ts';
import { decodeFleetNode } from '../cluster/api/decode/node.ts';
import { decodeService, SERVICES } from '../cluster/api/decode/service.ts';
import type { ReflectorSink, Resource } from '../cluster/api/reflector.ts';
import { type Watch, Watches, type WatchLog, watchSink } from '../cluster/api/watch.ts';
import { FaultBook } from '../proxy/model/fault-book.ts';
import { SERVED, SERVED_FIELDS, SERVICE_NAME_LABEL } from '../proxy/model/labels.ts';
import type { Fault, SliceKey } from '../proxy/model/objects.ts';
import type { FleetNodes } from './fleet-nodes.ts';
import type { FleetObjects } from './fleet-objects.ts';
import type { AgentLinks } from './link.ts';
import type { AgentAddress, Restore } from './tracked-node.ts';
import type { FleetSlice } from './types.ts';

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

/** Receives the objects of one kind. */
type KindIntake = Pick<ReflectorSink, 'set' | 'gone'> & {
  /** The first list is complete, up to this version. */
  readonly synced: (version: string) => void;
  readonly restored?: (restore: Restore) => void;
};

const DISCOVERY = '/apis/discovery.k8s.io/v1';

export class FleetFeed {
  readonly #options: FleetFeedOptions;
  readonly #watches: Watches<FleetFeedKind>;
  readonly #faults = new FaultBook();
  readonly #addresses = new AgentAddresses();

  constructor(options: FleetFeedOptions) {
    this.#options = options;
    const meanwhile = 'the objects seen until now stay in use';
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

  /** The reason why the newest objects are unknown, as a sentence; undefined when they are known. */
  get gap(): string | undefined {
    if (!this.isSynced) return 'the lists of the fleet are not complete yet';
    const failing = this.watches.find(({ failure }) => failure !== undefined);
    return failing && `the fleet cannot follow ${failing.of}: ${failing.failure?.cause}`;
  }

  /** Follow the cluster until the signal aborts. */
  async follow(signal: AbortSignal): Promise<void> {
    const intakes = this.#intakes();
    const partsOf = (kind: FleetFeedKind, watch: Watch<FleetFeedKind>) => ({
      resource: this.#resource(kind),
      sink: this.#sink(kind, watch, intakes[kind]),
    });
    await this.#watches.follow(this.#options.client, partsOf, signal);
  }

  #resource(kind: FleetFeedKind): Resource {
    const { namespace, name } = this.#options.agents;
    const served = { labelSelector: SERVED, streams: true };
    switch (kind) {
      case 'services':
        return { path: '/api/v1/services', ...served, fieldSelector: SERVED_FIELDS, protobuf: SERVICES };
      case 'slices':
        return { path: `${DISCOVERY}/endpointslices`, ...served, protobuf: NAMED_SLICES };
      case 'nodes':
        return { path: '/api/v1/nodes' };
      case 'agents': {
        const labelSelector = `${SERVICE_NAME_LABEL}=${name}`;
        return { path: `${DISCOVERY}/namespaces/${namespace}/endpointslices`, labelSelector };
      }
    }
  }

  #sink(kind: FleetFeedKind, watch: Watch<FleetFeedKind>, intake: KindIntake): ReflectorSink {
    const ofWatch = watchSink(watch);
    let reached = '';
    let readAt = Number.NEGATIVE_INFINITY;
    /** After a restore everything is listed again, and the next version reached is that of the list. */
    let isListedAgain = false;
    return {
      ...ofWatch,
      set: (key, object, isEvent) => {
        // The API server checks names, so an invalid one does not come from it.
        if (kind !== 'nodes' && objectKey(object) !== key) return;
        intake.set(key, object, isEvent);
      },
      gone: (key, version, isEvent) => {
        this.#faults.set(`${kind} ${key}`, []);
        intake.gone(key, version, isEvent);
      },
      reached: (version) => {
        reached = version;
        readAt = this.#options.clock.now();
        if (isListedAgain) intake.synced(version);
        isListedAgain = false;
      },
      synced: () => {
        this.#watches.synced(kind);
        intake.synced(reached);
      },
      restored: (from, to) => {
        ofWatch.restored(from, to);
        isListedAgain = true;
        intake.restored?.({ from, to, readAt, seenAt: this.#options.clock.now() });
      },
    };
  }

  #intakes(): Readonly<Record<FleetFeedKind, KindIntake>> {
    const { objects, nodes } = this.#options;
    const restored = (kind: 'services' | 'slices') => (restore: Restore) => {
      objects.restored(kind);
      nodes.restored(kind, restore);
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
          // A Node that cannot be read exists nevertheless.
          nodes.setNode(name, value ?? 'unreadable');
        },
        gone: (name) => nodes.setNode(name, undefined),
        synced: () => nodes.synced('nodes'),
      },
      agents: {
        set: (key, object) => {
          const { value, faults } = decodeAgents(object, key);
          this.#report(`agents ${key}`, faults);
          if (value !== undefined) this.#setAgents(this.#addresses.set(key, value));
        },
        gone: (key) => this.#setAgents(this.#addresses.set(key, [])),
        synced: () => nodes.synced('agents'),
      },
    };
  }

  /** The agents of these nodes may have other addresses now. */
  #setAgents(names: ReadonlySet<string>): void {
    const { nodes, links } = this.#options;
    for (const name of names) {
      const address = this.#addresses.of(name);
      nodes.setAgent(name, address);
      if (links.set(name, address)) nodes.setLink(name, { state: 'connecting' });
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

/** The address of the agent of each node, from the EndpointSlices of the agents' headless Service. */
class AgentAddresses {
  readonly #slices = new Map<SliceKey, readonly AgentEndpoint[]>();
  /** The slices that have an agent of a node, by node. */
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

  /** undefined when there is none. The successor of an agent that ends is preferred, and then IPv4. */
  of(node: string): AgentAddress | undefined {
    const all = [...(this.#byNode.get(node) ?? [])].sort().flatMap((key) => this.#slices.get(key) ?? []);
    const rank = ({ terminating, address }: AgentEndpoint) =>
      (terminating ? 2 : 0) + (familyOf(address) === 'IPv6' ? 1 : 0);
    const [best] = all.filter((each) => each.node === node).sort((a, b) => rank(a) - rank(b));
    return best === undefined ? undefined : { address: best.address, port: best.port };
  }
}
