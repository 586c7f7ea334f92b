/** Hints of trafficDistribution (KEP-4444, KEP-3015). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SelectingService } from '../../../src/cluster/producers/api-objects.ts';
import type { TrafficDistribution } from '../../../src/proxy/model/objects.ts';
import { podView, ServiceStory, serviceView, zonedNode } from '../../helpers/cluster/producers/producing.ts';

/** The hints of Pods on a Node with a zone, on one without, of a Pod that is not ready, and of a terminating one. */
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
    it(`${distribution}: ready endpoints have hints for their zone, if they have one`, () => {
      assert.deepEqual(hintsOf(storyWith({ distribution })), [ZONE, undefined, undefined, undefined]);
    });
  }

  it('PreferSameNode: ready endpoints have hints for their node and their zone', () => {
    const onX = { forNodes: [{ name: 'node-x' }] };
    assert.deepEqual(hintsOf(storyWith({ distribution: 'PreferSameNode' })), [
      { ...ZONE, ...NODE },
      onX,
      undefined,
      undefined,
    ]);
  });

  it('writes existing slices once when it is set, changed or removed', () => {
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

  it('adds hints to endpoints that become ready, and removes those of terminating ones', () => {
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

  it('gives hints to all endpoints that are published without being ready', () => {
    const story = storyWith({ distribution: 'PreferSameZone', publishNotReady: true });
    assert.deepEqual(hintsOf(story), [ZONE, undefined, ZONE, ZONE]);
  });

  it('has no effect with topology-mode Auto', () => {
    const story = storyWith({ distribution: 'PreferSameZone', wantsTopology: true });
    assert.deepEqual(hintsOf(story), [undefined, undefined, undefined, undefined]);
  });
});
