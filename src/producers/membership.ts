/**
 * Finds the Pods of a Service and the Services of a Pod without a search through all of them. Pods are indexed by each of their
 * labels, Services by the label of their selector that the fewest Services of the namespace have.
 */
import { sameData } from '../model/equal.ts';
import type { Labels } from '../model/labels.ts';
import type { ObjectKey, PodView, SelectingService } from './objects.ts';

/** An index of Pods and Services. */
export class Membership {
  readonly #pods = new Map<ObjectKey, PodView>();
  readonly #services = new Map<ObjectKey, SelectingService>();
  readonly #podsByLabel = new Lists();
  readonly #servicesByLabel = new Lists();
  readonly #podsByNode = new Lists();
  /** The label under which each Service is indexed. */
  readonly #listedUnder = new Map<ObjectKey, string>();

  pod(key: ObjectKey): PodView | undefined {
    return this.#pods.get(key);
  }

  service(key: ObjectKey): SelectingService | undefined {
    return this.#services.get(key);
  }

  get services(): Iterable<ObjectKey> {
    return this.#services.keys();
  }

  /** Sets the current Pod, undefined when it was deleted; returns the earlier one. */
  setPod(key: ObjectKey, pod: PodView | undefined): PodView | undefined {
    const before = this.#pods.get(key);
    if (before !== undefined) {
      for (const label of labelKeys(before)) this.#podsByLabel.remove(label, key);
      this.#podsByNode.remove(before.nodeName, key);
      this.#pods.delete(key);
    }
    if (pod !== undefined) {
      for (const label of labelKeys(pod)) this.#podsByLabel.add(label, key);
      this.#podsByNode.add(pod.nodeName, key);
      this.#pods.set(key, pod);
    }
    return before;
  }

  /** Sets the current Service, undefined when it was deleted; returns the earlier one. */
  setService(key: ObjectKey, service: SelectingService | undefined): SelectingService | undefined {
    const before = this.#services.get(key);
    const listed = this.#listedUnder.get(key);
    if (listed !== undefined) this.#servicesByLabel.remove(listed, key);
    this.#listedUnder.delete(key);
    if (service === undefined) this.#services.delete(key);
    else this.#services.set(key, service);
    const under = service === undefined ? undefined : this.#rarest(service, this.#servicesByLabel);
    if (under !== undefined) {
      this.#servicesByLabel.add(under, key);
      this.#listedUnder.set(key, under);
    }
    return before;
  }

  /** The Pods that the Service's selector matches; none without a selector. */
  podsOf(service: SelectingService): PodView[] {
    const under = this.#rarest(service, this.#podsByLabel);
    if (under === undefined) return [];
    const candidates = [...this.#podsByLabel.get(under)].map((key) => this.#pods.get(key));
    return candidates.filter((pod) => pod !== undefined && matches(service.selector, pod.labels)) as PodView[];
  }

  /** The Services whose selector matches these labels. */
  servicesOf({ namespace, labels }: Pick<PodView, 'namespace' | 'labels'>): ObjectKey[] {
    const found: ObjectKey[] = [];
    for (const label of labelKeys({ namespace, labels })) {
      for (const key of this.#servicesByLabel.get(label)) {
        if (matches(this.#services.get(key)?.selector, labels)) found.push(key);
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
    return [...this.#podsByNode.get(node)].map((key) => this.#pods.get(key) as PodView);
  }

  #rarest({ namespace, selector = {} }: SelectingService, lists: Lists): string | undefined {
    let best: string | undefined;
    for (const label of labelKeys({ namespace, labels: selector })) {
      if (best === undefined || lists.get(label).size < lists.get(best).size) best = label;
    }
    return best;
  }
}

function labelKeys({ namespace, labels }: Pick<PodView, 'namespace' | 'labels'>): string[] {
  return Object.entries(labels).map(([name, value]) => `${namespace}/${name}=${value}`);
}

/** An empty selector selects nothing: the API omits empty fields, so it equals no selector. */
function matches(selector: Labels | undefined, labels: Labels): boolean {
  const wanted = Object.entries(selector ?? {});
  return wanted.length > 0 && wanted.every(([name, value]) => labels[name] === value);
}

const NOBODY: ReadonlySet<ObjectKey> = new Set();

/** Sets of keys by name, without empty ones. */
class Lists {
  readonly #lists = new Map<string, Set<ObjectKey>>();

  get(name: string): ReadonlySet<ObjectKey> {
    return this.#lists.get(name) ?? NOBODY;
  }

  add(name: string, key: ObjectKey): void {
    const list = this.#lists.get(name);
    if (list === undefined) this.#lists.set(name, new Set([key]));
    else list.add(key);
  }

  remove(name: string, key: ObjectKey): void {
    const list = this.#lists.get(name);
    list?.delete(key);
    if (list?.size === 0) this.#lists.delete(name);
  }
}
