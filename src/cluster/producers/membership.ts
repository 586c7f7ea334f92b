/**
 * Finds the Pods of a Service and the Services of a Pod without a search through all of them. Pods are indexed by their labels,
 * Services by the label of their selector that the fewest Services of the namespace have.
 */
import { sameData } from '../../base/equal.ts';
import type { Labels } from '../../proxy/model/labels.ts';
import type { Packed } from '../../proxy/model/packed/bytes.ts';
import type { ObjectKey, PodView, SelectingService } from './api-objects.ts';
import { Lists } from './few.ts';
import { pack } from './packing.ts';
import { type LabelOf, PodRows } from './pod-rows.ts';
import { unpack } from './unpacking.ts';

/** Without what its key says. */
type PackedFields = Omit<SelectingService, 'key' | 'namespace' | 'name'>;

interface KeptService {
  readonly kept: Packed<PackedFields>;
  /** The label under which it is indexed; undefined without a selector. */
  readonly listedUnder: string | undefined;
}

/** An index of Pods and Services. What it returns is new each time. */
export class Membership {
  readonly #pods = new PodRows();
  readonly #services = new Map<ObjectKey, KeptService>();
  readonly #servicesByLabel = new Lists<ObjectKey>();

  pod(key: ObjectKey): PodView | undefined {
    return this.#pods.get(key);
  }

  service(key: ObjectKey): SelectingService | undefined {
    const row = this.#services.get(key);
    if (row === undefined) return undefined;
    const slash = key.indexOf('/');
    return { key, namespace: key.slice(0, slash), name: key.slice(slash + 1), ...unpack(row.kept) };
  }

  get services(): Iterable<ObjectKey> {
    return this.#services.keys();
  }

  /** Sets the current Pod, undefined when it was deleted; returns the earlier one. */
  setPod(key: ObjectKey, pod: PodView | undefined): PodView | undefined {
    const before = this.#pods.get(key);
    this.#pods.set(key, pod);
    return before;
  }

  /** Sets the current Service, undefined when it was deleted; returns the earlier one. */
  setService(key: ObjectKey, service: SelectingService | undefined): SelectingService | undefined {
    const before = this.service(key);
    const listed = this.#services.get(key)?.listedUnder;
    if (listed !== undefined) this.#servicesByLabel.remove(listed, key);
    if (service === undefined) this.#services.delete(key);
    else {
      const under = rarest(service, (label) => this.#servicesByLabel.count(keyOf(label)));
      const listedUnder = under && keyOf(under);
      const { key: _, namespace: _namespace, name: _name, ...kept } = service;
      this.#services.set(key, { kept: pack(kept), listedUnder });
      if (listedUnder !== undefined) this.#servicesByLabel.add(listedUnder, key);
    }
    // In this order an index that both need stays.
    this.#pods.index(Object.keys(service?.selector ?? {}));
    this.#pods.unindex(Object.keys(before?.selector ?? {}));
    return before;
  }

  /** The Pods that the selector matches, none without a selector. The Service must have been set with this selector. */
  podsOf(service: SelectingService): PodView[] {
    const under = rarest(service, (label) => this.#pods.countWith(label));
    return under === undefined ? [] : this.#pods.with(under, (labels) => matches(service.selector, labels));
  }

  /** The Services whose selector matches these labels. */
  servicesOf({ namespace, labels }: Pick<PodView, 'namespace' | 'labels'>): ObjectKey[] {
    const found: ObjectKey[] = [];
    for (const label of labelsOf(namespace, labels)) {
      for (const key of this.#servicesByLabel.get(keyOf(label))) {
        if (matches(this.service(key)?.selector, labels)) found.push(key);
      }
    }
    return found;
  }

  /** The Services that a change of a Pod concerns. `before` is undefined for a new Pod, `after` for a deleted one. */
  touchedBy(before: PodView | undefined, after: PodView | undefined): Set<ObjectKey> {
    const was = new Set(before && this.servicesOf(before));
    const is = new Set(after && this.servicesOf(after));
    const onlyLabels = before && after && sameData({ ...before, labels: {} }, { ...after, labels: {} });
    return onlyLabels ? was.symmetricDifference(is) : was.union(is);
  }

  /** The Pods that run on a Node. */
  podsOn(node: string): PodView[] {
    return this.#pods.on(node);
  }
}

function labelsOf(namespace: string, labels: Labels): LabelOf[] {
  return Object.entries(labels).map(([name, value]) => ({ namespace, name, value }));
}

function keyOf({ namespace, name, value }: LabelOf): string {
  return `${namespace}/${name}=${value}`;
}

/** The label of the selector with the smallest count; undefined without a selector. */
function rarest(
  { namespace, selector = {} }: SelectingService,
  count: (label: LabelOf) => number,
): LabelOf | undefined {
  let best: { readonly label: LabelOf; readonly count: number } | undefined;
  for (const label of labelsOf(namespace, selector)) {
    const its = count(label);
    if (best === undefined || its < best.count) best = { label, count: its };
  }
  return best?.label;
}

/** An empty selector selects nothing: the API omits empty fields, so it equals no selector. */
function matches(selector: Labels | undefined, labels: Labels): boolean {
  const wanted = Object.entries(selector ?? {});
  return wanted.length > 0 && wanted.every(([name, value]) => labels[name] === value);
}
