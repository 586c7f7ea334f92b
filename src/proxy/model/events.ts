/** Events from a source to the cache. Sources decode API objects; no other part of the agent sees them. */
import type { Address, Cidr } from '../../base/address.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice, SliceKey } from './objects.ts';

export type SourceKind = 'services' | 'slices' | 'nodes' | 'servicecidrs';
/** The agent writes nothing before it has the lists of these kinds (docs/architecture.md, invariant 1). */
export const SOURCE_KINDS: readonly SourceKind[] = ['services', 'slices', 'nodes'];

export type SourceEvent =
  /** `service` is undefined when it was deleted, is not for a service proxy, or has a fault for which it is set aside. */
  | {
      readonly kind: 'service';
      readonly key: ServiceKey;
      readonly service: Service | undefined;
      /** metadata.resourceVersion; undefined where the source has none, and for a deletion. */
      readonly resourceVersion?: string;
      readonly faults: readonly Fault[];
    }
  | {
      readonly kind: 'slice';
      readonly key: SliceKey;
      readonly slice: Slice | undefined;
      readonly resourceVersion?: string;
      /** Time of the change, from the slice's annotation, in milliseconds since 1970; 0 when the slice has none. */
      readonly triggeredAt: number;
      readonly faults: readonly Fault[];
    }
  | {
      readonly kind: 'node';
      readonly key: string;
      readonly node: NodeView | undefined;
      readonly resourceVersion?: string;
      readonly faults: readonly Fault[];
    }
  /** A ServiceCIDR: ranges of cluster IPs; undefined when it was deleted. */
  | {
      readonly kind: 'serviceCidr';
      readonly key: string;
      readonly cidrs: readonly Cidr[] | undefined;
      readonly faults: readonly Fault[];
    }
  /** Faults of something other than an object, such as a file. They replace its earlier faults. */
  | { readonly kind: 'faults'; readonly key: string; readonly faults: readonly Fault[] }
  /** The initial list of a kind is complete (invariant 1). */
  | { readonly kind: 'synced'; readonly of: SourceKind }
  /**
   * All changes of a kind up to this resourceVersion were emitted (KEP-5504). "" when the versions went back: earlier ones mean nothing
   * any more.
   */
  | { readonly kind: 'reached'; readonly of: 'services' | 'slices'; readonly resourceVersion: string };

/** Takes events. Called in order, never concurrently. */
export type EventSink = (event: SourceEvent) => void;

/** The state of the watch of a kind. Times are milliseconds of a clock that never goes backwards. */
export interface WatchStatus {
  readonly of: SourceKind | 'manifests';
  /** Time of the server's last message. */
  readonly heardAt: number;
  /** The current failure. `isServers`: the server does not answer, or reports a failure of its own; this node is not the cause. */
  readonly failure: { readonly since: number; readonly isServers: boolean; readonly cause: string } | undefined;
}

/** A Pod, for questions about its traffic. */
export interface SourcePod {
  readonly addresses: readonly Address[];
  /** "" while it is not scheduled. */
  readonly nodeName: string;
}

/** Lists and watches objects, and emits them as events. */
export interface Source {
  /** The watches of all kinds; a source without watches has none. */
  watches?(): readonly WatchStatus[];
  /** Whether the watch of a kind fails now, also of a kind that is not required. */
  cannotFollow?(of: SourceKind): boolean;
  /** Looks a Pod up by `namespace/name`; undefined when there is none. Throws when the API server gives no answer. */
  pod(key: string, signal: AbortSignal): Promise<SourcePod | undefined>;
  /** Emits until the signal aborts, then resolves. Rejects only when retries are useless, for example without the configured file. */
  run(emit: EventSink, signal: AbortSignal): Promise<void>;
}

/** The event of an object that was deleted, or is not for slicewire. */
export function goneEvent(of: SourceKind, key: string): SourceEvent {
  if (of === 'services') return { kind: 'service', key, service: undefined, faults: [] };
  if (of === 'slices') return { kind: 'slice', key, slice: undefined, triggeredAt: 0, faults: [] };
  if (of === 'servicecidrs') return { kind: 'serviceCidr', key, cidrs: undefined, faults: [] };
  return { kind: 'node', key, node: undefined, faults: [] };
}
