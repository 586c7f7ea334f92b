/** Counters of connections: only elements of frontends have them, and turning them on writes nothing else. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { type NftRig, nftRig } from '../../../helpers/proxy/nft-rig.ts';

const OBJECTS = [
  service({ name: 'web', spec: { type: 'NodePort', clusterIP: '10.96.0.1', ports: [{ port: 80, nodePort: 30_080 }] } }),
  slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: [{ addresses: ['10.244.1.1'] }] }),
];

async function served(countsConnections: boolean, before?: NftRig): Promise<NftRig> {
  const options = { families: ['IPv4'], settings: () => ({ countsConnections }) } as const;
  const made = nftRig(before === undefined ? options : { ...options, kernel: before.kernel });
  assert.equal((await made.rig.put(...OBJECTS).sync()).outcome, 'complete');
  return made;
}

/** Sets whose elements count. */
function counted({ kernel }: NftRig): string[] {
  const sets = kernel.tables.get('IPv4')?.sets ?? assert.fail();
  return [...sets]
    .filter(([, { elements }]) => [...elements.values()].some(({ isCounted }) => isCounted))
    .map(([name]) => name);
}

describe('counters of connections', () => {
  it('exist for the elements of frontends, if configured', async () => {
    assert.deepEqual(counted(await served(false)), []);
    assert.deepEqual(counted(await served(true)), ['service-connections', 'node-port-connections']);
  });

  it('come and go without a write to any element of a frontend', async () => {
    const plain = await served(false);
    const before = plain.kernel.commits.length;
    const counting = await served(true, plain);
    assert.deepEqual(counted(counting), ['service-connections', 'node-port-connections']);
    const ofElements = counting.kernel.commits
      .slice(before)
      .flat()
      .flatMap((write) => ('elements' in write ? [[write.kind, write.set.name]] : []));
    assert.deepEqual(ofElements, [
      ['add-elements', 'service-connections'],
      ['add-elements', 'node-port-connections'],
    ]);
    const { length } = counting.kernel.commits;
    await served(true, counting);
    assert.equal(counting.kernel.commits.length, length, 'a restart writes nothing');
    const without = await served(false, counting);
    assert.deepEqual(counted(without), []);
    assert.ok(!without.kernel.tables.get('IPv4')?.sets.has('service-connections'), 'the sets go with them');
  });

  it('keep their counts when the number of endpoints changes', async () => {
    const counting = await served(true);
    const before = counting.kernel.commits.length;
    counting.rig.put(slice({ name: 'web-2', service: 'web', addressType: 'IPv4', endpoints: ['10.244.1.2'] }));
    assert.equal((await counting.rig.sync()).outcome, 'complete');
    const writes = counting.kernel.commits.slice(before).flat();
    const names = new Set(writes.flatMap((write) => ('elements' in write ? [write.set.name] : [])));
    assert.ok(names.has('services') && ![...names].some((name) => name.endsWith('-connections')), [...names].join());
  });
});
