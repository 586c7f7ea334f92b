/** nftables mode: incremental equals full (invariant 12), the cost follows the change (invariant 11), numbers have no gaps. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FAMILIES } from '../../../../src/base/address.ts';
import { aStep } from '../../../helpers/cluster/histories.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import type { FakeNft } from '../../../helpers/kernel/fake-nft.ts';
import { nftRig } from '../../../helpers/proxy/nft-rig.ts';
import { follow } from '../../../helpers/proxy/rig.ts';

/** The whole state of the kernel, sorted. */
function dump({ tables }: FakeNft): string[] {
  return FAMILIES.flatMap((family) => {
    const { chains, sets } = tables.get(family) ?? assert.fail(`there is no table of ${family}`);
    const rules = [...chains].map(([name, chain]) => `${family} ${name} ${JSON.stringify(chain)}`);
    const elements = [...sets].flatMap(([name, set]) => [
      `${family} ${JSON.stringify(set.set)}`,
      ...[...set.elements.values()].map((element) => `${family} ${name} ${JSON.stringify({ ...element, owner: '' })}`),
    ]);
    return [...rules, ...elements];
  }).sort();
}

describe('nftables desire', () => {
  it('ends in the same state whether built step by step or at once (invariant 12), and a restart writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 1, maxLength: 50, size: 'max' }), async (steps) => {
        const made = nftRig();
        const objects = await follow(made.rig, steps);
        const fresh = nftRig();
        assert.equal((await fresh.rig.put(...objects.values()).sync()).outcome, 'complete');
        assert.deepEqual(dump(made.kernel), dump(fresh.kernel));
        const commits = made.kernel.commits.length;
        const again = nftRig({ kernel: made.kernel });
        const report = await again.rig.put(...objects.values()).sync();
        assert.deepEqual([report.applied, made.kernel.commits.length], [0, commits]);
      }),
      { numRuns: 150 },
    );
  });

  it('writes the elements of one endpoint and of its frontend, however many Services there are', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    const endpoints = (i: number, count: number) =>
      slice({
        name: `s${i}-1`,
        service: `s${i}`,
        endpoints: Array.from({ length: count }, (_, n) => ({
          addresses: [`10.1.${i % 250}.${n + 1}`],
          nodeName: 'other',
        })),
      });
    for (let i = 0; i < 1000; i++) {
      const clusterIP = `10.96.${Math.floor(i / 250)}.${(i % 250) + 1}`;
      rig.put(service({ name: `s${i}`, spec: { clusterIP, ports: [{ port: 80 }] } }), endpoints(i, 2));
    }
    await rig.sync();
    // The chain for three endpoints is created and removed again.
    for (const [count, transactions] of [
      [3, 2],
      [2, 2],
    ] as const) {
      const before = kernel.commits.length;
      rig.put(endpoints(7, count));
      assert.equal((await rig.sync()).outcome, 'complete');
      const news = kernel.commits.slice(before);
      assert.equal(news.length, transactions);
      const elements = news.flat().flatMap((write) => ('elements' in write ? write.elements : []));
      assert.equal(elements.length, 3, 'the endpoint, and the frontend before and after');
    }
  });

  it('compares the elements of one changed endpoint, however many its Service has', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    const endpoints = (last: string) =>
      slice({
        name: 'web-1',
        service: 'web',
        endpoints: [...Array.from({ length: 90 }, (_, n) => `10.1.0.${n + 10}`), last].map((address) => ({
          addresses: [address],
          nodeName: 'other',
        })),
      });
    rig.put(
      service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
      endpoints('10.1.0.200'),
    );
    await rig.sync();
    const commits = kernel.commits.length;
    const { outcome, work } = await rig.put(endpoints('10.1.0.201')).sync();
    assert.deepEqual([outcome, kernel.commits.length - commits], ['complete', 1]);
    assert.ok(work.compared <= 3, `${work.compared} elements were compared`);
  });
});
