/**
 * Finds the Pods of a Service and the Services of a Pod without a search through all of them. Pods are indexed by their labels,
 * Services by the label of their selector that the fewest Services of the namespace have.
 */
import { sameData } from '../../base/equal.ts';
import type { Labels } from '../../proxy/model/labels.ts';
import type { Packed } from '../../proxy/model/packed/bytes.ts';
import type { ObjectKey, PodView, SelectingService } from './api-objects.ts';
import { type Few, Lists, membersOf, withMember, withoutMember } from './few.ts';
import { pack, unpack } from './packing.ts';

/** Without the fields that the key contains. */
type PackedFields = Omit<SelectingService, 'key' | 'namespace' | 'name'>;

interface KeptService {
  readonly kept: Packed<PackedFields>;
  /** The label under which it is indexed; undefined without a selector. */
  readonly listedUnder: string | undefined;
}

/** An index of Pods and Services. Each call returns new objects. */
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
    // In this order an index that both selectors need is not rebuilt.
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

  /** The Services that a change of a Pod affects. `before` is undefined for a new Pod, `after` for a deleted one. */
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

// The Pods of a cluster in little memory. Pods of one workload share their labels and ports, and each has its other fields packed.
// Only labels that some selector names are indexed, because a Pod has many others.

type WorkloadView = Pick<PodView, 'namespace' | 'labels' | 'ports' | 'subdomain'>;
type OwnFields = readonly [
  uid: string,
  addresses: PodView['addresses'],
  hostname: string,
  ready: boolean,
  readySince: number,
  terminating: boolean,
  finished: boolean,
];

/** The fields that the Pods of a workload share. */
interface Workload {
  readonly shared: Packed<WorkloadView>;
  pods: Few<ObjectKey>;
}

interface PodsOnNode {
  readonly name: string;
  pods: Few<ObjectKey>;
}

interface PodRow {
  readonly workload: Workload;
  readonly node: PodsOnNode;
  readonly own: Packed<OwnFields>;
}

/** A label of a selector, in a namespace. */
interface LabelOf {
  readonly namespace: string;
  readonly name: string;
  readonly value: string;
}

/** Workloads by the value of a label, and the number of selectors that name the label. */
interface LabelIndex {
  wanted: number;
  readonly workloads: Lists<Workload>;
}

class PodRows {
  readonly #rows = new Map<ObjectKey, PodRow>();
  readonly #workloads = new Map<Packed<WorkloadView>, Workload>();
  readonly #byLabel = new Map<string, LabelIndex>();
  readonly #nodes = new Map<string, PodsOnNode>();

  get(key: ObjectKey): PodView | undefined {
    const row = this.#rows.get(key);
    return row && viewOf(key, row, unpack(row.workload.shared));
  }

  /** Sets the current Pod; undefined when it was deleted. */
  set(key: ObjectKey, pod: PodView | undefined): void {
    const before = this.#rows.get(key);
    const workload = pod && this.#workloadOf(pod);
    if (before !== undefined && before.workload !== workload) this.#leave(before.workload, key);
    if (before !== undefined && before.node.name !== pod?.nodeName) this.#leaveNode(before.node, key);
    if (pod === undefined || workload === undefined) {
      this.#rows.delete(key);
      return;
    }
    workload.pods = withMember(workload.pods, key);
    const { uid, addresses, hostname, ready, readySince, terminating, finished } = pod;
    const own = pack<OwnFields>([uid, addresses, hostname, ready, readySince, terminating, finished]);
    this.#rows.set(key, { workload, node: this.#joined(pod.nodeName, key), own });
  }

