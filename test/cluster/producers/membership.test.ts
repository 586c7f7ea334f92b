/** The Pods of Services and the Services of Pods, while labels, selectors, Pods and Services change. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PodView, SelectingService } from '../../../src/cluster/producers/api-objects.ts';
import { Membership } from '../../../src/cluster/producers/membership.ts';
import type { Labels } from '../../../src/proxy/model/labels.ts';
import { podView, serviceView } from '../../helpers/cluster/producers/producing.ts';

/** Services `web` (app=web), `front` (app=web, tier=front) and `back` (tier=back). */
function members(...pods: readonly PodView[]): Membership {
  const all = new Membership();
  for (const pod of pods) all.setPod(pod.key, pod);
  const selectors = { web: { app: 'web' }, front: { app: 'web', tier: 'front' }, back: { tier: 'back' } };
  for (const [name, selector] of Object.entries(selectors)) put(all, serviceView({ name, selector }));
  return all;
}

function put(all: Membership, service: SelectingService): SelectingService {
  all.setService(service.key, service);
  return service;
}

const labelled = (n: number, labels: Labels, more: Partial<PodView> = {}) => podView(n, { labels, ...more });
const names = (pods: readonly PodView[]) => pods.map(({ name }) => name).sort();
const touched = (all: Membership, before?: PodView, after?: PodView) => [...all.touchedBy(before, after)].sort();

describe('the Pods of a Service', () => {
  it('have all labels of its selector, and are in its namespace', () => {
    const all = members(
      labelled(1, { app: 'web', tier: 'front' }),
      labelled(2, { app: 'web' }),
      labelled(3, { tier: 'front' }),
      labelled(4, { app: 'web', tier: 'front' }, { namespace: 'other', key: 'other/pod-4' }),
    );
    assert.deepEqual(names(all.podsOf(serviceView({ selector: { app: 'web', tier: 'front' } }))), ['pod-1']);
    assert.deepEqual(names(all.podsOf(serviceView())), ['pod-1', 'pod-2']);
  });

  it('are none without a selector, or with an empty one', () => {
    const all = members(podView(1));
    for (const selector of [undefined, {}]) {
      const service = put(all, serviceView({ name: 'all', selector }));
      assert.deepEqual([all.podsOf(service), all.servicesOf(podView(1))], [[], ['default/web']]);
    }
  });

  it('are found by labels that selectors have later, and while any selector has them', () => {
    const all = members(labelled(1, { team: 'a', constructor: 'b' }));
    const [one, two] = ['one', 'two'].map((name) => serviceView({ name, selector: { team: 'a' } }));
    const service = put(all, one as SelectingService);
    put(all, two as SelectingService);
    assert.deepEqual(names(all.podsOf(service)), ['pod-1']);
    all.setService('default/two', undefined);
    all.setPod('default/pod-2', labelled(2, { team: 'a' }));
    assert.deepEqual(names(all.podsOf(service)), ['pod-1', 'pod-2']);
    all.setService('default/one', undefined);
    all.setPod('default/pod-3', labelled(3, { team: 'a' }));
    assert.deepEqual(names(all.podsOf(put(all, service))), ['pod-1', 'pod-2', 'pod-3']);
  });

  it('are found by a label with the name of what every object has', () => {
    const all = members(labelled(1, { constructor: 'b' }), podView(2));
    const service = put(all, serviceView({ name: 'odd', selector: { constructor: 'b' } }));
    assert.deepEqual(names(all.podsOf(service)), ['pod-1']);
    all.setPod('default/pod-1', podView(1));
    assert.deepEqual(names(all.podsOf(service)), []);
  });

  it('are each as they are now, however many a workload has', () => {
    const all = members(...Array.from({ length: 40 }, (_, n) => podView(n, { uid: `uid-${n}` })));
    all.setPod('default/pod-7', podView(7, { ready: false, nodeName: 'node-b' }));
    all.setPod('default/pod-8', undefined);
    const found = all.podsOf(serviceView());
    assert.equal(found.length, 39);
    assert.deepEqual(
      found.find(({ name }) => name === 'pod-7'),
      podView(7, { ready: false, nodeName: 'node-b' }),
    );
    assert.deepEqual(all.pod('default/pod-9'), podView(9, { uid: 'uid-9' }));
  });

  it('follow labels, and a deleted Pod is removed', () => {
    const all = members(podView(1));
    const service = serviceView();
    assert.deepEqual(all.setPod('default/pod-1', labelled(1, { app: 'other' })), podView(1));
    assert.deepEqual(all.podsOf(service), []);
    all.setPod('default/pod-1', podView(1));
    assert.deepEqual(names(all.podsOf(service)), ['pod-1']);
    all.setPod('default/pod-1', undefined);
    assert.deepEqual([all.podsOf(service), all.podsOn('node-a')], [[], []]);
  });
});

describe('the Services of a Pod', () => {
  it('follow their selectors, and a deleted Service is removed', () => {
    const all = members();
    const pod = labelled(1, { app: 'web', tier: 'back' });
    assert.deepEqual(all.servicesOf(pod).sort(), ['default/back', 'default/web']);
    put(all, serviceView({ name: 'back', selector: { tier: 'store' } }));
    assert.deepEqual(all.servicesOf(pod), ['default/web']);
    all.setService('default/web', undefined);
    assert.deepEqual([all.servicesOf(pod), [...all.services].sort()], [[], ['default/back', 'default/front']]);
  });
});

describe('a change of a Pod', () => {
  const pod = labelled(1, { app: 'web', tier: 'front' });

  it('concerns all of its Services when it is created, deleted or changed', () => {
    const all = members();
    assert.deepEqual(touched(all, undefined, pod), ['default/front', 'default/web']);
    assert.deepEqual(touched(all, pod, undefined), ['default/front', 'default/web']);
    assert.deepEqual(touched(all, pod, { ...pod, ready: false }), ['default/front', 'default/web']);
  });

  it('concerns those that it joins and leaves when only labels change', () => {
    const back = { ...pod, labels: { app: 'web', tier: 'back' } };
    assert.deepEqual(touched(members(), pod, back), ['default/back', 'default/front']);
  });

  it('concerns all of both when labels and other fields change', () => {
    const back = { ...pod, labels: { app: 'web', tier: 'back' }, ready: false };
    assert.deepEqual(touched(members(), pod, back), ['default/back', 'default/front', 'default/web']);
  });

  it('without a difference concerns no Service', () => {
    assert.deepEqual(touched(members(), pod, { ...pod, labels: { ...pod.labels, note: 'x' } }), []);
  });
});

describe('the Pods of a Node', () => {
  it('follow the nodes of Pods', () => {
    const all = members(podView(1), podView(2, { nodeName: 'node-b' }));
    assert.deepEqual(names(all.podsOn('node-a')), ['pod-1']);
    all.setPod('default/pod-1', podView(1, { nodeName: 'node-b' }));
    assert.deepEqual([names(all.podsOn('node-a')), names(all.podsOn('node-b'))], [[], ['pod-1', 'pod-2']]);
  });
});
