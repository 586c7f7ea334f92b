/**
 * Random histories of Pods, Services and Nodes: after each step the slices match the Pods, as when they are built from nothing, and
 * nothing is left to write. fast-check prints the seed and the shortest history of a failure.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type {
  ObjectKey,
  PodView,
  SelectingService,
  SliceObject,
  ZonedNode,
} from '../../../src/cluster/producers/api-objects.ts';
import { Membership } from '../../../src/cluster/producers/membership.ts';
import { reconcileSlices, type SlicesResult } from '../../../src/cluster/producers/slices.ts';
import { TopologyBook, zoneShares } from '../../../src/cluster/producers/topology.ts';
import { TRAFFIC_DISTRIBUTIONS } from '../../../src/proxy/model/objects.ts';
import {
  consumed,
  gapWatch,
  podView,
  portTo,
  SliceStore,
  serviceView,
  wanted,
  zonedNode,
} from '../../helpers/cluster/producers/producing.ts';

const RUNS = 250;
const LONGEST = 50;
const LIMITS = [2, 3, 5] as const;

type Step =
  | { readonly kind: 'pod'; readonly key: ObjectKey; readonly pod: PodView | undefined }
  | { readonly kind: 'service'; readonly key: ObjectKey; readonly service: SelectingService | undefined }
  | { readonly kind: 'node'; readonly name: string; readonly node: ZonedNode | undefined }
  | { readonly kind: 'limit'; readonly mostPerSlice: number };

const rarely = fc.constantFrom(false, false, false, false, true);
const often = fc.constantFrom(true, true, true, false);
const aNumber = fc.integer({ min: 1, max: 9 });
const aNodeName = fc.constantFrom('node-1', 'node-2', 'node-3', 'node-4');

const aPod = fc
  .record({
    n: aNumber,
    labels: fc.constantFrom({ app: 'a' }, { app: 'a', tier: 'x' }, { app: 'b', tier: 'x' }),
    // Sometimes the address of another Pod.
    address: fc.option(aNumber, { nil: undefined, freq: 4 }),
    families: fc.constantFrom([0, 2], [0, 2], [0, 1], [1, 2], [0, 0]),
    nodeName: aNodeName,
    hostname: fc.constantFrom('', '', 'host'),
    main: fc.constantFrom(8080, 8080, 9090, undefined),
    ready: often,
    terminating: rarely,
    finished: rarely,
  })
  .map(({ n, address = n, families: [from, to], main, ...more }): Step => {
    const pod = podView(n, {
      ...more,
      addresses: podView(address).addresses.slice(from, to),
      subdomain: 'one',
      ports: main === undefined ? [] : [{ name: 'main', protocol: 'TCP', port: main }],
    });
    return { kind: 'pod', key: pod.key, pod };
  });

const aService = fc
  .record({
    name: fc.constantFrom('one', 'two'),
    uid: fc.constantFrom('uid-1', 'uid-1', 'uid-1', 'uid-2'),
    selector: fc.constantFrom({ app: 'a' }, { app: 'b' }, { tier: 'x' }, { app: 'a', tier: 'x' }),
    ports: fc.subarray([portTo(8080), portTo('main', { name: 'named' }), portTo(7070, { name: 'admin' })]),
    families: fc.constantFrom(['IPv4'], ['IPv4', 'IPv6'], ['IPv6'], ['IPv6', 'IPv4']),
    labels: fc.constantFrom({}, { version: '1' }, { version: '2' }),
    isHeadless: fc.boolean(),
    publishNotReady: rarely,
    wantsTopology: fc.boolean(),
    distribution: fc.constantFrom(undefined, ...TRAFFIC_DISTRIBUTIONS),
  })
  .map(({ families, ...more }): Step => {
    const service = serviceView({ ...more, families: families as SelectingService['families'] });
    return { kind: 'service', key: service.key, service };
  });

const aNode = fc
  .record({
    name: aNodeName,
    zone: fc.constantFrom('a', 'b', 'b', 'c', ''),
    ready: often,
    milliCpu: fc.constantFrom(1000, 2000, 4000),
    isControlPlane: rarely,
  })
  .map(({ name, zone, ...more }): Step => ({ kind: 'node', name, node: zonedNode(name, zone, more) }));

const aStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: aPod },
  { weight: 3, arbitrary: aService },
  { weight: 4, arbitrary: aNode },
  { weight: 2, arbitrary: aNumber.map((n): Step => ({ kind: 'pod', key: podView(n).key, pod: undefined })) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('one', 'two')
      .map((name): Step => ({ kind: 'service', key: serviceView({ name }).key, service: undefined })),
  },
  { weight: 1, arbitrary: aNodeName.map((name): Step => ({ kind: 'node', name, node: undefined })) },
  { weight: 1, arbitrary: fc.constantFrom(...LIMITS).map((mostPerSlice): Step => ({ kind: 'limit', mostPerSlice })) },
);

/** The beginning of each history: three zones, two Services, and a Pod of each kind on each Node. */
const BEGINNING: readonly Step[] = [
  ...['a', 'b', 'b', 'c'].map((zone, i): Step => {
    const name = `node-${i + 1}`;
    return { kind: 'node', name, node: zonedNode(name, zone) };
  }),
  ...['one', 'two'].map((name, i): Step => {
    const service = serviceView({ name, selector: { app: 'ab'.charAt(i) }, wantsTopology: true });
    return { kind: 'service', key: service.key, service };
  }),
  ...[1, 2, 3, 4, 5, 6, 7, 8].map((n): Step => {
    const labels = { app: 'ab'.charAt(n % 2), tier: 'x' };
    const pod = podView(n, { labels, nodeName: `node-${Math.ceil(n / 2)}`, subdomain: 'one' });
    return { kind: 'pod', key: pod.key, pod };
  }),
];

