/** nftables mode when the kernel refuses: a fault stays with its Service, and chains in use are deleted later. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { NftWrite } from '../../../../src/kernel/nftables-kernel.ts';
import { driftText } from '../../../../src/proxy/model/drift.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { nftRig } from '../../../helpers/proxy/nft-rig.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';

const web = (name: string, n: number, endpoints: number) => [
  service({ name, spec: { clusterIP: `10.96.0.${n}`, ports: [{ port: 80 }] } }),
  slice({
    name: `${name}-1`,
    service: name,
    endpoints: Array.from({ length: endpoints }, (_, i) => ({
      addresses: [`10.244.${n}.${i + 1}`],
      nodeName: 'other',
    })),
  }),
];

describe('nftables mode, when the kernel refuses', () => {
  it('sets aside the Service of a refused element, names both, and serves all others', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    const isBad = (data: string) => data.startsWith('\x0a\xf4\x02');
    kernel.options = {
      ...kernel.options,
      refuses: (_, element) => (element !== undefined && isBad(element.data) ? 'EINVAL: invalid argument' : undefined),
    };
    rig.put(...web('good', 1, 2), ...web('bad', 2, 2), ...web('fine', 3, 2));
    const report = await rig.sync();
    assert.equal(report.outcome, 'partial');
    const owners = new Set(report.failed.map(({ owner }) => owner));
    assert.deepEqual([...owners], ['default/bad']);
    assert.match(report.failed[0]?.line ?? '', /^backends 10\.96\.0\.2 \. tcp \. 80 \. 0 : 10\.244\.2\.1 \. 8080$/);
    const endpoints = kernel.tables.get('IPv4')?.sets.get('backends')?.elements;
    assert.equal(endpoints?.size, 4);
    kernel.options = { ...kernel.options, refuses: () => undefined };
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(kernel.tables.get('IPv4')?.sets.get('backends')?.elements.size, 6);
  });

  it('sets aside the Service whose limits it has no part for, and serves all others', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    const needsLimits = (write: NftWrite) =>
      write.kind === 'add-rule' && write.rule.expressions.some(({ do: does }) => does === 'over-connections');
    const refuses = (write: NftWrite) => (needsLimits(write) ? 'ENOENT: no such file or directory' : undefined);
    kernel.options = { ...kernel.options, refuses };
    const annotations = { 'slicewire.dev/max-connections': '10' };
    const spec = { clusterIP: '10.96.0.2', ports: [{ port: 80 }] };
    rig.put(...web('good', 1, 2), ...web('limited', 2, 2), service({ name: 'limited', spec, annotations }));
    assert.equal((await rig.sync()).outcome, 'partial');
    rig.put(...web('later', 3, 2));
    const report = await rig.sync();
    assert.deepEqual([...new Set(report.failed.map(({ owner }) => owner))], ['default/limited']);
    assert.equal(kernel.tables.get('IPv4')?.sets.get('services')?.elements.size, 2);
  });

  it('deletes a chain in use later, and serves meanwhile', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    rig.put(...web('web', 1, 2));
    await rig.sync();
    let isUsed = true;
    kernel.options = { ...kernel.options, uses: (chain) => isUsed && chain === 'cluster-ip-of-2' };
    rig.put(...web('web', 1, 3));
    assert.equal((await rig.sync()).outcome, 'complete');
    const chains = () => [...(kernel.tables.get('IPv4')?.chains.keys() ?? [])];
    assert.ok(chains().includes('cluster-ip-of-2') && chains().includes('cluster-ip-of-3'));
    assert.equal(rig.mode.isWaiting, true);
    isUsed = false;
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.ok(!chains().includes('cluster-ip-of-2'));
    assert.equal(rig.mode.isWaiting, false);
  });

  it('keeps an unused chain for a while, because packets may be in it', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'], keep: 100 });
    await rig.put(...web('web', 1, 2)).sync();
    await rig.put(...web('web', 1, 3)).sync();
    const chains = () =>
      [...(kernel.tables.get('IPv4')?.chains.keys() ?? [])].filter((name) => name.startsWith('cluster-ip-'));
    assert.deepEqual([chains(), rig.mode.isWaiting], [['cluster-ip-of-2', 'cluster-ip-of-3'], true]);
    await setTimeout(120);
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.deepEqual([chains(), rig.mode.isWaiting], [['cluster-ip-of-3'], false]);
    await rig.put(...web('web', 1, 2)).sync();
    await rig.put(...web('web', 1, 3)).sync();
    assert.deepEqual(chains(), ['cluster-ip-of-3', 'cluster-ip-of-2'], 'one that is needed again stays');
  });

  it('reads the table again after a failed reading, and writes only the difference', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    rig.put(...web('web', 1, 2));
    await rig.sync();
    kernel.unreadable = 'EPERM: not permitted';
    rig.loop.distrust();
    rig.put(...web('web', 1, 1));
    assert.equal((await rig.sync()).outcome, 'failed');
    assert.equal(kernel.tables.get('IPv4')?.sets.get('backends')?.elements.size, 2, 'nothing was removed');
    kernel.unreadable = undefined;
    const before = kernel.commits.length;
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(kernel.commits.length - before, 3, 'the chain of one, the elements, the chain of two');
  });

  it('reads its table after a write of another program, and finds out whether ours changed', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    rig.put(...web('web', 1, 2));
    await rig.sync();
    const { reads } = kernel;
    assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
    assert.equal(kernel.reads, reads, 'nobody wrote, nothing is read');
    kernel.isTouched = true;
    assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
    kernel.tables.get('IPv4')?.sets.get('services')?.elements.clear();
    assert.equal(await rig.mode.probe.isInstalled(NEVER), false);
    rig.loop.distrust();
    const { outcome, drift } = await rig.sync();
    assert.deepEqual(
      [outcome, drift.map(driftText)],
      ['complete', ['IPv4 services 10.96.0.1 . tcp . 80 : goto cluster-ip-of-2']],
    );
    assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
  });
});
