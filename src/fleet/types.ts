/** The forms that the parts of the fleet pass to each other, and how they hear of changes. Pure. */
import type { Address, Family } from '../base/address.ts';
import type { ServiceKey, SliceKey, SlicePort } from '../proxy/model/objects.ts';

export interface FleetEndpoint {
  readonly address: Address;
  /** `namespace/name` of the Pod in its targetRef; "" for none. */
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

/** An endpoint with its slice. */
export interface SliceEndpointRef {
  readonly slice: FleetSlice;
  readonly endpoint: FleetEndpoint;
}

export type FleetKind = 'services' | 'slices';

/** resourceVersions by kind; "" for none. */
export type Versions = Readonly<Record<FleetKind, string>>;

export const NO_VERSIONS: Versions = { services: '', slices: '' };

/** The subject of a question: the endpoints of a Pod, those at an address, or those of a Service on a Node that terminate. */
export type DrainTarget =
  | { readonly kind: 'pod'; readonly pod: string }
  | { readonly kind: 'address'; readonly address: Address }
  | { readonly kind: 'terminating'; readonly service: ServiceKey; readonly node: string };

/** A target by the newest objects. */
export interface TargetState {
  /** Services that have it, or had it until a moment ago; sorted. */
  readonly services: readonly ServiceKey[];
  readonly families: readonly Family[];
  /** Pods, or addresses of endpoints without one, that are in slices now; sorted. */
  readonly endpoints: readonly string[];
  /** The reason why new connections still go to it, as a sentence; undefined when none do. */
  readonly takes: string | undefined;
}

/** An endpoint that terminates. */
export interface Ending {
  /** Its Pod, or its address. */
  readonly endpoint: string;
  /** When the fleet saw that it terminates, in milliseconds of the clock. */
  readonly since: number;
}

/** Calls its listeners in the order in which they were added. */
export class Listeners<T extends readonly unknown[]> {
  readonly #calls: ((...args: T) => void)[] = [];

  add(call: (...args: T) => void): void {
    this.#calls.push(call);
  }

  emit(...args: T): void {
    for (const call of this.#calls) call(...args);
  }
}
