/** The forms of what the fleet knows of Services and EndpointSlices, and of what is asked about them. */
import type { Address, Family } from '../base/address.ts';
import type { ServiceKey, SliceKey, SlicePort } from '../proxy/model/objects.ts';

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
export type DrainTarget =
  | { readonly kind: 'pod'; readonly pod: string }
  | { readonly kind: 'address'; readonly address: Address }
  | { readonly kind: 'terminating'; readonly service: ServiceKey; readonly node: string };

/** How a target stands in the newest objects. */
export interface TargetState {
  /** Services that have it, or had it until a moment ago; sorted. */
  readonly services: readonly ServiceKey[];
  readonly families: readonly Family[];
  /** Pods, or addresses of endpoints without one, that are in slices now; sorted. */
  readonly endpoints: readonly string[];
  /** Why new connections still go to it, as a sentence; undefined: none do. */
  readonly takes: string | undefined;
}

/** An endpoint in a slice. */
export interface SliceEndpointRef {
  readonly slice: FleetSlice;
  readonly endpoint: FleetEndpoint;
}

/** Calls all that want to hear of something, in the order in which they asked for it. */
export class Listeners<T extends readonly unknown[]> {
  readonly #calls: ((...told: T) => void)[] = [];

  add(call: (...told: T) => void): void {
    this.#calls.push(call);
  }

  tell(...told: T): void {
    for (const call of this.#calls) call(...told);
  }
}
