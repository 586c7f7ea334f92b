/** Slices of a Service while it and its Pods change: how many writes, and what a consumer sees after each of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HEADLESS_LABEL } from '../../src/model/labels.ts';
import type { PodView } from '../../src/producers/objects.ts';
import { podView, podViews, portTo, ServiceStory, serviceView, type Writes, zonedNode } from '../helpers/producing.ts';

const writes = (create: number, update: number, remove: number): Writes => ({ create, update, remove });

/** Slices of 100, 100 and 50 endpoints. */
function ofThreeSlices(): ServiceStory {
  const story = new ServiceStory(serviceView(), podViews(1, 250));
  assert.deepEqual(story.sync().writes, writes(3, 0, 0));
  assert.deepEqual(story.sizes, [100, 100, 50]);
  return story;
}

function without(pods: readonly PodView[], ...numbers: number[]): PodView[] {
  return pods.filter(({ name }) => !numbers.some((n) => name === `pod-${n}`));
}

describe('Pods that come', () => {
  it('find a slice there already: the empty one of a Service without Pods is used', () => {
    const story = new ServiceStory(serviceView(), []);
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    assert.deepEqual(
      story.store.all.map(({ endpoints, ports }) => [endpoints, ports]),
      [[[], []]],
    );
    story.pods = podViews(1, 250);
    assert.deepEqual(story.sync().writes, writes(2, 1, 0));
  });

  it('go into the one slice that has room for all', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 260));
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100, 100, 60]);
  });

  it('go into a new slice where none has room for all, so that one is written and not two', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 320));
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    assert.deepEqual(story.sizes, [100, 100, 50, 70]);
  });

  it('go into the slice that becomes fullest', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 320));
    story.sync();
    story.pods.push(...podViews(321, 340));
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100, 100, 50, 90]);
  });

  it('fill a new slice first when there are more than one holds, and what is left goes where there is room', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 370));
    assert.deepEqual(story.sync().writes, writes(1, 1, 0));
    assert.deepEqual(story.sizes.sort(), [100, 100, 100, 70]);
  });
});

describe('Pods that go', () => {
  it('leave their slices, and those that become empty go', () => {
    const story = ofThreeSlices();
    story.pods = without(podViews(1, 200), 1, 101);
    assert.deepEqual(story.sync().writes, writes(0, 2, 1));
    assert.deepEqual(story.sizes, [99, 99]);
  });

  it('leave an empty slice behind when they were the last', () => {
    const story = ofThreeSlices();
    story.pods = [];
    assert.deepEqual(story.sync().writes, writes(0, 1, 2));
    assert.deepEqual(story.sizes, [0]);
  });

  it('stay while they end, not ready but serving, and go when they are done', () => {
    const story = ofThreeSlices();
    story.pods = [podView(1, { terminating: true }), ...podViews(2, 250)];
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
    story.pods = [podView(1, { terminating: true, finished: true }), ...podViews(2, 250)];
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [99, 100, 50]);
  });
});

describe('a rolling update', () => {
  it('puts new Pods where old ones went', () => {
    const story = ofThreeSlices();
    const gone = [...podViews(1, 10), ...podViews(101, 110), ...podViews(201, 205)].map(({ name }) => name);
    story.pods = [...story.pods.filter(({ name }) => !gone.includes(name)), ...podViews(251, 275)];
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
  });

  it('writes one slice for a Pod that comes and one for a Pod that goes', () => {
    const story = ofThreeSlices();
    story.pods.push(podView(251, { ready: false }));
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.pods[250] = podView(251);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.pods = without(story.pods, 7);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [99, 100, 51]);
  });

  it('writes the same slices anew when all Pods are others, as when the selector changes', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(301, 550, { labels: { app: 'web-2' } }));
    story.service = serviceView({ selector: { app: 'web-2' } });
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
  });

  it('tells a Pod made anew from the former one of its name and address', () => {
    const story = ofThreeSlices();
    story.pods[0] = podView(1, { uid: 'anew' });
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
  });

  it('never misses an address that another Pod takes over in another slice', () => {
    const story = new ServiceStory(serviceView(), podViews(1, 8));
    story.mostPerSlice = 4;
    story.sync();
    // The first slice stays the fuller one, gets a new Pod, and loses the address that goes to the other slice.
    const heir = podView(9, { addresses: podView(1).addresses });
    story.pods = [...without(story.pods, 1, 5, 6), podView(10), heir];
    assert.deepEqual(story.sync().writes, writes(0, 2, 0));
    assert.deepEqual(story.sizes.sort(), [3, 4]);
  });
});

