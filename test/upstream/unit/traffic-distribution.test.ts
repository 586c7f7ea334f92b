/** Hints of trafficDistribution, as the test of kube-controller-manager's ReconcileHints has them; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeSelectingService } from '../../../src/cluster/api/decode/producing.ts';
import type { SliceEndpoint, SliceObject } from '../../../src/cluster/producers/api-objects.ts';
import { hintByDistribution } from '../../../src/cluster/producers/slices.ts';
import { type SlicesInHand, withoutHints } from '../../../src/cluster/producers/topology.ts';
import { HINTS, type HintWords, type Three } from './traffic-distribution-rows.ts';

function endpoint(words: HintWords): SliceEndpoint {
  const all = words.split(' ');
  const named = (sign: string, pattern: RegExp) =>
    all
      .filter((word) => word.startsWith(sign) && pattern.test(word))
      .map((word) => ({ name: word.slice(sign.length) }));
  const [own] = named('', /^[a-c]$/);
  const [node] = named('', /^\d$/);
  const [forZones, forNodes] = [named('>', /[a-c]$/), named('>', /\d$/)];
  const hints = { ...(forZones.length > 0 ? { forZones } : {}), ...(forNodes.length > 0 ? { forNodes } : {}) };
  return {
    addresses: [`10.0.0.${node?.name}`],
    conditions: { ready: !all.includes('unready') },
    ...(own ? { zone: own.name } : {}),
    ...(node ? { nodeName: node.name } : {}),
    ...(Object.keys(hints).length > 0 ? { hints } : {}),
  };
}

function inHand([create, update, unchanged]: Three): SlicesInHand {
  const slice = (list: readonly HintWords[]): SliceObject => ({
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata: { namespace: 'default' } },
    ...{ addressType: 'IPv4', ports: [], endpoints: list.map(endpoint) },
  });
  return { create: create.map(slice), update: update.map(slice), unchanged: unchanged.map(slice) };
}

/** As the controller does with a Service that has this value. */
function hinted(value: string | undefined, slices: SlicesInHand): SlicesInHand {
  const object = { metadata: { name: 'web', namespace: 'default' }, spec: { trafficDistribution: value } };
  const { value: service } = decodeSelectingService(object, 'default/web');
  return service?.distribution ? hintByDistribution(slices, service.distribution) : withoutHints(slices);
}

describe('ReconcileHints', () => {
  for (const [title, { value, given, wanted }] of Object.entries(HINTS)) {
    it(title, () => assert.deepEqual(hinted(value, inHand(given)), inHand(wanted)));
  }

  it('slices that are unchanged are not changed in place', () => {
    const unchanged = inHand([[], [], [['a 1']]]);
    hinted('PreferClose', unchanged);
    assert.deepEqual(unchanged, inHand([[], [], [['a 1']]]));
  });
});
