/** Pods, Services and Nodes as producers of slices read them; a store that takes their writes; and what a consumer makes of it. */
import assert from 'node:assert/strict';
import { type Address, familyOf } from '../../../../src/base/address.ts';
import type {
  PodView,
  SelectingService,
  SliceChanges,
  SliceObject,
  TargetPort,
  ZonedNode,
} from '../../../../src/cluster/producers/api-objects.ts';
import { reconcileSlices, type SlicesResult } from '../../../../src/cluster/producers/slices.ts';
import { TopologyBook } from '../../../../src/cluster/producers/topology.ts';
import { SERVICE_NAME_LABEL } from '../../../../src/proxy/model/labels.ts';

export function portTo(target: number | string, more: Partial<TargetPort> = {}): TargetPort {
  return { name: 'http', protocol: 'TCP', target, appProtocol: undefined, ...more };
}

/** Service `default/web`: IPv4, port http to 8080, of Pods with the label app=web. */
export function serviceView(more: Partial<SelectingService> = {}): SelectingService {
  const name = more.name ?? 'web';
  return {
    key: `default/${name}`,
    namespace: 'default',
    name,
    uid: 'uid-1',
    labels: {},
    createdAt: 0,
    terminating: false,
    selector: { app: 'web' },
    takesEndpoints: 'selector' in more && more.selector === undefined,
    ports: [portTo(8080)],
    families: ['IPv4'],
    isHeadless: false,
    publishNotReady: false,
    wantsTopology: false,
    distribution: undefined,
    ...more,
  };
}

/** Pod `default/pod-N`, ready, with an address of each family, on `node-a`. */
export function podView(n: number, more: Partial<PodView> = {}): PodView {
  const [high, low] = [Math.floor(n / 250), (n % 250) + 1];
  return {
    key: `default/pod-${n}`,
    namespace: 'default',
    name: `pod-${n}`,
    uid: `pod-uid-${n}`,
    labels: { app: 'web' },
    addresses: [`10.244.${high}.${low}`, `fd00:244::${high + 1}:${low}`] as unknown as Address[],
    nodeName: 'node-a',
    hostname: '',
    subdomain: '',
    ports: [],
    ready: true,
    readySince: 0,
    terminating: false,
    finished: false,
    ...more,
  };
}

/** Pods with the numbers from `first` to `last`. */
export function podViews(first: number, last: number, more: Partial<PodView> = {}): PodView[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => podView(first + i, more));
}

/** A ready worker with 4 CPUs. */
export function zonedNode(name: string, zone: string, more: Partial<ZonedNode> = {}): ZonedNode {
  return { name, zone, ready: true, milliCpu: 4000, isControlPlane: false, ...more };
}

export interface Writes {
  readonly create: number;
  readonly update: number;
  readonly remove: number;
}

/** Takes writes as the API server does: gives names and versions, and refuses what it would refuse. */
export class SliceStore {
  readonly #slices = new Map<string, SliceObject>();
  #made = 0;
  #version = 0;

