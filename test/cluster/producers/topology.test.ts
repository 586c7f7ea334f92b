/** Hints of topology-mode Auto (KEP-2433): zones get endpoints in proportion to their CPUs, or there are no hints. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Notice, PodView, SliceObject, ZonedNode } from '../../../src/cluster/producers/api-objects.ts';
import { zoneShares } from '../../../src/cluster/producers/topology.ts';
import { podView, ServiceStory, serviceView, zonedNode } from '../../helpers/cluster/producers/producing.ts';

const AUTO = serviceView({ wantsTopology: true });

/** A worker `node-ZONE` for each zone, with this number of CPUs. */
function workers(cpus: Readonly<Record<string, number>>): ZonedNode[] {
  return Object.entries(cpus).map(([zone, cpu]) => zonedNode(`node-${zone}`, zone, { milliCpu: cpu * 1000 }));
}

/** This number of Pods on the worker of each zone. */
function podsIn(counts: Readonly<Record<string, number>>): PodView[] {
  const zones = Object.entries(counts).flatMap(([zone, count]) => Array.from({ length: count }, () => zone));
  return zones.map((zone, i) => podView(i + 1, { nodeName: `node-${zone}` }));
}

function setNodes(story: ServiceStory, nodes: readonly ZonedNode[]): string[] {
  story.nodes.clear();
  for (const node of nodes) story.nodes.set(node.name, node);
  return story.topology.setShares(zoneShares(nodes));
}

function storyOf(nodes: readonly ZonedNode[], pods: readonly PodView[], service = AUTO): ServiceStory {
  const story = new ServiceStory(service, pods);
  setNodes(story, nodes);
  return story;
}

/** The number of endpoints by the zone of their hints; "" for none. */
function hintCounts(slices: readonly SliceObject[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { hints } of slices.flatMap(({ endpoints }) => endpoints)) {
    const zone = (hints?.forZones ?? []).map(({ name }) => name).join();
    counts[zone] = (counts[zone] ?? 0) + 1;
  }
  return counts;
}

const ENABLED: Notice = {
  type: 'Normal',
  reason: 'TopologyAwareHintsEnabled',
  note: 'Topology Aware Hints has been enabled, addressType: IPv4',
};
const disabled = (why: string): Notice => ({
  type: 'Warning',
  reason: 'TopologyAwareHintsDisabled',
  note: `${why}, addressType: IPv4`,
});
const NO_NODE_INFORMATION = disabled(
  'Insufficient Node information: allocatable CPU or zone not specified on one or more nodes',
);

describe('shares of zones', () => {
  it('are those of their CPUs', () => {
    const shares = zoneShares([...workers({ a: 6, b: 2 }), zonedNode('node-b2', 'b', { milliCpu: 4000 })]);
    assert.deepEqual(shares && [...shares], [
      ['a', 0.5],
      ['b', 0.5],
    ]);
  });

  it('ignore control plane nodes and nodes that are not ready, also incomplete ones', () => {
    const left = [
      zonedNode('master', '', { isControlPlane: true }),
      zonedNode('down', 'c', { ready: false, milliCpu: 0 }),
    ];
    assert.deepEqual(zoneShares([...workers({ a: 1, b: 1 }), ...left]), zoneShares(workers({ a: 1, b: 1 })));
  });

  it('are unknown when a node lacks its zone or CPUs, or all nodes are in one zone', () => {
    const two = workers({ a: 1, b: 1 });
    assert.equal(zoneShares([...two, zonedNode('odd', '')]), undefined);
    assert.equal(zoneShares([...two, zonedNode('odd', 'a', { milliCpu: 0 })]), undefined);
    assert.equal(zoneShares(workers({ a: 1 })), undefined);
    assert.equal(zoneShares([]), undefined);
  });
});