/** Handles only the Services that a change concerns, as the controller does. */
class Kept {
  readonly members = new Membership();
  readonly nodes = new Map<string, ZonedNode>();
  readonly topology = new TopologyBook();
  readonly stores = new Map<ObjectKey, SliceStore>();
  readonly #due = new Set<ObjectKey>();
  /** A Pod has the address of another one, or had it a step ago. */
  #trades = false;
  mostPerSlice: number = LIMITS[1];

  take(step: Step): void {
    const { members, nodes } = this;
    if (step.kind === 'limit') this.mostPerSlice = step.mostPerSlice;
    if (step.kind === 'pod') {
      this.#concerns(members.touchedBy(members.setPod(step.key, step.pod), step.pod));
      this.#trades ||= step.pod !== undefined && hasAddressOfAnother(step.pod);
    }
    if (step.kind === 'service') {
      members.setService(step.key, step.service);
      this.#concerns([step.key]);
    }
    if (step.kind === 'node') {
      if (step.node === undefined) nodes.delete(step.name);
      else nodes.set(step.name, step.node);
      for (const pod of members.podsOn(step.name)) this.#concerns(members.servicesOf(pod));
      this.#concerns(this.topology.setShares(zoneShares(nodes.values())));
    }
  }

  /** Returns the Services that it handled. */
  sync(): SelectingService[] {
    const due = [...this.#due];
    this.#due.clear();
    const looked = due.flatMap((key) => {
      const service = this.members.service(key);
      if (service === undefined) {
        this.stores.delete(key);
        this.topology.forget(key);
        return [];
      }
      const store = this.stores.get(key) ?? new SliceStore();
      this.stores.set(key, store);
      const { changes, onUnknownNode } = this.reconcile(service);
      const end = this.wantedOf(service);
      // Pods that swap addresses or named ports form a circle: every order of writes has a gap.
      const mayCircle = this.#trades || service.ports.some(({ target }) => typeof target === 'string');
      store.apply(changes, mayCircle ? () => undefined : gapWatch(store, service.name, end));
      if (service.wantsTopology) this.#settleHints(service, store);
      for (const { nodeName } of onUnknownNode) assert.ok(!this.nodes.has(nodeName));
      return [service];
    });
    this.#trades = this.pods.some(hasAddressOfAnother);
    return looked;
  }

  /** Hints of unchanged slices may not fit those of written ones: the next sync corrects them. */
  #settleHints(service: SelectingService, store: SliceStore): void {
    const { changes, notices } = this.reconcile(service);
    assert.deepEqual([changes.create, changes.remove, notices], [[], [], []]);
    store.apply(changes, () => undefined);
  }

  reconcile(service: SelectingService, store = this.stores.get(service.key), topology = this.topology): SlicesResult {
    const { members, nodes, mostPerSlice } = this;
    const pods = members.podsOf(service);
    const node = (name: string) => nodes.get(name);
    return reconcileSlices({ service, pods, existing: store?.all ?? [], node, topology, mostPerSlice });
  }