  get all(): SliceObject[] {
    return [...this.#slices.values()];
  }

  /** In the order of the writer: create, update, remove; `look` is called after each. */
  apply({ create, update, remove }: SliceChanges, look: () => void): Writes {
    for (const slice of create) {
      this.#made += 1;
      this.#put({ ...slice, metadata: { ...slice.metadata, name: `${slice.metadata.generateName}${this.#made}` } });
      look();
    }
    for (const slice of update) {
      const before = this.#slices.get(slice.metadata.name ?? '');
      assert.ok(before, `there is no slice ${slice.metadata.name} to update`);
      assert.equal(slice.metadata.resourceVersion, before.metadata.resourceVersion);
      assert.equal(slice.addressType, before.addressType, 'the type of addresses cannot change');
      this.#put(slice);
      look();
    }
    for (const { metadata } of remove) {
      assert.ok(this.#slices.delete(metadata.name ?? ''), `there is no slice ${metadata.name} to remove`);
      look();
    }
    return { create: create.length, update: update.length, remove: remove.length };
  }

  #put(slice: SliceObject): void {
    assert.ok(slice.endpoints.length <= 1000, 'the API server takes at most 1,000 endpoints');
    this.#version += 1;
    const metadata = { ...slice.metadata, resourceVersion: String(this.#version) };
    this.#slices.set(metadata.name ?? '', { ...slice, metadata });
  }
}

/** An endpoint and one of its ports ("-" for none), as text: what is said in slices, or follows from Pods. */
export type EndpointLine = string;

interface LineParts {
  readonly address: string;
  readonly port: string;
  readonly ready: unknown;
  readonly serving: unknown;
  readonly terminating: unknown;
  readonly node: string;
  readonly zone: string;
  readonly hostname: string;
  readonly pod: string;
}

function lineOf(parts: LineParts): EndpointLine {
  const { address, port, ready, serving, terminating, node, zone, hostname, pod } = parts;
  return `${address} ${port} ${pod} ready=${ready} serving=${serving} terminating=${terminating} on=${node} in=${zone} hostname=${hostname}`;
}

/** What a consumer merges from all slices that name the Service, each line once. */
export function consumed(slices: readonly SliceObject[], service: string): EndpointLine[] {
  const lines = slices
    .filter(({ metadata }) => metadata.labels?.[SERVICE_NAME_LABEL] === service)
    .flatMap(({ endpoints, ports }) => {
      const texts = ports.length === 0 ? ['-'] : ports.map(({ name, protocol, port }) => `${name}:${protocol}:${port}`);
      return endpoints.flatMap(({ addresses, conditions, nodeName, zone, hostname, targetRef }) =>
        addresses.flatMap((address) =>
          texts.map((port) =>
            lineOf({
              address,
              port,
              ready: conditions?.ready,
              serving: conditions?.serving,
              terminating: conditions?.terminating,
              node: nodeName ?? '',
              zone: zone ?? '',
              hostname: hostname ?? '',
              pod: targetRef?.uid ?? '',
            }),
          ),
        ),
      );
    });
  return [...new Set(lines)].sort();
}

/** What the Pods say that a consumer should see of the Service: written down apart from the producers. */
export function wanted(
  service: SelectingService,
  pods: Iterable<PodView>,
  nodes: ReadonlyMap<string, ZonedNode>,
): EndpointLine[] {
  const lines: EndpointLine[] = [];
  const selector = Object.entries(service.selector ?? {});
  for (const pod of pods) {
    const isSelected = selector.every(([name, value]) => pod.labels[name] === value);
    if (!isSelected || pod.finished || pod.namespace !== service.namespace) continue;
    const node = nodes.get(pod.nodeName);
    if (node === undefined && !service.publishNotReady) continue;
    const ports = service.ports.flatMap(({ name, protocol, target }) => {
      const named = pod.ports.filter((port) => port.name === target && port.protocol === protocol);
      const number = typeof target === 'number' ? target : named[0]?.port;
      return number === undefined ? [] : [`${name}:${protocol}:${number}`];
    });
    for (const address of pod.addresses) {
      if (!service.families.includes(familyOf(address))) continue;
      for (const port of ports.length === 0 ? ['-'] : ports) {
        lines.push(
          lineOf({
            address,
            port,
            ready: service.publishNotReady || (pod.ready && !pod.terminating),
            serving: pod.ready,
            terminating: pod.terminating,
            node: pod.nodeName,
            zone: node?.zone ?? '',
            hostname: pod.subdomain === service.name ? pod.hostname : '',
            pod: pod.uid,
          }),
        );
      }
    }
  }
  return [...new Set(lines)].sort();
}

/** Ports by address, and by address and Pod: two Pods may have one address, one after the other or at once. */
function portsOf(lines: readonly EndpointLine[]) {
  const found = { byAddress: new Map<string, Set<string>>(), byPod: new Map<string, Set<string>>() };
  const add = (to: Map<string, Set<string>>, key: string, port: string) =>
    to.set(key, (to.get(key) ?? new Set()).add(port));
  for (const line of lines) {
    const [address = '', port = '', pod = ''] = line.split(' ');
    add(found.byAddress, address, port);
    add(found.byPod, `${address} of ${pod}`, port);
  }
  return found;
}

/**
 * To be called between writes that lead to `end`: a Pod that was there and stays has all ports that it had, or all that it
 * is to have; an address some of them.
 */
export function gapWatch(store: SliceStore, service: string, end: readonly EndpointLine[]): () => void {
  const [before, after] = [portsOf(consumed(store.all, service)), portsOf(end)];
  return () => {
    const now = portsOf(consumed(store.all, service));
    for (const [pod, had] of before.byPod) {
      const [has, gets] = [now.byPod.get(pod) ?? new Set(), after.byPod.get(pod)];
      const isMissed = gets !== undefined && !has.isSupersetOf(had) && !has.isSupersetOf(gets);
      assert.ok(!isMissed, `${pod} is missed: it has ${[...has]}`);
    }
    for (const address of before.byAddress.keys()) {
      const isMissed = after.byAddress.has(address) && !now.byAddress.has(address);
      assert.ok(!isMissed, `${address} is missed`);
    }
  };
}

/** A Service, its Pods and its slices: a test changes the first two, and `sync` follows, looked at after every write. */
export class ServiceStory {
  service: SelectingService;
  pods: PodView[];
  mostPerSlice = 100;
  readonly nodes = new Map([['node-a', zonedNode('node-a', 'zone-a')]]);
  readonly store = new SliceStore();
  readonly topology = new TopologyBook();

  constructor(service: SelectingService, pods: readonly PodView[]) {
    this.service = service;
    this.pods = [...pods];
  }

  get sizes(): number[] {
    return this.store.all.map(({ endpoints }) => endpoints.length);
  }

  reconcile(): SlicesResult {
    const { service, topology, mostPerSlice } = this;
    const selector = Object.entries(service.selector ?? {});
    const pods = this.pods.filter(({ labels }) => selector.every(([name, value]) => labels[name] === value));
    const node = (name: string) => this.nodes.get(name);
    return reconcileSlices({ service, pods, existing: this.store.all, node, topology, mostPerSlice });
  }

  /** Reconciles and writes. No endpoint is missed between two writes, the outcome is right, and nothing is left to do. */
  sync(): SlicesResult & { readonly writes: Writes } {
    const end = wanted(this.service, this.pods, this.nodes);
    const result = this.reconcile();
    const writes = this.store.apply(result.changes, gapWatch(this.store, this.service.name, end));
    if (this.service.terminating) return { ...result, writes };
    assert.deepEqual(consumed(this.store.all, this.service.name), end);
    this.#assertEachOnce();
    const { changes, notices } = this.reconcile();
    assert.deepEqual({ ...changes, notices }, { create: [], update: [], remove: [], notices: [] }, 'nothing is left');
    assert.equal(this.store.all.length, result.counts.slices);
    return { ...result, writes };
  }

  #assertEachOnce(): void {
    const seen = new Set<string>();
    for (const { endpoints, ports, addressType } of this.store.all) {
      for (const { addresses, targetRef } of endpoints) {
        const id = JSON.stringify([addressType, ports, addresses, targetRef]);
        assert.ok(!seen.has(id), `${id} stands twice`);
        seen.add(id);
      }
    }
  }
}