describe('changes of the Service', () => {
  it('carry its labels to all slices, which take new Pods at the same time', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ labels: { tier: 'front', [HEADLESS_LABEL]: 'not mine to set' } });
    story.pods.push(...podViews(251, 270));
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
    for (const { metadata } of story.store.all) {
      assert.equal(metadata.labels?.tier, 'front');
      assert.equal(metadata.labels?.[HEADLESS_LABEL], undefined);
    }
  });

  it('keep labels right on the empty slice', () => {
    const story = new ServiceStory(serviceView(), []);
    story.sync();
    story.service = serviceView({ labels: { tier: 'front' } });
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.equal(story.store.all[0]?.metadata.labels?.tier, 'front');
  });

  it('to another target port write each slice once', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ ports: [portTo(9090)] });
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
  });

  it('to another target port never miss a Pod where slices are unevenly full', () => {
    const story = ofThreeSlices();
    story.pods = story.pods.slice(40);
    story.sync();
    story.pods.push(...podViews(251, 330));
    story.sync();
    assert.deepEqual(story.sizes, [60, 100, 50, 80]);
    story.service = serviceView({ ports: [portTo(9090)] });
    assert.deepEqual(story.sync().writes, writes(0, 3, 1));
    assert.deepEqual(story.sizes.sort(), [100, 100, 90]);
  });

  it('to another port name never miss a Pod where named targets differ, whatever the order of the Pods', () => {
    const named = (port: number) => ({ ports: [{ name: 'main', protocol: 'TCP', port } as const] });
    const [some, others] = [podViews(1, 5, named(8080)), podViews(6, 10, named(9090))];
    const story = new ServiceStory(serviceView({ ports: [portTo('main')] }), [...some, ...others]);
    assert.deepEqual(story.sync().writes, writes(2, 0, 0));
    story.service = serviceView({ ports: [portTo('main', { name: 'web' })] });
    story.pods = [...others, ...some];
    assert.deepEqual(story.sync().writes, writes(0, 2, 0));
  });

  it('to a named target leave out the port, but not the Pod, where no container has it', () => {
    const story = new ServiceStory(serviceView(), [
      podView(1, { ports: [{ name: 'main', protocol: 'TCP', port: 80 }] }),
      podView(2, { ports: [{ name: 'main', protocol: 'UDP', port: 80 }] }),
    ]);
    story.sync();
    story.service = serviceView({ ports: [portTo('main')] });
    assert.deepEqual(story.sync().writes, writes(1, 1, 0));
    assert.deepEqual(story.store.all.map(({ ports }) => ports.map(({ port }) => port)).sort(), [[], [80]]);
  });

  it('to two families and back add and remove slices of one alone', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ families: ['IPv4', 'IPv6'] });
    assert.deepEqual(story.sync().writes, writes(3, 0, 0));
    story.service = serviceView({ families: ['IPv6'] });
    assert.deepEqual(story.sync().writes, writes(0, 0, 3));
    assert.deepEqual(
      story.store.all.map(({ addressType }) => addressType),
      ['IPv6', 'IPv6', 'IPv6'],
    );
  });

  it('to a family that no Pod has leave an empty slice of it', () => {
    const story = new ServiceStory(serviceView({ families: ['IPv4', 'IPv6'] }), [
      podView(1, { addresses: podView(1).addresses.slice(0, 1) }),
    ]);
    assert.deepEqual(story.sync().writes, writes(2, 0, 0));
    assert.deepEqual(story.sizes, [1, 0]);
  });

  it('to publish those that are not ready write only slices that have some', () => {
    const story = new ServiceStory(serviceView(), [...podViews(1, 249), podView(250, { ready: false })]);
    story.sync();
    story.service = serviceView({ publishNotReady: true });
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.service = serviceView();
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
  });

  it('that make it another of the same name use no slice of the former one', () => {
    const story = ofThreeSlices();
    const former = story.store.all.map(({ metadata }) => metadata.name);
    story.service = serviceView({ uid: 'uid-2' });
    assert.deepEqual(story.sync().writes, writes(3, 0, 3));
    for (const { metadata } of story.store.all) {
      assert.ok(!former.includes(metadata.name));
      assert.equal(metadata.ownerReferences?.[0]?.uid, 'uid-2');
    }
  });

  it('that end it create nothing any more', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ terminating: true });
    story.pods = podViews(1, 400);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
  });
});

