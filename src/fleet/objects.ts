/**
 * Services and EndpointSlices as the fleet's watches give them, and whether an endpoint still takes new connections by the newest of
 * them (KEP-1669). Pure.
 *
 * A version is the resourceVersion of an object's change. Versions of one kind can be compared (KEP-5504).
 */
import type { Clock } from '../host/clock.ts';
import type { Address, Family } from '../model/address.ts';
import { portKey } from '../model/endpoints.ts';
import type { Service, ServiceKey, SliceKey, SlicePort } from '../model/objects.ts';
import { newer } from '../model/resource-version.ts';
import { isDraining, isReady } from '../model/selection-reasons.ts';
import { hasLocalPolicy } from '../model/service-port.ts';
import { type Place, Places } from './places.ts';

export interface FleetEndpoint {
  readonly address: Address;
  /** `namespace/name` of the Pod that its targetRef names; "" for none. */
  readonly pod: string;
  /** "" when the slice has none. */
  readonly nodeName: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
}

export interface FleetSlice {
  readonly key: SliceKey;
  readonly service: ServiceKey;
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly FleetEndpoint[];
}

export type FleetKind = 'services' | 'slices';

/** resourceVersions by kind; "" for none. */
export type Versions = Readonly<Record<FleetKind, string>>;

/** Endpoints that a question is about: of a Pod, at an address, or those of a Service on a Node that terminate. */
export type Target =
  | { readonly kind: 'pod'; readonly pod: string }
  | { readonly kind: 'address'; readonly address: Address }
  | { readonly kind: 'terminating'; readonly service: ServiceKey; readonly node: string };

/** How a target stands in the newest objects. */
export interface Standing {
  /** Services that have it, or had it until a moment ago; sorted. */
  readonly services: readonly ServiceKey[];
  readonly families: readonly Family[];
  /** Pods, or addresses of endpoints without one, that are in slices now; sorted. */
  readonly endpoints: readonly string[];
  /** Why new connections still go to it, as a sentence; undefined: none do. */
  readonly takes: string | undefined;
}

/** A Service's objects changed. `added`: endpoints that its slices did not have. */
export type ObjectsListener = (service: ServiceKey, added: readonly FleetEndpoint[]) => void;

interface ServiceState {
  service: Service | undefined;
  readonly slices: Map<SliceKey, FleetSlice>;
  newest: Versions;
  /** By family and port; undefined: not known. */
  ready: Map<string, ReadyPort> | undefined;
}

/** The ready endpoints of a port in one family. */
interface ReadyPort {
  hasAny: boolean;
  readonly nodes: Set<string>;
}

const NONE: Versions = { services: '', slices: '' };

export class FleetObjects {
  readonly #places: Places;
  readonly #services = new Map<ServiceKey, ServiceState>();
  readonly #slices = new Map<SliceKey, FleetSlice>();
  readonly #synced = new Set<FleetKind>();
  readonly #listeners: ObjectsListener[] = [];
  readonly #seen: (kind: FleetKind, version: string, service: ServiceKey) => void;
  #newest = NONE;
  #listed = NONE;

  /** `seen` takes each change that a watch tells of, once both lists are complete. */
  constructor(
    clock: Pick<Clock, 'now'>,
    seen: (kind: FleetKind, version: string, service: ServiceKey) => void = () => undefined,
  ) {
    this.#places = new Places(clock);
    this.#seen = seen;
  }

  /** Called after each change, and with "" after the last list. */
  onChange(listener: ObjectsListener): void {
    this.#listeners.push(listener);
  }

  /** Whether the first lists of both kinds are complete. */
  get isComplete(): boolean {
    return this.#synced.size === 2;
  }

  /** The newest versions of changes of objects. */
  get newest(): Versions {
    return this.#newest;
  }

