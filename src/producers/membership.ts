/**
 * Which Pods a Service selects, and which Services select a Pod, without a walk over either: Pods are listed by each of
 * their labels, Services by that label of their selector which the fewest Services of the namespace ask for.
 */
import { sameData } from '../model/equal.ts';
import type { Labels } from '../model/labels.ts';
import type { ObjectKey, PodView, SelectingService } from './objects.ts';

export class Membership {
  readonly #pods = new Map<ObjectKey, PodView>();
  readonly #services = new Map<ObjectKey, SelectingService>();
  readonly #podsByLabel = new Lists();
  readonly #servicesByLabel = new Lists();
  readonly #podsByNode = new Lists();
  /** Under which label each Service is listed. */
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

  /** Takes the Pod as it is now, undefined for gone; returns what it was. */
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

  /** Takes the Service as it is now, undefined for gone; returns what it was. */
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

  /** The Services for which a change of a Pod is one; undefined: it was not there before, or is gone. */
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

/** An empty selector selects nothing here: the API leaves out what is empty, and then it is none. */
function matches(selector: Labels | undefined, labels: Labels): boolean {
  const wanted = Object.entries(selector ?? {});
  return wanted.length > 0 && wanted.every(([name, value]) => labels[name] === value);
}

const NOBODY: ReadonlySet<ObjectKey> = new Set();

/** Sets of keys by name; an empty one is none. */
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