describe('endpoints of a Service with topology-mode Auto', () => {
  it('have their own zones when these have their shares', () => {
    const story = storyOf(workers({ a: 2, b: 2, c: 2 }), podsIn({ a: 2, b: 2, c: 2 }));
    assert.deepEqual(story.sync().notices, [ENABLED]);
    assert.ok(story.store.all[0]?.endpoints.every(({ zone, hints }) => hints?.forZones?.[0]?.name === zone));
  });

  it('go to zones with too few from zones with too many', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 6, b: 2 }));
    story.sync();
    assert.deepEqual(hintCounts(story.store.all), { a: 4, b: 4 });
  });

  it('follow the CPUs, not the Pods', () => {
    const story = storyOf(workers({ a: 1, b: 3 }), podsIn({ a: 4, b: 4 }));
    story.sync();
    assert.deepEqual(hintCounts(story.store.all), { a: 2, b: 6 });
  });

  it('keep their zones while no zone has an overload of 20 %', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 6, b: 6 }));
    story.sync();
    story.mostPerSlice = 12;
    story.pods.push(podView(13, { nodeName: 'node-a' }));
    assert.deepEqual(story.sync().writes, { create: 1, update: 0, remove: 0 });
    assert.deepEqual(hintCounts(story.store.all), { a: 7, b: 6 });
  });

  it('keep their zones when none lacks half an endpoint', () => {
    const story = storyOf(workers({ a: 48, b: 54, c: 54, d: 54 }), podsIn({ a: 6, b: 5, c: 5, d: 5 }));
    story.sync();
    assert.deepEqual(hintCounts(story.store.all), { a: 6, b: 5, c: 5, d: 5 });
  });

  it('have no hints while they are not ready, and do not count', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), [
      ...podsIn({ a: 2, b: 2 }),
      podView(8, { nodeName: 'node-a', ready: false }),
      podView(9, { nodeName: 'node-a', terminating: true }),
    ]);
    story.sync();
    assert.deepEqual(hintCounts(story.store.all), { a: 2, b: 2, '': 2 });
  });

  it('keep the hints of unchanged slices', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 10, b: 10 }));
    story.mostPerSlice = 10;
    story.sync();
    const [first] = story.store.all;
    story.pods = story.pods.filter(({ name }) => name !== 'pod-20');
    assert.deepEqual(story.sync().writes, { create: 0, update: 1, remove: 0 });
    assert.equal(story.store.all[0], first);
  });

  it('in a zone without a share have another zone or their own, and are not rewritten each time', () => {
    const nodes = [...workers({ a: 2, b: 2 }), zonedNode('node-c', 'c', { ready: false })];
    const story = storyOf(nodes, podsIn({ a: 4, b: 4, c: 1 }));
    assert.deepEqual(story.sync().writes, { create: 1, update: 0, remove: 0 });
    assert.deepEqual(hintCounts(story.store.all), { a: 4, b: 4, c: 1 });
  });
});