  /** The same, or the versions of the first lists where these are newer: what a list no longer had may have been there just before. */
  get newestWithLists(): Versions {
    return {
      services: newer(this.#newest.services, this.#listed.services),
      slices: newer(this.#newest.slices, this.#listed.slices),
    };
  }

  /** Families of which there are slices. */
  get families(): readonly Family[] {
    return this.#places.families;
  }

  /** Families of which a Service has slices; sorted. */
  familiesOf(service: ServiceKey): readonly Family[] {
    const slices = this.#services.get(service)?.slices.values() ?? [];
    return [...new Set([...slices].map(({ family }) => family))].sort();
  }

  /** The newest versions of a Service and of its slices; undefined: there is neither. */
  newestOf(service: ServiceKey): Versions | undefined {
    return this.#services.get(service)?.newest;
  }

  /**
   * A Service changed. undefined: it was deleted, or no proxy serves it. `version`: of the object; of a deletion that of its event, or of
   * the list that has the object no more. `isEvent`: a watch told it, so its moment is known.
   */
  setService(key: ServiceKey, service: Service | undefined, version: string, isEvent = true): void {
    const state = this.#stateOf(key);
    state.service = service;
    this.#advance('services', key, state, version, isEvent);
    this.#changed(key, []);
  }

  /** The same for an EndpointSlice. */
  setSlice(key: SliceKey, slice: FleetSlice | undefined, version: string, isEvent = true): void {
    const before = this.#slices.get(key);
    if (slice === undefined) this.#slices.delete(key);
    else this.#slices.set(key, slice);
    const added = this.#places.replace(before, slice);
    const service = slice?.service ?? before?.service;
    if (before !== undefined && before.service !== service) {
      this.#stateOf(before.service).slices.delete(key);
      this.#sliceChanged(before.service, version, false, []);
    }
    if (service === undefined) {
      this.#newest = { ...this.#newest, slices: newer(this.#newest.slices, version) };
      return;
    }
    if (slice === undefined) this.#stateOf(service).slices.delete(key);
    else this.#stateOf(service).slices.set(key, slice);
    this.#sliceChanged(service, version, isEvent, added);
  }

  #sliceChanged(service: ServiceKey, version: string, isEvent: boolean, added: readonly FleetEndpoint[]): void {
    const state = this.#stateOf(service);
    state.ready = undefined;
    this.#advance('slices', service, state, version, isEvent);
    this.#changed(service, added);
  }

  /** The first list of a kind is complete up to this version. */
  synced(kind: FleetKind, version: string): void {
    this.#synced.add(kind);
    this.#listed = { ...this.#listed, [kind]: version };
    if (this.isComplete) for (const listener of this.#listeners) listener('', []);
  }

  /**
   * The versions of a kind went back: the API server's store was restored (KEP-5504). All objects are listed again, and nothing is
   * complete until `synced` tells of that list.
   */
  restored(kind: FleetKind): void {
    this.#synced.delete(kind);
    this.#newest = { ...this.#newest, [kind]: '' };
    this.#listed = { ...this.#listed, [kind]: '' };
    for (const state of this.#services.values()) state.newest = { ...state.newest, [kind]: '' };
  }

  /** Why new connections still go to a target, as a sentence; undefined: none do. */
  takes(target: Target): string | undefined {
    return this.#firstReason(this.#placesOf(target));
  }

  /** How a target stands now. Services that had it are remembered for a quarter of an hour. */
  standing(target: Target): Standing {
    const places = this.#placesOf(target);
    const past = target.kind === 'terminating' ? [] : this.#places.past(nameOf(target));
    const services = new Set([...places.map(({ slice }) => slice.service), ...past.map(({ service }) => service)]);
    if (target.kind === 'terminating') services.add(target.service);
    const families = new Set([...places.map(({ slice }) => slice.family), ...past.map(({ family }) => family)]);
    return {
      services: [...services].sort(),
      families: [...families].sort(),
      endpoints: [...new Set(places.map(({ endpoint }) => endpoint.pod || endpoint.address))].sort(),
      takes: this.#firstReason(places),
    };
  }

  #placesOf(target: Target): readonly Place[] {
    if (target.kind !== 'terminating') return this.#places.now(nameOf(target), this.#slices);
    const slices = this.#services.get(target.service)?.slices.values() ?? [];
    return [...slices].flatMap((slice) =>
      slice.endpoints
        .filter(({ terminating, nodeName }) => terminating && nodeName === target.node)
        .map((endpoint) => ({ slice, endpoint })),
    );
  }

  #firstReason(places: readonly Place[]): string | undefined {
    for (const place of places) {
      const reason = this.#reason(place);
      if (reason === undefined) continue;
      return `Service ${place.slice.service} still sends new connections to ${place.endpoint.address}: ${reason}`;
    }
    return undefined;
  }

  #reason({ slice, endpoint }: Place): string | undefined {
    const state = this.#services.get(slice.service);
    if (state?.service === undefined || slice.ports.length === 0) return undefined;
    if (isReady(endpoint)) {
      return endpoint.terminating
        ? 'it counts as ready, because the Service publishes not ready addresses'
        : 'it is ready';
    }
    if (!isDraining(endpoint)) return undefined;
    state.ready ??= readyPorts(state.slices.values());
    const { ready } = state;
    const ports = slice.ports.map((port) => ready.get(portName(slice, port)));
    if (ports.some((port) => !port?.hasAny)) return 'no endpoint is ready, so those that terminate are used';
    const here = endpoint.nodeName;
    if (here === '' || !hasLocalPolicy(state.service) || ports.every((port) => port?.nodes.has(here))) return undefined;
    return `its traffic policy is Local and no endpoint on Node ${here} is ready, so those that terminate are used`;
  }

  #stateOf(key: ServiceKey): ServiceState {
    let state = this.#services.get(key);
    if (state === undefined) {
      state = { service: undefined, slices: new Map(), newest: NONE, ready: undefined };
      this.#services.set(key, state);
    }
    return state;
  }

  #advance(kind: FleetKind, key: ServiceKey, state: ServiceState, version: string, isEvent: boolean): void {
    this.#newest = { ...this.#newest, [kind]: newer(this.#newest[kind], version) };
    state.newest = { ...state.newest, [kind]: newer(state.newest[kind], version) };
    if (state.service === undefined && state.slices.size === 0) this.#services.delete(key);
    if (isEvent && this.isComplete) this.#seen(kind, version, key);
  }

  #changed(service: ServiceKey, added: readonly FleetEndpoint[]): void {
    for (const listener of this.#listeners) listener(service, added);
  }
}

function nameOf(target: Exclude<Target, { kind: 'terminating' }>): string {
  return target.kind === 'pod' ? target.pod : target.address;
}

function portName({ family }: FleetSlice, { name, protocol }: SlicePort): string {
  return `${family}/${portKey(name, protocol)}`;
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
