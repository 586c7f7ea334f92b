/** The writes of a slow start in nftables mode: the elements of each step (docs/traffic.md). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { nftRig } from '../../../helpers/proxy/nft-rig.ts';

const ENDPOINTS = 10;
const WEIGHTS = [10, 28, 46, 64, 82, 100];

describe('an endpoint whose weight grows', () => {
  it('changes a few elements at each step, and no chain but at the beginning and the end', async (t) => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    const endpoints = Array.from({ length: ENDPOINTS }, (_, i) => `10.244.1.${11 + i}`);
    rig.put(service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }));
    const elements = () => {
      const set = kernel.tables.get('IPv4')?.sets.get('backends') ?? assert.fail();
      return new Map([...set.elements].map(([key, { data }]) => [key, data]));
    };
    const chains = () =>
      [...(kernel.tables.get('IPv4')?.chains.keys() ?? [])].filter((name) => name.endsWith('-of-1021'));
    const written: number[] = [];
    let before = new Map<string, string>();
    for (const weight of [100, ...WEIGHTS]) {
      const annotations = { 'slicewire.dev/weight': JSON.stringify({ [endpoints.at(-1) ?? '']: weight }) };
      rig.put(slice({ name: 'web-1', service: 'web', endpoints, annotations }));
      assert.equal((await rig.sync()).outcome, 'complete');
      const now = elements();
      const keys = new Set([...before.keys(), ...now.keys()]);
      written.push([...keys].filter((key) => before.get(key) !== now.get(key)).length);
      if (weight !== 100) assert.deepEqual(chains(), ['cluster-ip-of-1021']);
      before = now;
    }
    const [all, first, ...steps] = written;
    const last = steps.pop();
    t.diagnostic(
      `${ENDPOINTS} endpoints: ${all} elements; the first step ${first}, then ${steps.join(', ')}, the last ${last}`,
    );
    assert.deepEqual([all, elements().size], [ENDPOINTS, ENDPOINTS]);
    for (const step of steps) assert.ok(step < 60, `${step}`);
  });
});
