/**
 * Services and EndpointSlices from the fleet's watches, and whether an endpoint still takes new connections by the newest of them
 * (KEP-1669). Pure.
 *
 * A version is the resourceVersion of an object's change. Versions of one kind can be compared (KEP-5504).
 */
import type { Family } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import { portKey } from '../proxy/model/endpoints.ts';
import type { Service, ServiceKey, SliceKey, SlicePort } from '../proxy/model/objects.ts';
import { newer } from '../proxy/model/resource-version.ts';
import { isDraining, isReady } from '../proxy/model/selection.ts';
import { hasLocalPolicy } from '../proxy/model/service-port.ts';
import { EndpointIndex } from './endpoint-index.ts';
import {
  type DrainTarget,
  type Ending,
  type FleetEndpoint,
  type FleetKind,
  type FleetSlice,
  Listeners,
  NO_VERSIONS,
  type SliceEndpointRef,
  type TargetState,
  type Versions,
} from './types.ts';

type OnVersion = (kind: FleetKind, version: string, service: ServiceKey) => void;

export class FleetObjects {
  readonly services = new ServiceStates();
  readonly versions = new SeenVersions();
  /**
   * Emits the Service of each change with the new endpoints of its slices, and "" after the last of the first lists. `isEvent`: the change came
   * from a watch. Before one that a list brought, the object may have been in states that the fleet never sees.
   */
  readonly changes = new Listeners<[service: ServiceKey, added: readonly FleetEndpoint[], isEvent: boolean]>();
  readonly #endpoints: EndpointIndex;
  readonly #slices = new Map<SliceKey, FleetSlice>();
  readonly #seen: OnVersion;

  /** `seen` is called with each change that a watch brings after both lists are complete. */
  constructor(clock: Pick<Clock, 'now'>, seen: OnVersion = () => undefined) {
    this.#endpoints = new EndpointIndex(clock);
    this.#seen = seen;
  }

  /** Whether the first lists of both kinds are complete. */
  get isComplete(): boolean {
    return this.versions.isComplete;
  }

  /** Families that have slices. */
  get families(): readonly Family[] {
    return this.#endpoints.families;
  }

  /**
   * A Service changed. undefined: it was deleted, or no proxy serves it. `version`: that of the object, or for a deletion that of its event
   * or of the list without it. `isEvent`: the change came from a watch, so its moment is known.
   */
  setService(key: ServiceKey, service: Service | undefined, version: string, isEvent = true): void {
    this.services.setService(key, service, version);
    this.#advance('services', version, key, isEvent);
    this.changes.emit(key, [], isEvent);
  }

  /** The same for an EndpointSlice. */
  setSlice(key: SliceKey, slice: FleetSlice | undefined, version: string, isEvent = true): void {
    const before = this.#slices.get(key);
    if (slice === undefined) this.#slices.delete(key);
    else this.#slices.set(key, slice);
    const added = this.#endpoints.replace(before, slice);
    const service = slice?.service ?? before?.service ?? '';
    const formerly = before !== undefined && before.service !== service ? before.service : undefined;
    if (formerly !== undefined) this.services.setSlice(formerly, key, undefined, version);
    if (service !== '') this.services.setSlice(service, key, slice, version);
    this.#advance('slices', version, service, isEvent);
    if (formerly !== undefined) this.changes.emit(formerly, [], isEvent);
    if (service !== '') this.changes.emit(service, added, isEvent);
  }

  /** The first list of a kind, or the first one after `restored`, is complete up to this version. */
  synced(kind: FleetKind, version: string): void {
    this.versions.synced(kind, version);
    if (this.isComplete) this.changes.emit('', [], false);
  }

  /**
   * The versions of a kind went back, because the API server's store was restored (KEP-5504). All objects are listed again, and nothing is
   * complete until `synced` is called for that list.
   */
  restored(kind: FleetKind): void {
    this.versions.restored(kind);
    this.services.restored(kind);
  }

  /** The reason why new connections still go to a target, as a clause; undefined when none do. */
  takes(target: DrainTarget): string | undefined {
    return this.#firstReason(this.#endpointsOf(target));
  }