  /** Adds a selector with labels of these names, and indexes the Pods by them. One pass indexes all new names. */
  index(names: readonly string[]): void {
    const added = new Map<string, LabelIndex>();
    for (const name of names) {
      const known = this.#byLabel.get(name);
      if (known === undefined) added.set(name, { wanted: 1, workloads: new Lists() });
      else known.wanted += 1;
    }
    if (added.size === 0) return;
    for (const [name, fresh] of added) this.#byLabel.set(name, fresh);
    for (const workload of this.#workloads.values()) {
      for (const [name, key] of keysOf(unpack(workload.shared))) added.get(name)?.workloads.add(key, workload);
    }
  }

  /** Removes a selector with labels of these names. */
  unindex(names: readonly string[]): void {
    for (const name of names) {
      const known = this.#byLabel.get(name);
      if (known === undefined) continue;
      known.wanted -= 1;
      if (known.wanted === 0) this.#byLabel.delete(name);
    }
  }

  /** The number of workloads with an indexed label. */
  countWith({ namespace, name, value }: LabelOf): number {
    return this.#byLabel.get(name)?.workloads.count(valueKey(namespace, value)) ?? 0;
  }

  /** The Pods with an indexed label, and with labels for which `isMatch` returns true. */
  with({ namespace, name, value }: LabelOf, isMatch: (labels: PodView['labels']) => boolean): PodView[] {
    const found: PodView[] = [];
    for (const { shared: packed, pods } of this.#byLabel.get(name)?.workloads.get(valueKey(namespace, value)) ?? []) {
      const shared = unpack(packed);
      if (!isMatch(shared.labels)) continue;
      for (const key of membersOf(pods)) {
        const row = this.#rows.get(key);
        if (row !== undefined) found.push(viewOf(key, row, shared));
      }
    }
    return found;
  }

  /** The Pods that run on a Node. */
  on(node: string): PodView[] {
    return [...membersOf(this.#nodes.get(node)?.pods)].flatMap((key) => this.get(key) ?? []);
  }

  #workloadOf(pod: PodView): Workload {
    const { namespace, labels, ports, subdomain } = pod;
    const shared = pack<WorkloadView>({ namespace, labels, ports, subdomain });
    const known = this.#workloads.get(shared);
    if (known !== undefined) return known;
    const workload: Workload = { shared, pods: undefined };
    this.#workloads.set(shared, workload);
    for (const [name, key] of keysOf(pod)) this.#byLabel.get(name)?.workloads.add(key, workload);
    return workload;
  }

  #leave(workload: Workload, key: ObjectKey): void {
    workload.pods = withoutMember(workload.pods, key);
    if (workload.pods !== undefined) return;
    this.#workloads.delete(workload.shared);
    for (const [name, key] of keysOf(unpack(workload.shared))) this.#byLabel.get(name)?.workloads.remove(key, workload);
  }

  #joined(nodeName: string, key: ObjectKey): PodsOnNode {
    const node = this.#nodes.get(nodeName) ?? { name: nodeName, pods: undefined };
    node.pods = withMember(node.pods, key);
    this.#nodes.set(node.name, node);
    return node;
  }

  #leaveNode(node: PodsOnNode, key: ObjectKey): void {
    node.pods = withoutMember(node.pods, key);
    if (node.pods === undefined) this.#nodes.delete(node.name);
  }
}

/** The name of each label, and its key in the index of that name. */
function keysOf({ namespace, labels }: Pick<PodView, 'namespace' | 'labels'>): [name: string, key: string][] {
  return Object.entries(labels).map(([name, value]) => [name, valueKey(namespace, value)]);
}

function valueKey(namespace: string, value: string): string {
  return `${namespace}/${value}`;
}

function viewOf(key: ObjectKey, { node, own }: PodRow, { namespace, labels, ports, subdomain }: WorkloadView): PodView {
  const [uid, addresses, hostname, ready, readySince, terminating, finished] = unpack(own);
  const name = key.slice(key.indexOf('/') + 1);
  const its = { uid, addresses, hostname, ready, readySince, terminating, finished };
  return { key, namespace, name, labels, ports, subdomain, nodeName: node.name, ...its };
}
