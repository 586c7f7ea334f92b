/** Slices of a Service while it and its Pods change: the number of writes, and a consumer's view after each of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PodView } from '../../../src/cluster/producers/api-objects.ts';
import { HEADLESS_LABEL } from '../../../src/proxy/model/labels.ts';
import {
  podView,
  podViews,
  portTo,
  ServiceStory,
  serviceView,
  type Writes,
  zonedNode,
} from '../../helpers/cluster/producers/producing.ts';

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

describe('new Pods', () => {
  it('use the empty slice of a Service without Pods', () => {
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

  it('go into a new slice when none has room for all, so that one slice is written instead of two', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 320));
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    assert.deepEqual(story.sizes, [100, 100, 50, 70]);
  });

  it('go into the fullest slice with room', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 320));
    story.sync();
    story.pods.push(...podViews(321, 340));
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100, 100, 50, 90]);
  });

  it('fill a new slice first when they are too many for one; the rest goes into a slice with room', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(251, 370));
    assert.deepEqual(story.sync().writes, writes(1, 1, 0));
    assert.deepEqual(story.sizes.sort(), [100, 100, 100, 70]);
  });
});

describe('removed Pods', () => {
  it('leave their slices, and empty slices are deleted', () => {
    const story = ofThreeSlices();
    story.pods = without(podViews(1, 200), 1, 101);
    assert.deepEqual(story.sync().writes, writes(0, 2, 1));
    assert.deepEqual(story.sizes, [99, 99]);
  });

  it('leave one empty slice when they were the last', () => {
    const story = ofThreeSlices();
    story.pods = [];
    assert.deepEqual(story.sync().writes, writes(0, 1, 2));
    assert.deepEqual(story.sizes, [0]);
  });

  it('stay while they terminate, not ready but serving, and are removed when they have finished', () => {
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
  it('puts new Pods into the slices of old ones', () => {
    const story = ofThreeSlices();
    const gone = [...podViews(1, 10), ...podViews(101, 110), ...podViews(201, 205)].map(({ name }) => name);
    story.pods = [...story.pods.filter(({ name }) => !gone.includes(name)), ...podViews(251, 275)];
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
  });

  it('writes one slice for a new Pod and one for a removed Pod', () => {
    const story = ofThreeSlices();
    story.pods.push(podView(251, { ready: false }));
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.pods[250] = podView(251);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.pods = without(story.pods, 7);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [99, 100, 51]);
  });

  it('rewrites the same slices when all Pods differ, as after a change of the selector', () => {
    const story = ofThreeSlices();
    story.pods.push(...podViews(301, 550, { labels: { app: 'web-2' } }));
    story.service = serviceView({ selector: { app: 'web-2' } });
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
  });

  it('distinguishes a recreated Pod from the earlier one with its name and address', () => {
    const story = ofThreeSlices();
    story.pods[0] = podView(1, { uid: 'anew' });
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [100, 100, 50]);
  });

  it('never loses an address that another Pod gets in another slice', () => {
    const story = new ServiceStory(serviceView(), podViews(1, 8));
    story.mostPerSlice = 4;
    story.sync();
    // The first slice stays the fuller one, gets a new Pod, and loses the address that moves to the other slice.
    const heir = podView(9, { addresses: podView(1).addresses });
    story.pods = [...without(story.pods, 1, 5, 6), podView(10), heir];
    assert.deepEqual(story.sync().writes, writes(0, 2, 0));
    assert.deepEqual(story.sizes.sort(), [3, 4]);
  });
});

describe('changes of the Service', () => {
  it('write its labels to all slices, together with new Pods', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ labels: { tier: 'front', [HEADLESS_LABEL]: 'not mine to set' } });
    story.pods.push(...podViews(251, 270));
    assert.deepEqual(story.sync().writes, writes(0, 3, 0));
    for (const { metadata } of story.store.all) {
      assert.equal(metadata.labels?.tier, 'front');
      assert.equal(metadata.labels?.[HEADLESS_LABEL], undefined);
    }
  });

  it('correct the labels of the empty slice', () => {
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

  it('to another target port never lose a Pod when slices are unevenly full', () => {
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

  it('to another port name never lose a Pod when named targets differ, in any order of the Pods', () => {
    const named = (port: number) => ({ ports: [{ name: 'main', protocol: 'TCP', port } as const] });
    const [some, others] = [podViews(1, 5, named(8080)), podViews(6, 10, named(9090))];
    const story = new ServiceStory(serviceView({ ports: [portTo('main')] }), [...some, ...others]);
    assert.deepEqual(story.sync().writes, writes(2, 0, 0));
    story.service = serviceView({ ports: [portTo('main', { name: 'web' })] });
    story.pods = [...others, ...some];
    assert.deepEqual(story.sync().writes, writes(0, 2, 0));
  });

  it('to a named target omit the port, but not the Pod, when no container has it', () => {
    const story = new ServiceStory(serviceView(), [
      podView(1, { ports: [{ name: 'main', protocol: 'TCP', port: 80 }] }),
      podView(2, { ports: [{ name: 'main', protocol: 'UDP', port: 80 }] }),
    ]);
    story.sync();
    story.service = serviceView({ ports: [portTo('main')] });
    assert.deepEqual(story.sync().writes, writes(1, 1, 0));
    assert.deepEqual(story.store.all.map(({ ports }) => ports.map(({ port }) => port)).sort(), [[], [80]]);
  });

  it('to two families and back add and remove only slices of one', () => {
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

  it('to a family without Pods leave one empty slice of it', () => {
    const story = new ServiceStory(serviceView({ families: ['IPv4', 'IPv6'] }), [
      podView(1, { addresses: podView(1).addresses.slice(0, 1) }),
    ]);
    assert.deepEqual(story.sync().writes, writes(2, 0, 0));
    assert.deepEqual(story.sizes, [1, 0]);
  });

  it('to publish Pods that are not ready write only slices with such Pods', () => {
    const story = new ServiceStory(serviceView(), [...podViews(1, 249), podView(250, { ready: false })]);
    story.sync();
    story.service = serviceView({ publishNotReady: true });
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.service = serviceView();
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
  });

  it('to a new Service of the same name use no slice of the earlier one', () => {
    const story = ofThreeSlices();
    const former = story.store.all.map(({ metadata }) => metadata.name);
    story.service = serviceView({ uid: 'uid-2' });
    assert.deepEqual(story.sync().writes, writes(3, 0, 3));
    for (const { metadata } of story.store.all) {
      assert.ok(!former.includes(metadata.name));
      assert.equal(metadata.ownerReferences?.[0]?.uid, 'uid-2');
    }
  });

  it('to a terminating Service create no slices, and update and delete those it has', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ terminating: true });
    story.pods = podViews(1, 400);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    story.pods = podViews(1, 150);
    assert.deepEqual(story.sync().writes, writes(0, 1, 1));
  });
});

describe('a deleted Node', () => {
  it('removes its Pods from the slices, and reports them until it exists again', () => {
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

  it('keeps the Pods of a Service that publishes addresses that are not ready', () => {
    const story = ofThreeSlices();
    story.service = serviceView({ publishNotReady: true });
    story.nodes.clear();
    const { writes: made, onUnknownNode } = story.sync();
    assert.deepEqual([made, onUnknownNode, story.sizes], [writes(0, 3, 0), [], [100, 100, 50]]);
  });

  it('leaves one empty slice when it had all Pods', () => {
    const story = ofThreeSlices();
    story.nodes.clear();
    assert.deepEqual(story.sync().writes, writes(0, 1, 2));
    assert.deepEqual(story.sizes, [0]);
  });
});

describe('another limit of endpoints per slice', () => {
  it('moves no existing endpoint when it is lowered, and applies to new ones', () => {
    const story = ofThreeSlices();
    story.mostPerSlice = 50;
    assert.deepEqual(story.sync().writes, writes(0, 0, 0));
    story.pods.push(...podViews(251, 260));
    assert.deepEqual(story.sync().writes, writes(1, 0, 0));
    story.pods = without(story.pods, 1);
    assert.deepEqual(story.sync().writes, writes(0, 1, 0));
    assert.deepEqual(story.sizes, [99, 100, 50, 10]);
  });

  it('lowered, applies with the next change of ports', () => {
    const story = ofThreeSlices();
    story.mostPerSlice = 50;
    story.service = serviceView({ ports: [portTo(9090)] });
    assert.deepEqual(story.sync().writes, writes(2, 3, 0));
    assert.deepEqual(story.sizes, [50, 50, 50, 50, 50]);
  });

  it('raised, gives room in full slices', () => {
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
  it('has the label, host names, and needs no ports', () => {
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

  it('without ports fills its empty slice with as many Pods as fit', () => {
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

describe('slices that would exchange endpoints', () => {
  it('are not both rewritten: one is written anew before the old one goes', () => {
    const hosts = (...numbers: number[]) => numbers.map((n) => podView(n, { hostname: `host-${n}`, subdomain: 'web' }));
    const story = new ServiceStory(serviceView(), podViews(1, 4));
    story.mostPerSlice = 3;
    assert.deepEqual(story.sync().writes, writes(2, 0, 0));
    // A new set of ports makes new slices, and an endpoint with another host name counts as new: it goes to the end.
    story.service = serviceView({ ports: [] });
    story.pods = [...podViews(1, 4).filter(({ name }) => name !== 'pod-2'), ...hosts(2)];
    assert.deepEqual(story.sync().writes, writes(1, 1, 1));
    assert.deepEqual(story.sizes.sort(), [1, 3]);
  });
});
