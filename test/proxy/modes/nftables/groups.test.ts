/** Grouping of changes into transactions: no packet meets half of a Service, or of a frontend that changes its Service. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NftWrite } from '../../../../src/kernel/nftables-kernel.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { type NftRig, nftRig } from '../../../helpers/proxy/nft-rig.ts';

const VIP = '203.0.113.1';

/** A Service behind a load balancer with these source ranges. */
const balanced = (name: string, n: number, ranges: readonly string[], endpoints = 1) => [
  service({
    name,
    spec: {
      type: 'LoadBalancer',
      clusterIP: `10.96.0.${n}`,
      ports: [{ port: 80 }],
      loadBalancerSourceRanges: [...ranges],
    },
    status: { loadBalancer: { ingress: [{ ip: VIP }] } },
  }),
  slice({
    name: `${name}-1`,
    service: name,
    addressType: 'IPv4',
    endpoints: Array.from({ length: endpoints }, (_, i) => ({
      addresses: [`10.244.${n}.${i + 1}`],
      nodeName: 'other',
    })),
  }),
];

/** Sets whose elements each transaction changes. */
const setsOf = (commits: readonly (readonly NftWrite[])[]) =>
  commits.map((writes) => new Set(writes.flatMap((write) => ('elements' in write ? [write.set.name] : []))));

const rigOver = (before?: NftRig) => nftRig({ families: ['IPv4'], ...(before ? { kernel: before.kernel } : {}) });

describe('one transaction', () => {
  it('replaces elements of a Service even when a restart lost their owner', async () => {
    const first = rigOver();
    await first.rig.put(...balanced('web', 1, ['10.0.0.0/8'], 3)).sync();
    const before = first.kernel.commits.length;
    const again = rigOver(first);
    const report = await again.rig.put(...balanced('web', 1, ['10.1.0.0/16'], 2)).sync();
    assert.equal(report.outcome, 'complete');
    const changed = setsOf(again.kernel.commits.slice(before)).filter((sets) => sets.size > 0);
    assert.deepEqual(changed, [new Set(['services', 'backends', 'source-ranges'])]);
  });

  it('moves a frontend to another Service as a whole', async () => {
    const { rig, kernel } = rigOver();
    await rig.put(...balanced('old', 1, ['10.0.0.0/8'])).sync();
    const before = kernel.commits.length;
    rig.remove('Service', 'default/old').put(...balanced('new', 2, ['10.1.0.0/16']));
    assert.equal((await rig.sync()).outcome, 'complete');
    const ranged = setsOf(kernel.commits.slice(before)).filter((sets) => sets.has('source-ranges'));
    assert.equal(ranged.length, 1);
  });

  it('writes the hairpin elements before the Service', async () => {
    const { rig, kernel } = rigOver();
    const web = service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } });
    const endpoints = [{ addresses: ['10.244.1.1'], nodeName: 'node' }];
    await rig.put(web, slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints })).sync();
    const written = kernel.commits.flat().flatMap((write) => ('elements' in write ? [write.set.name] : []));
    assert.ok(
      written.indexOf('hairpin') >= 0 && written.indexOf('hairpin') < written.indexOf('services'),
      `${written}`,
    );
  });

  it('reads and writes the table again in the same sync after another program removed an element', async () => {
    const { rig, kernel } = rigOver();
    await rig.put(...balanced('web', 1, ['10.0.0.0/8'], 2)).sync();
    const ranges = () => [...(kernel.tables.get('IPv4')?.sets.get('source-ranges')?.elements.keys() ?? [])];
    kernel.tables.get('IPv4')?.sets.get('source-ranges')?.elements.clear();
    const report = await rig.put(...balanced('web', 1, ['10.1.0.0/16'], 2)).sync();
    assert.deepEqual([report.outcome, report.failed], ['complete', []]);
    assert.equal(ranges().length, 1);
    assert.deepEqual(
      report.drift.map(({ name }) => name),
      ['203.0.113.1 . tcp . 80 . 10.0.0.0-10.255.255.255'],
      'what it removed is told',
    );
  });
});
