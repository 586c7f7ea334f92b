/** Counters of connections: elements of frontends alone have them, and asking for them writes those and nothing else. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type NftRig, nftRig } from '../../helpers/nft-rig.ts';
import { service, slice } from '../../helpers/objects.ts';

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

/** Sets with elements that count. */
function counted({ kernel }: NftRig): string[] {
  const sets = kernel.tables.get('IPv4')?.sets ?? assert.fail();
  return [...sets]
    .filter(([, { elements }]) => [...elements.values()].some(({ isCounted }) => isCounted))
    .map(([name]) => name);
}

describe('counters of connections', () => {
  it('are had by the elements of frontends, when they are asked for', async () => {
    assert.deepEqual(counted(await served(false)), []);
    assert.deepEqual(counted(await served(true)), ['services', 'node-ports']);
  });

  it('come and go with one transaction, in which each element is replaced', async () => {
    const plain = await served(false);
    const before = plain.kernel.commits.length;
    const counting = await served(true, plain);
    assert.deepEqual(counted(counting), ['services', 'node-ports']);
    const [writes, ...more] = counting.kernel.commits.slice(before);
    assert.deepEqual(more, []);
    assert.deepEqual(
      writes?.map((write) => [write.kind, 'set' in write && typeof write.set !== 'string' && write.set.name]),
      [
        ['delete-elements', 'services'],
        ['delete-elements', 'node-ports'],
        ['add-elements', 'services'],
        ['add-elements', 'node-ports'],
      ],
    );
    await served(true, counting);
    assert.equal(counting.kernel.commits.length, before + 1, 'a restart writes nothing');
    assert.deepEqual(counted(await served(false, counting)), []);
  });
});
