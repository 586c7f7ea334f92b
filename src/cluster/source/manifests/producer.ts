/**
 * Makes slices for a folder of manifests from its Pods, and from hand-written Endpoints, as the controllers of a cluster
 * write them. Their names are invalid in a manifest, so they never clash.
 */

import type { SourceEvent } from '../../../proxy/model/events.ts';
import { goneEvent } from '../../../proxy/model/events.ts';
import type { Fault } from '../../../proxy/model/objects.ts';
import { decodeSlice } from '../../api/decode/slice.ts';
import type {
  EndpointsObject,
  Notice,
  ObjectKey,
  PodView,
  SelectingService,
  SliceChanges,
  SliceObject,
  ZonedNode,
} from '../../producers/api-objects.ts';
import { Membership } from '../../producers/membership.ts';
import { reconcileMirror } from '../../producers/mirror.ts';
import { reconcileSlices } from '../../producers/slices.ts';
import { TopologyBook, zoneShares } from '../../producers/topology.ts';

/** An object that slices are made from; the value is undefined when the object is gone. */
export type Input =
  | { readonly kind: 'Pod'; readonly value: PodView | undefined }
  | { readonly kind: 'Service'; readonly value: SelectingService | undefined }
  | { readonly kind: 'Node'; readonly value: ZonedNode | undefined }
  | { readonly kind: 'Endpoints'; readonly value: EndpointsObject | undefined };

/** Defaults of kube-controller-manager. */
const MAX_PER_SLICE = 100;
const MAX_PER_SUBSET = 1000;

export class ManifestProducer {
  readonly #emit: (event: SourceEvent) => void;
  readonly #members = new Membership();
  readonly #nodes = new Map<string, ZonedNode>();
  readonly #endpoints = new Map<ObjectKey, EndpointsObject>();
  readonly #topology = new TopologyBook();
  /** Slices of each Service: those of its Pods, and those of the Endpoints with its name. */
  readonly #made = { pods: new Map<ObjectKey, SliceObject[]>(), mirror: new Map<ObjectKey, SliceObject[]>() };
  readonly #touched = new Set<ObjectKey>();
  readonly #explained = new Set<string>();
  #nodesTouched = false;
  #count = 0;

  constructor(emit: (event: SourceEvent) => void) {
    this.#emit = emit;
  }

  set(key: ObjectKey, { kind, value }: Input): void {
    if (kind === 'Pod') {
      const before = this.#members.setPod(key, value);
      for (const service of this.#members.touchedBy(before, value)) this.#touched.add(service);
    } else if (kind === 'Service') {
      this.#members.setService(key, value);
      this.#touched.add(key);
    } else if (kind === 'Endpoints') {
      if (value === undefined) this.#endpoints.delete(key);
      else this.#endpoints.set(key, value);
      this.#touched.add(key);
    } else {
      if (value === undefined) this.#nodes.delete(key);
      else this.#nodes.set(key, value);
      this.#nodesTouched = true;
      for (const pod of this.#members.podsOn(key))
        for (const service of this.#members.servicesOf(pod)) this.#touched.add(service);
    }
  }

  /** Makes slices of the inputs since the last call, and emits those that changed. */
  flush(): void {
    if (this.#nodesTouched) {
      for (const key of this.#topology.setShares(zoneShares(this.#nodes.values()))) this.#touched.add(key);
    }
    this.#nodesTouched = false;
    for (const key of this.#touched) {
      this.#ofPods(key);
      this.#mirror(key);
    }
    this.#touched.clear();
  }

  #ofPods(key: ObjectKey): void {
    const service = this.#members.service(key);
    const existing = this.#made.pods.get(key) ?? [];
    if (service?.selector === undefined) {
      this.#topology.forget(key);
      this.#write(key, 'pods', { create: [], update: [], remove: existing });
      return;
    }
    const { changes, notices } = reconcileSlices({
      service,
      pods: this.#members.podsOf(service),
      existing,
      // A folder need not list the Nodes that its Pods run on.
      node: (name) => this.#nodes.get(name) ?? { name, zone: '', ready: true, milliCpu: 0, isControlPlane: false },
      topology: this.#topology,
      mostPerSlice: MAX_PER_SLICE,
    });
    this.#write(key, 'pods', changes);
    this.#explain('Service', key, notices);
  }

  #mirror(key: ObjectKey): void {
    const { changes, notices } = reconcileMirror({
      endpoints: this.#endpoints.get(key),
      service: this.#members.service(key),
      existing: this.#made.mirror.get(key) ?? [],
      mostPerSubset: MAX_PER_SUBSET,
    });
    this.#write(key, 'mirror', changes);
    this.#explain('Endpoints', key, notices);
  }

  /** Emits the producer's warnings about one object as faults. */
  #explain(kind: 'Service' | 'Endpoints', object: ObjectKey, notices: readonly Notice[]): void {
    const warnings = notices.filter(({ type }) => type === 'Warning');
    const faults = warnings.map(
      ({ note }): Fault => ({ kind, object, field: '', value: '', problem: note, effect: 'part left out' }),
    );
    if (faults.length === 0 && !this.#explained.delete(`${kind} ${object}`)) return;
    if (faults.length > 0) this.#explained.add(`${kind} ${object}`);
    this.#emit({ kind: 'faults', key: `slices of ${kind} ${object}`, faults });
  }

  #write(key: ObjectKey, from: 'pods' | 'mirror', { create, update, remove }: SliceChanges): void {
    const made = new Map((this.#made[from].get(key) ?? []).map((slice) => [slice.metadata.name, slice]));
    for (const slice of create) {
      this.#count += 1;
      // A name with a tilde is invalid in a manifest.
      const named = {
        ...slice,
        metadata: { ...slice.metadata, name: `${slice.metadata.generateName}~${this.#count}` },
      };
      made.set(named.metadata.name, named);
      this.#emitSlice(named);
    }
    for (const slice of update) {
      made.set(slice.metadata.name, slice);
      this.#emitSlice(slice);
    }
    for (const slice of remove) {
      made.delete(slice.metadata.name);
      this.#emit(goneEvent('slices', sliceKey(slice)));
    }
    if (made.size > 0) this.#made[from].set(key, [...made.values()]);
    else this.#made[from].delete(key);
  }

  /** Emits a slice; an empty one is emitted as gone. */
  #emitSlice(slice: SliceObject): void {
    const key = sliceKey(slice);
    this.#emit(slice.endpoints.length === 0 ? goneEvent('slices', key) : decodeSlice(slice, key));
  }
}

function sliceKey({ metadata }: SliceObject): ObjectKey {
  return `${metadata.namespace}/${metadata.name}`;
}
