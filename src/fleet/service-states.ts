/** Services with their slices, and whether an endpoint of them takes new connections (KEP-1669). Pure. */
import type { Family } from '../base/address.ts';
import { portKey } from '../proxy/model/endpoints.ts';
import type { Service, ServiceKey, SliceKey, SlicePort } from '../proxy/model/objects.ts';
import { newer } from '../proxy/model/resource-version.ts';
import { isDraining, isReady } from '../proxy/model/selection-reasons.ts';
import { hasLocalPolicy } from '../proxy/model/service-port.ts';
import type { FleetKind, FleetSlice, SliceEndpointRef, Versions } from './types.ts';

interface TrackedService {
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

export class ServiceStates {
  readonly #states = new Map<ServiceKey, TrackedService>();

  /** The newest versions of a Service and of its slices; undefined: there is neither. */
  newestOf(service: ServiceKey): Versions | undefined {
    return this.#states.get(service)?.newest;
  }

  /** Whether there is the Service, and proxies serve it. */
  has(service: ServiceKey): boolean {
    return this.#states.get(service)?.service !== undefined;
  }

  /** Families of which a Service has slices; sorted. */
  familiesOf(service: ServiceKey): readonly Family[] {
    return [...new Set(this.slicesOf(service).map(({ family }) => family))].sort();
  }

  slicesOf(service: ServiceKey): readonly FleetSlice[] {
    return [...(this.#states.get(service)?.slices.values() ?? [])];
  }

  setService(key: ServiceKey, service: Service | undefined, version: string): void {
    const state = this.#stateOf(key);
    state.service = service;
    this.#advance('services', key, state, version);
  }

  /** `slice` undefined: the Service has it no more. */
  setSlice(service: ServiceKey, key: SliceKey, slice: FleetSlice | undefined, version: string): void {
    const state = this.#stateOf(service);
    if (slice === undefined) state.slices.delete(key);
    else state.slices.set(key, slice);
    state.ready = undefined;
    this.#advance('slices', service, state, version);
  }

  /** The versions of a kind went back. */
  restored(kind: FleetKind): void {
    for (const state of this.#states.values()) state.newest = { ...state.newest, [kind]: '' };
  }

  /** Why an endpoint takes new connections, as a sentence without its end; undefined: it takes none. */
  takes({ slice, endpoint }: SliceEndpointRef): string | undefined {
    const state = this.#states.get(slice.service);
    if (state?.service === undefined || slice.ports.length === 0) return undefined;
    const says = (why: string) => `Service ${slice.service} still sends new connections to ${endpoint.address}: ${why}`;
    if (isReady(endpoint)) {
      return says(
        endpoint.terminating ? 'it counts as ready, because the Service publishes not ready addresses' : 'it is ready',
      );
    }
    if (!isDraining(endpoint)) return undefined;
    state.ready ??= readyPorts(state.slices.values());
    const { ready } = state;
    const ports = slice.ports.map((port) => ready.get(portName(slice, port)));
    if (ports.some((port) => !port?.hasAny)) return says('no endpoint is ready, so those that terminate are used');
    const here = endpoint.nodeName;
    if (here === '' || !hasLocalPolicy(state.service) || ports.every((port) => port?.nodes.has(here))) return undefined;
    return says(
      `its traffic policy is Local and no endpoint on Node ${here} is ready, so those that terminate are used`,
    );
  }

  #stateOf(key: ServiceKey): TrackedService {
    let state = this.#states.get(key);
    if (state === undefined) {
      state = { service: undefined, slices: new Map(), newest: { services: '', slices: '' }, ready: undefined };
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