describe('hints are removed, with one notice', () => {
  it('when there are fewer endpoints than zones', () => {
    const story = storyOf(workers({ a: 2, b: 2, c: 2 }), podsIn({ a: 1, b: 1, c: 1 }));
    assert.deepEqual(story.sync().notices, [ENABLED]);
    story.pods = podsIn({ a: 1, b: 1 });
    assert.deepEqual(story.sync().notices, [disabled('Insufficient number of endpoints (2 endpoints, 3 zones)')]);
    assert.deepEqual(hintCounts(story.store.all), { '': 2 });
    story.pods = podsIn({ a: 1, b: 1, c: 1 });
    assert.deepEqual(story.sync().notices, [ENABLED]);
  });

  it('when the zones cannot all have their minimum', () => {
    const story = storyOf(workers({ a: 10, b: 10, c: 1 }), podsIn({ a: 1, b: 1, c: 1 }));
    const why = 'Unable to allocate minimum required endpoints to each zone without exceeding overload threshold';
    assert.deepEqual(story.sync().notices, [disabled(`${why} (3 endpoints, 3 zones)`)]);
  });

  it('when Nodes lack a zone or CPUs, also from unchanged slices', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 2, b: 2 }));
    story.mostPerSlice = 2;
    story.sync();
    assert.deepEqual(setNodes(story, [...story.nodes.values(), zonedNode('odd', '')]), ['default/web']);
    const { notices, writes } = story.sync();
    assert.deepEqual([notices, writes.update], [[NO_NODE_INFORMATION], 2]);
    assert.deepEqual(hintCounts(story.store.all), { '': 4 });
  });

  it('when an endpoint has no zone', () => {
    const story = storyOf(
      [...workers({ a: 2, b: 2 }), zonedNode('odd', '', { isControlPlane: true })],
      [...podsIn({ a: 3, b: 3 }), podView(9, { nodeName: 'odd' })],
    );
    assert.deepEqual(story.sync().notices, [disabled('One or more endpoints do not have a zone specified')]);
    assert.deepEqual(hintCounts(story.store.all), { '': 7 });
  });

  it('when the Service no longer has the annotation', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 2, b: 2 }));
    story.sync();
    story.service = serviceView();
    assert.deepEqual(story.sync().notices, [disabled('Topology Aware Hints has been disabled')]);
    assert.deepEqual(hintCounts(story.store.all), { '': 4 });
  });

  it('for each family separately', () => {
    const only4 = (pods: PodView[]) => pods.map((pod) => ({ ...pod, addresses: pod.addresses.slice(0, 1) }));
    const story = storyOf(
      workers({ a: 2, b: 2 }),
      only4(podsIn({ a: 2, b: 2 })),
      serviceView({ wantsTopology: true, families: ['IPv4', 'IPv6'] }),
    );
    assert.deepEqual(
      story.sync().notices.map(({ note }) => note),
      [ENABLED.note, 'Insufficient number of endpoints (0 endpoints, 2 zones), addressType: IPv6'],
    );
    assert.deepEqual(hintCounts(story.store.all), { a: 2, b: 2 });
  });
});

describe('a change of Nodes', () => {
  it('concerns Services without hints that may have some now', () => {
    const story = storyOf(workers({ a: 2 }), podsIn({ a: 2 }));
    assert.deepEqual(story.sync().notices, [NO_NODE_INFORMATION]);
    assert.deepEqual(setNodes(story, workers({ a: 2, b: 2 })), ['default/web']);
    assert.deepEqual(story.sync().notices, [ENABLED]);
    assert.deepEqual(hintCounts(story.store.all), { a: 1, b: 1 });
  });

  it('concerns no Service with hints while the shares are nearly the same', () => {
    const story = storyOf(workers({ a: 10, b: 10 }), podsIn({ a: 5, b: 5 }));
    story.sync();
    assert.deepEqual(setNodes(story, workers({ a: 11, b: 10 })), []);
    assert.deepEqual(setNodes(story, workers({ a: 20, b: 10 })), ['default/web']);
  });

  it('to other shares rewrites only slices with too many endpoints for a zone', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 6, b: 6 }));
    story.mostPerSlice = 4;
    story.sync();
    setNodes(story, workers({ a: 1, b: 2 }));
    assert.deepEqual(story.sync().writes, { create: 0, update: 1, remove: 0 });
    assert.deepEqual(hintCounts(story.store.all), { a: 4, b: 8 });
  });

  it('concerns Services with hints for a removed zone', () => {
    const story = storyOf(workers({ a: 20, b: 20, c: 2 }), podsIn({ a: 11, b: 10 }));
    story.sync();
    assert.deepEqual(hintCounts(story.store.all), { a: 10, b: 10, c: 1 });
    assert.deepEqual(setNodes(story, workers({ a: 20, b: 20 })), ['default/web']);
    story.sync();
    assert.deepEqual(hintCounts(story.store.all), { a: 11, b: 10 });
  });

  it('concerns no deleted Service, and none without the annotation', () => {
    const story = storyOf(workers({ a: 2, b: 2 }), podsIn({ a: 2, b: 2 }));
    story.sync();
    story.topology.forget('default/web');
    assert.deepEqual(setNodes(story, workers({ a: 2 })), []);
    story.sync();
    story.service = serviceView();
    story.sync();
    assert.deepEqual(setNodes(story, workers({ a: 2, b: 2 })), []);
  });
});
