/** What a source says: the only form in which the world reaches the cache. Sources make them; past `source/` no API object is seen. */
import type { Cidr } from './address.ts';
import type { Fault, NodeView, Service, ServiceKey, Slice, SliceKey } from './objects.ts';

export type SourceKind = 'services' | 'slices' | 'nodes' | 'servicecidrs';
/** Kinds without whose lists nothing is written (invariant 1). */
export const SOURCE_KINDS: readonly SourceKind[] = ['services', 'slices', 'nodes'];

export type SourceEvent =
  /** `service` is undefined when it is gone, is not for a service proxy, or is so broken that it is set aside. */
  | {
      readonly kind: 'service';
      readonly key: ServiceKey;
      readonly service: Service | undefined;
      readonly faults: readonly Fault[];
    }
  | {
      readonly kind: 'slice';
      readonly key: SliceKey;
      readonly slice: Slice | undefined;
      /** When the change happened that the slice tells, as its annotation says; milliseconds since 1970, 0 when it does not say. */
      readonly triggeredAt: number;
      readonly faults: readonly Fault[];
    }
  | {
      readonly kind: 'node';
      readonly key: string;
      readonly node: NodeView | undefined;
      readonly faults: readonly Fault[];
    }
  /** Ranges from which cluster IPs are taken: a ServiceCIDR; undefined when it is gone. */
  | {
      readonly kind: 'serviceCidr';
      readonly key: string;
      readonly cidrs: readonly Cidr[] | undefined;
      readonly faults: readonly Fault[];
    }
  /** Faults of something that is not an object, such as a file; they replace its former ones. */
  | { readonly kind: 'faults'; readonly key: string; readonly faults: readonly Fault[] }
  /** The initial list of a kind is complete (invariant 1). */
  | { readonly kind: 'synced'; readonly of: SourceKind };

/** Where events go. Called in order, never concurrently. */
export type EventSink = (event: SourceEvent) => void;

/** How well a kind can be followed. Times are of the clock that never runs backwards. */
export interface WatchStatus {
  readonly of: SourceKind | 'manifests';
  /** When the server said something last. */
  readonly heardAt: number;
  /** What fails now, since when; `isServers`: no answer came at all, or one that says that the server is ill: nobody's fault here. */
  readonly failure: { readonly since: number; readonly isServers: boolean; readonly cause: string } | undefined;
}

export interface Source {
  /** Of each kind that is watched; a source that watches nobody has none. */
  watches?(): readonly WatchStatus[];
  /** Whether a kind, also one that nothing depends on, cannot be followed now. */
  cannotFollow?(of: SourceKind): boolean;
  /** Emit until the signal aborts; resolves then. Rejects only when going on is pointless, such as a file that is not there. */
  run(emit: EventSink, signal: AbortSignal): Promise<void>;
}

/** The object is gone, or is none of ours. */
export function goneEvent(of: SourceKind, key: string): SourceEvent {
  if (of === 'services') return { kind: 'service', key, service: undefined, faults: [] };
  if (of === 'slices') return { kind: 'slice', key, slice: undefined, triggeredAt: 0, faults: [] };
  if (of === 'servicecidrs') return { kind: 'serviceCidr', key, cidrs: undefined, faults: [] };
  return { kind: 'node', key, node: undefined, faults: [] };
}
