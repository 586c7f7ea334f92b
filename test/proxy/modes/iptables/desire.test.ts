/** Incremental equals full (invariant 12), over random histories of real objects. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { aStep } from '../../../helpers/cluster/histories.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { follow, Rig } from '../../../helpers/proxy/rig.ts';

function newRig(): { rig: Rig; kernel: FakeIptables } {
  const kernel = new FakeIptables();
  return { rig: new Rig({ commands: kernel, families: ['IPv4'] }), kernel };
}

/** The order of chains in a table has no meaning. */
function normal(saved: string): string[] {
  return saved
    .split('\n')
    .filter((line) => line.startsWith('-A') || line.startsWith(':'))
    .sort();
}

describe('iptables desire', () => {
  it('ends in the same state whether built step by step or at once (invariant 12)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 1, maxLength: 60, size: 'max' }), async (steps) => {
        const { rig, kernel } = newRig();
        const objects = await follow(rig, steps);
        const fresh = newRig();
        assert.equal((await fresh.rig.put(...objects.values()).sync()).outcome, 'complete');
        assert.deepEqual(normal(kernel.save('IPv4')), normal(fresh.kernel.save('IPv4')));
        // A restart has nothing to write (invariant 10).
        const again = new Rig({ commands: kernel, families: ['IPv4'] });
        const before = kernel.restores;
        await again.put(...objects.values()).sync();
        assert.equal(kernel.restores, before);
      }),
      { numRuns: 120 },
    );
  });

  it('writes a few chains for one endpoint, however many Services there are (invariant 11)', async () => {
    const { rig, kernel } = newRig();
    for (let i = 0; i < 2000; i++) {
      const ip = `10.${96 + Math.floor(i / 60_000)}.${Math.floor(i / 250)}.${(i % 250) + 1}`;
      rig.put(service({ name: `s${i}`, spec: { clusterIP: ip, ports: [{ port: 80 }] } }));
      rig.put(
        slice({
          name: `s${i}-1`,
          service: `s${i}`,
          endpoints: [{ addresses: [`10.1.${i % 250}.1`], nodeName: 'other' }],
        }),
      );
    }
    await rig.sync();
    const before = kernel.ran.length;
    rig.put(
      slice({
        name: 's7-1',
        service: 's7',
        endpoints: [
          { addresses: ['10.1.7.1'], nodeName: 'other' },
          { addresses: ['10.1.7.2'], nodeName: 'other' },
        ],
      }),
    );
    const report = await rig.sync();
    assert.equal(report.applied, 1);
    const [only, ...others] = kernel.ran.slice(before);
    assert.equal(others.length, 0);
    assert.equal(only?.file, 'iptables-restore');
    assert.match(
      only.lines.join('\n'),
      /^\*nat\n:KUBE-SVC-\w+ - \[0:0\]\n-A KUBE-SVC-[^\n]*10\.1\.7\.1:8080\n-A KUBE-SVC-[^\n]*10\.1\.7\.2:8080\nCOMMIT$/,
    );
  });
});
