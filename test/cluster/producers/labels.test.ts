/** Labels of slices: those of the Service, and those of its name, the manager and its kind. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SelectingService } from '../../../src/cluster/producers/api-objects.ts';
import { reconcileSlices } from '../../../src/cluster/producers/slices.ts';
import { TopologyBook } from '../../../src/cluster/producers/topology.ts';
import { podView, serviceView } from '../../helpers/cluster/producers/producing.ts';

const HEADLESS = 'service.kubernetes.io/headless';

function reconcile(service: SelectingService, existing: Parameters<typeof reconcileSlices>[0]['existing']) {
  const node = (name: string) => ({ name, zone: '', ready: true, milliCpu: 0, isControlPlane: false });
  const topology = new TopologyBook();
  return reconcileSlices({ service, pods: [podView(1)], existing, node, topology, mostPerSlice: 100 }).changes;
}

describe('labels of a slice', () => {
  for (const [what, wrong] of [
    ['a headless Service that became another kind', { [HEADLESS]: '' }],
    ['a label of somebody else', { mine: 'too' }],
  ] as const) {
    it(`are corrected: ${what}`, () => {
      const service = serviceView({ labels: { team: 'x' } });
      const [slice] = reconcile(service, []).create;
      assert.ok(slice);
      const metadata = { ...slice.metadata, name: 'web-1', labels: { ...slice.metadata.labels, ...wrong } };
      const { create, update, remove } = reconcile(service, [{ ...slice, metadata }]);
      assert.deepEqual([create, remove], [[], []]);
      assert.deepEqual(
        update.map((one) => one.metadata.labels),
        [slice.metadata.labels],
      );
      assert.deepEqual(update[0]?.endpoints, slice.endpoints);
    });
  }
});