  /** The target by the newest objects. Services that had it are remembered for a quarter of an hour. */
  stateOf(target: DrainTarget): TargetState {
    const endpoints = this.#endpointsOf(target);
    const past = target.kind === 'terminating' ? [] : this.#endpoints.past(nameOf(target));
    const services = new Set([...endpoints.map(({ slice }) => slice.service), ...past.map(({ service }) => service)]);
    if (target.kind === 'terminating') services.add(target.service);
    const families = new Set([...endpoints.map(({ slice }) => slice.family), ...past.map(({ family }) => family)]);
    return {
      services: [...services].sort(),
      families: [...families].sort(),
      endpoints: [...new Set(endpoints.map(({ endpoint }) => endpoint.pod || endpoint.address))].sort(),
      takes: this.#firstReason(endpoints),
    };
  }

  /**
   * The versions that a kernel must have so that no older object of these Services is in it. An object that was deleted before the fleet's
   * first lists (another slice of an endpoint, or the Service of a slice that is still there) has no version but that of the lists. Watchers
   * learn the version of a list from the next change of that kind, or from a bookmark about a minute later.
   */
  mustHave(services: readonly ServiceKey[]): Versions {
    const { newest, newestWithLists } = this.versions;
    const isGone = services.some((service) => !this.services.has(service));
    return { services: (isGone ? newestWithLists : newest).services, slices: newestWithLists.slices };
  }

  /** Endpoints of a Service that terminate, each with the moment at which the fleet saw it begin. */
  endings(service: ServiceKey, endpoints: readonly string[]): Ending[] {
    return endpoints.map((endpoint) => ({ endpoint, since: this.#endpoints.endingSince(service, endpoint) }));
  }

  #endpointsOf(target: DrainTarget): readonly SliceEndpointRef[] {
    if (target.kind !== 'terminating') return this.#endpoints.now(nameOf(target), this.#slices);
    return this.services.terminatingOn(target.service, target.node);
  }

  #firstReason(endpoints: readonly SliceEndpointRef[]): string | undefined {
    for (const one of endpoints) {
      const reason = this.services.takes(one);
      if (reason !== undefined) return reason;
    }
    return undefined;
  }

  #advance(kind: FleetKind, version: string, service: ServiceKey, isEvent: boolean): void {
    this.versions.advance(kind, version);
    if (isEvent && this.isComplete) this.#seen(kind, version, service);
  }
}

function nameOf(target: Exclude<DrainTarget, { kind: 'terminating' }>): string {
  return target.kind === 'pod' ? target.pod : target.address;
}

/** The newest versions that the fleet has seen. */
class SeenVersions {
  readonly #synced = new Set<FleetKind>();
  #newest = NO_VERSIONS;
  #listed = NO_VERSIONS;

  /** Whether the first lists of both kinds are complete. */
  get isComplete(): boolean {
    return this.#synced.size === 2;
  }

  /** Versions of changes of objects. Those of bookmarks and lists are later, but other watchers may not learn them for a long time. */
  get newest(): Versions {
    return this.#newest;
  }