  wantedOf(service: SelectingService): string[] {
    return wanted(service, this.pods, this.nodes);
  }

  /** All Pods, one by one, without the index of Services. */
  get pods(): PodView[] {
    return Array.from({ length: 9 }, (_, i) => this.members.pod(podView(i + 1).key)).filter((pod) => pod !== undefined);
  }

  get services(): SelectingService[] {
    return [...this.members.services]
      .map((key) => this.members.service(key))
      .filter((service) => service !== undefined);
  }

  /** The Service's slices from a producer without history. */
  fromNothing(service: SelectingService): SliceStore {
    const topology = new TopologyBook();
    topology.setShares(zoneShares(this.nodes.values()));
    const store = new SliceStore();
    store.apply(this.reconcile(service, store, topology).changes, () => undefined);
    return store;
  }

  #concerns(keys: Iterable<ObjectKey>): void {
    for (const key of keys) this.#due.add(key);
  }
}

function hasAddressOfAnother({ key, addresses }: PodView): boolean {
  const own = podView(Number(key.slice('default/pod-'.length))).addresses;
  return addresses.some((address) => !own.includes(address));
}

function hintLines(slices: readonly SliceObject[]): string[] {
  return slices
    .flatMap(({ endpoints }) =>
      endpoints.map(({ addresses, targetRef, hints }) => JSON.stringify([addresses, targetRef?.uid, hints])),
    )
    .sort();
}

function assertHints(slices: readonly SliceObject[], nodes: ReadonlyMap<string, ZonedNode>): void {
  const zones = new Set([...nodes.values()].map(({ zone }) => zone));
  for (const { hints, conditions, nodeName } of slices.flatMap(({ endpoints }) => endpoints)) {
    if (hints === undefined) continue;
    assert.equal(conditions?.ready, true);
    for (const { name } of hints?.forZones ?? []) assert.ok(name !== '' && zones.has(name), `there is no zone ${name}`);
    for (const { name } of hints?.forNodes ?? []) assert.equal(name, nodeName);
  }
}

function assertRight(kept: Kept, looked: readonly SelectingService[]): void {
  for (const service of kept.services) {
    const slices = kept.stores.get(service.key)?.all ?? [];
    const fresh = kept.fromNothing(service).all;
    assert.deepEqual(consumed(slices, service.name), kept.wantedOf(service));
    assert.deepEqual(consumed(fresh, service.name), kept.wantedOf(service));
    if (!service.wantsTopology) assert.deepEqual(hintLines(slices), hintLines(fresh));
    assertHints([...slices, ...fresh], kept.nodes);
    for (const family of ['IPv4', 'IPv6'] as const) {
      const some = slices.some(({ addressType }) => addressType === family);
      assert.equal(some, service.families.includes(family), `slices of ${family}`);
    }
    for (const { endpoints } of slices) assert.ok(endpoints.length <= Math.max(...LIMITS));
  }
  for (const service of looked) {
    const { changes, notices } = kept.reconcile(service);
    assert.deepEqual({ ...changes, notices }, { create: [], update: [], remove: [], notices: [] }, 'nothing is left');
  }
}

describe('random histories', () => {
  it('end in slices that match the Pods, with nothing left to write', () => {
    let [steps, written, hinted] = [0, 0, 0];
    fc.assert(
      fc.property(fc.array(aStep, { minLength: 1, maxLength: LONGEST, size: 'max' }), (history: readonly Step[]) => {
        const kept = new Kept();
        for (const step of BEGINNING) kept.take(step);
        assertRight(kept, kept.sync());
        for (const [i, step] of history.entries()) {
          kept.take(step);
          // Sometimes several steps are one change.
          if (i % 4 !== 3) assertRight(kept, kept.sync());
        }
        assertRight(kept, kept.sync());
        steps += history.length;
        const endpoints = [...kept.stores.values()].flatMap(({ all }) => all).flatMap((slice) => slice.endpoints);
        written += endpoints.length;
        hinted += endpoints.filter(({ hints }) => hints !== undefined).length;
      }),
      { numRuns: RUNS },
    );
    assert.ok(
      steps > 2000 && written > RUNS && hinted > RUNS / 4,
      `${steps} steps, ${written} endpoints in the end, ${hinted} with hints`,
    );
  });
});