describe('a Node that is gone', () => {
  it('takes its Pods out of the slices, and they are reported until it is back', () => {
    const story = new ServiceStory(serviceView({ families: ['IPv4', 'IPv6'] }), [
      ...podViews(1, 99),
      podView(100, { nodeName: 'node-b' }),
    ]);
    const gone = story.sync();
    assert.deepEqual(
      gone.onUnknownNode.map(({ name }) => name),
      ['pod-100'],
    );
    story.nodes.set('node-b', zonedNode('node-b', 'zone-b'));
    const back = story.sync();
    assert.deepEqual([back.writes, back.onUnknownNode], [writes(0, 2, 0), []]);
    story.nodes.delete('node-b');
    assert.deepEqual(story.sync().writes, writes(0, 2, 0));
  });

  it('leaves the Pods of who wants those that are not ready as well', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ publishNotReady: true });
    story.nodes.clear();
    const { writes: made, onUnknownNode } = story.sync();
    assert.deepEqual([made, onUnknownNode, story.sizes], [writes(0, 3, 0), [], [100, 100, 50]]);
  });

  it('leaves an empty slice when all Pods were there', () => {
    const story = ofThreeSlices();
    story.nodes.clear();
    assert.deepEqual(story.sync().writes, writes(0, 1, 2));
    assert.deepEqual(story.sizes, [0]);
  });
});

describe('another limit of endpoints per slice', () => {
  it('moves nothing that stands when it is lowered, and holds for what comes', () => {
    const story = ofThreeSlices();
    story.mostPerSlice = 50;
    assert.deepEqual(story.sync().writes, writes(0, 0, 0));
    story.pods.push(...podViews(251, 260));
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    story.pods = without(story.pods, 1);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [99, 100, 50, 10]);
  });

  it('lowered, takes hold with the next change of ports', () => {
    const story = ofThreeSlices();
    story.mostPerSlice = 50;
    story.service = serviceView({ ports: [portTo(9090)] });
    assert.deepEqual(story.sync().writes, writes(2, 3, 0));
    assert.deepEqual(story.sizes, [50, 50, 50, 50, 50]);
  });

  it('raised, makes room in slices that were full', () => {
    const story = ofThreeSlices();
    story.mostPerSlice = 150;
    assert.deepEqual(story.sync().writes, writes(0, 0, 0));
    story.pods.push(...podViews(251, 290));
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes.sort(), [100, 140, 50]);
    story.service = serviceView({ ports: [portTo(9090)] });
    assert.deepEqual(story.sync().writes, writes(0, 2, 1));
    assert.deepEqual(story.sizes.sort(), [140, 150]);
  });
});

describe('a headless Service', () => {
  it('says so in a label, names hosts, and needs no ports', () => {
    const story = new ServiceStory(serviceView({ isHeadless: true, ports: [] }), [
      podView(1, { hostname: 'web-0', subdomain: 'web' }),
      podView(2, { hostname: 'other-0', subdomain: 'other' }),
    ]);
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    const [slice] = story.store.all;
    assert.equal(slice?.metadata.labels?.[HEADLESS_LABEL], '');
    assert.deepEqual(
      slice?.endpoints.map(({ hostname }) => hostname),
      ['web-0', undefined],
    );
  });

  it('without ports puts as many Pods as one slice holds into the empty one that it has', () => {
    const story = new ServiceStory(serviceView({ isHeadless: true, ports: [] }), []);
    story.sync();
    story.pods = podViews(1, 100);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100]);
  });

  it('without Pods and ports keeps one empty slice when Pods come and go', () => {
    const story = new ServiceStory(serviceView({ isHeadless: true, ports: [] }), []);
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    story.pods = [podView(1)];
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.pods = [];
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [0]);
  });
});