  /** The same, or the versions of the first lists when these are newer: an object that a list lacks may have been deleted just before. */
  get newestWithLists(): Versions {
    return {
      services: newer(this.#newest.services, this.#listed.services),
      slices: newer(this.#newest.slices, this.#listed.slices),
    };
  }

  advance(kind: FleetKind, version: string): void {
    this.#newest = { ...this.#newest, [kind]: newer(this.#newest[kind], version) };
  }

  synced(kind: FleetKind, version: string): void {
    this.#synced.add(kind);
    this.#listed = { ...this.#listed, [kind]: version };
  }

  /** The versions of a kind went back. */
  restored(kind: FleetKind): void {
    this.#synced.delete(kind);
    this.#newest = { ...this.#newest, [kind]: '' };
    this.#listed = { ...this.#listed, [kind]: '' };
  }
}

interface TrackedService {
  service: Service | undefined;
  readonly slices: Map<SliceKey, FleetSlice>;
  newest: Versions;
  /** By family and port; undefined until it is needed. */
  ready: Map<string, ReadyPort> | undefined;
  /** Endpoints that terminate, by Node; undefined until it is needed. */
  terminating: ReadonlyMap<string, readonly SliceEndpointRef[]> | undefined;
}

/** The ready endpoints of a port in one family. */
interface ReadyPort {
  hasAny: boolean;
  readonly nodes: Set<string>;
}

/** Services with their slices, and whether an endpoint of them takes new connections (KEP-1669). */
class ServiceStates {
  readonly #states = new Map<ServiceKey, TrackedService>();

  /** The newest versions of a Service and of its slices; undefined without either. */
  newestOf(service: ServiceKey): Versions | undefined {
    return this.#states.get(service)?.newest;
  }

  /** Whether the Service exists, and proxies serve it. */
  has(service: ServiceKey): boolean {
    return this.#states.get(service)?.service !== undefined;
  }

  /** Families of a Service's slices; sorted. */
  familiesOf(service: ServiceKey): readonly Family[] {
    return [...new Set(this.slicesOf(service).map(({ family }) => family))].sort();
  }

  slicesOf(service: ServiceKey): readonly FleetSlice[] {
    return [...(this.#states.get(service)?.slices.values() ?? [])];
  }

  /** Each hook that waits asks this after each change of the Service, so the endpoints are gone through once. */
  terminatingOn(service: ServiceKey, node: string): readonly SliceEndpointRef[] {
    const state = this.#states.get(service);
    if (state === undefined) return [];
    state.terminating ??= terminatingByNode(state.slices.values());
    return state.terminating.get(node) ?? [];
  }

  setService(key: ServiceKey, service: Service | undefined, version: string): void {
    const state = this.#stateOf(key);
    state.service = service;
    this.#advance('services', key, state, version);
  }

  /** `slice` is undefined when the Service no longer has it. */
  setSlice(service: ServiceKey, key: SliceKey, slice: FleetSlice | undefined, version: string): void {
    const state = this.#stateOf(service);
    if (slice === undefined) state.slices.delete(key);
    else state.slices.set(key, slice);
    state.ready = undefined;
    state.terminating = undefined;
    this.#advance('slices', service, state, version);
  }

  /** The versions of a kind went back. */
  restored(kind: FleetKind): void {
    for (const state of this.#states.values()) state.newest = { ...state.newest, [kind]: '' };
  }

  /** The reason why an endpoint takes new connections, as a clause; undefined when it takes none. */
  takes({ slice, endpoint }: SliceEndpointRef): string | undefined {
    const state = this.#states.get(slice.service);
    if (state?.service === undefined || slice.ports.length === 0) return undefined;
    const text = (why: string) => `Service ${slice.service} still sends new connections to ${endpoint.address}: ${why}`;
    if (isReady(endpoint)) {
      return text(
        endpoint.terminating ? 'it counts as ready, because the Service publishes not ready addresses' : 'it is ready',
      );
    }
    if (!isDraining(endpoint)) return undefined;
    state.ready ??= readyPorts(state.slices.values());
    const { ready } = state;
    const ports = slice.ports.map((port) => ready.get(portName(slice, port)));
    if (ports.some((port) => !port?.hasAny)) return text('no endpoint is ready, so those that terminate are used');
    const here = endpoint.nodeName;
    if (here === '' || !hasLocalPolicy(state.service) || ports.every((port) => port?.nodes.has(here))) return undefined;
    return text(
      `its traffic policy is Local and no endpoint on Node ${here} is ready, so those that terminate are used`,
    );
  }

  #stateOf(key: ServiceKey): TrackedService {
    let state = this.#states.get(key);
    if (state === undefined) {
      state = { service: undefined, slices: new Map(), newest: NO_VERSIONS, ready: undefined, terminating: undefined };
      this.#states.set(key, state);
    }
    return state;
  }

  #advance(kind: FleetKind, key: ServiceKey, state: TrackedService, version: string): void {
    state.newest = { ...state.newest, [kind]: newer(state.newest[kind], version) };
    if (state.service === undefined && state.slices.size === 0) this.#states.delete(key);
  }
}

function portName({ family }: FleetSlice, { name, protocol }: SlicePort): string {
  return `${family}/${portKey(name, protocol)}`;
}

function terminatingByNode(slices: Iterable<FleetSlice>): Map<string, SliceEndpointRef[]> {
  const nodes = new Map<string, SliceEndpointRef[]>();
  for (const slice of slices)
    for (const endpoint of slice.endpoints) {
      if (!endpoint.terminating) continue;
      const found = nodes.get(endpoint.nodeName);
      if (found === undefined) nodes.set(endpoint.nodeName, [{ slice, endpoint }]);
      else found.push({ slice, endpoint });
    }
  return nodes;
}

function readyPorts(slices: Iterable<FleetSlice>): Map<string, ReadyPort> {
  const ports = new Map<string, ReadyPort>();
  for (const slice of slices) {
    const ready = slice.endpoints.filter(isReady);
    for (const port of slice.ports) {
      const name = portName(slice, port);
      const known = ports.get(name) ?? { hasAny: false, nodes: new Set() };
      ports.set(name, known);
      known.hasAny ||= ready.length > 0;
      for (const { nodeName } of ready) known.nodes.add(nodeName);
    }
  }
  return ports;
}
