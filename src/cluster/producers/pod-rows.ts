/**
 * The Pods of a cluster in little memory. Pods of one workload share their labels and ports; what each has of its own is packed.
 * Labels are an index: but only labels of names that some selector has, since a Pod has many others.
 */

import type { Packed } from '../../proxy/model/packed/bytes.ts';
import type { ObjectKey, PodView } from './api-objects.ts';
import { type Few, Lists, membersOf, withMember, withoutMember } from './few.ts';
import { pack } from './packing.ts';
import { unpack } from './unpacking.ts';

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

/** What the Pods of a workload have in common. */
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

/** A label as a selector wants it. */
export interface LabelOf {
  readonly namespace: string;
  readonly name: string;
  readonly value: string;
}

/** Workloads by the value of a label, and how many selectors want a label of that name. */
interface LabelIndex {
  wanted: number;
  readonly workloads: Lists<Workload>;
}

export class PodRows {
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

  /** A selector with labels of these names is there: the Pods are found by them from now on. One pass, however many names. */
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

  /** A selector with labels of these names is gone. */
  unindex(names: readonly string[]): void {
    for (const name of names) {
      const known = this.#byLabel.get(name);
      if (known === undefined) continue;
      known.wanted -= 1;
      if (known.wanted === 0) this.#byLabel.delete(name);
    }
  }

  /** The number of workloads with a label that is an index. */
  countWith({ namespace, name, value }: LabelOf): number {
    return this.#byLabel.get(name)?.workloads.count(valueKey(namespace, value)) ?? 0;
  }

  /** The Pods with a label that is an index, and with labels for which `isMeant` returns true. */
  with({ namespace, name, value }: LabelOf, isMeant: (labels: PodView['labels']) => boolean): PodView[] {
    const found: PodView[] = [];
    for (const { shared: packed, pods } of this.#byLabel.get(name)?.workloads.get(valueKey(namespace, value)) ?? []) {
      const shared = unpack(packed);
      if (!isMeant(shared.labels)) continue;
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
