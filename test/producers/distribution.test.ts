/** Hints of trafficDistribution (KEP-4444, KEP-3015). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TrafficDistribution } from '../../src/model/objects.ts';
import type { SelectingService } from '../../src/producers/objects.ts';
import { podView, ServiceStory, serviceView, zonedNode } from '../helpers/producing.ts';

/** Pods on a Node with a zone, on one without, one that is not ready, one that ends: what hints they have. */
function storyWith(more: Partial<SelectingService>): ServiceStory {
  const story = new ServiceStory(serviceView(more), [
    podView(1),
    podView(2, { nodeName: 'node-x' }),
    podView(3, { ready: false }),
    podView(4, { terminating: true }),
  ]);
  story.nodes.set('node-x', zonedNode('node-x', ''));
  story.sync();
  return story;
}

function hintsOf(story: ServiceStory) {
  return story.store.all.flatMap(({ endpoints }) => endpoints).map(({ hints }) => hints);
}

const ZONE = { forZones: [{ name: 'zone-a' }] };
const NODE = { forNodes: [{ name: 'node-a' }] };

describe('trafficDistribution', () => {
  for (const distribution of ['PreferClose', 'PreferSameZone'] satisfies TrafficDistribution[]) {
    it(`${distribution}: ready endpoints are for their zone, where they have one`, () => {
      assert.deepEqual(hintsOf(storyWith({ distribution })), [ZONE, undefined, undefined, undefined]);
    });
  }

  it('PreferSameNode: ready endpoints are for their node, and for their zone', () => {
    const onX = { forNodes: [{ name: 'node-x' }] };
    assert.deepEqual(hintsOf(storyWith({ distribution: 'PreferSameNode' })), [
      { ...ZONE, ...NODE },
      onX,
      undefined,
      undefined,
    ]);
  });

  it('writes slices that stand once when it is set, changed or taken away', () => {
    const story = storyWith({});
    for (const distribution of ['PreferSameZone', 'PreferSameNode', 'PreferClose', undefined] as const) {
      story.service = serviceView({ distribution });
      assert.deepEqual(story.sync().writes, { create: 0, update: 1, remove: 0 });
    }
    assert.deepEqual(hintsOf(story), [undefined, undefined, undefined, undefined]);
  });

  it('writes nothing when another value means the same', () => {
    const story = storyWith({ distribution: 'PreferClose' });
    story.service = serviceView({ distribution: 'PreferSameZone' });
    assert.deepEqual(story.sync().writes, { create: 0, update: 0, remove: 0 });
  });

  it('gives hints to endpoints as they become ready, and takes them from those that end', () => {
    const story = storyWith({ distribution: 'PreferSameZone' });
    story.pods = [podView(1, { terminating: true }), podView(3)];
    story.sync();
    assert.deepEqual(hintsOf(story), [undefined, ZONE]);
  });

  it('follows a Node into another zone', () => {
    const story = storyWith({ distribution: 'PreferSameZone' });
    story.nodes.set('node-a', zonedNode('node-a', 'zone-b'));
    story.sync();
    assert.deepEqual(hintsOf(story)[0], { forZones: [{ name: 'zone-b' }] });
  });

  it('gives those hints that are published though not ready to all of them', () => {
    const story = storyWith({ distribution: 'PreferSameZone', publishNotReady: true });
    assert.deepEqual(hintsOf(story), [ZONE, undefined, ZONE, ZONE]);
  });

  it('counts for nothing where hints by CPU are asked for', () => {
    const story = storyWith({ distribution: 'PreferSameZone', wantsTopology: true });
    assert.deepEqual(hintsOf(story), [undefined, undefined, undefined, undefined]);
  });
});
