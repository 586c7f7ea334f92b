/** IPVS mode: incremental equals full (invariant 12), and the cost follows the change (invariant 11). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { aStep } from '../../../helpers/cluster/histories.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { type IpvsRig, ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';
import { follow } from '../../../helpers/proxy/rig.ts';

/** The order of chains in a table has no meaning. */
function normal({ kernel, iptables }: IpvsRig): string[] {
  const rules = (['IPv4', 'IPv6'] as const).flatMap((family) =>
    iptables
      .save(family)
      .split('\n')
      .filter((line) => line.startsWith('-A') || line.startsWith(':'))
      .sort(),
  );
  return [...kernel.dump(), ...rules];
}

describe('ipvs desire', () => {
  it('ends in the same state whether built step by step or at once (invariant 12), and a restart writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 1, maxLength: 50, size: 'max' }), async (steps) => {
        const made = ipvsRig();
        const objects = await follow(made.rig, steps);
        const fresh = ipvsRig();
        assert.equal((await fresh.rig.put(...objects.values()).sync()).outcome, 'complete');
        assert.deepEqual(normal(made), normal(fresh));
        const { sends } = made.kernel;
        const { restores } = made.iptables;
        const again = ipvsRig({ kernel: made.kernel, iptables: made.iptables });
        const report = await again.rig.put(...objects.values()).sync();
        assert.deepEqual([report.applied, made.kernel.sends, made.iptables.restores], [0, sends, restores]);
      }),
      { numRuns: 80 },
    );
  });

  it('gives a Service the scheduler of its annotation, changes it in place, and goes back to that of the node', async () => {
    const { rig, kernel } = ipvsRig({ families: ['IPv4'] });
    const web = (scheduler?: string) =>
      service({
        ...{ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } },
        ...(scheduler === undefined ? {} : { annotations: { 'slicewire.dev/ipvs-scheduler': scheduler } }),
      });
    const other = service({ name: 'other', spec: { clusterIP: '10.96.0.11', ports: [{ port: 80 }] } });
    rig.put(web('mh'), other, slice({ name: 'web-1', service: 'web', endpoints: ['10.1.0.1'] }));
    const seen = async () => {
      await rig.sync();
      return (await kernel.servers()).map(({ address, scheduler, flags }) => `${address} ${scheduler} ${flags}`).sort();
    };
    assert.deepEqual(await seen(), ['10.96.0.10 mh 16', '10.96.0.11 rr 0']);
    const written = kernel.written.length;
    rig.put(web('sh,sh-port'));
    assert.deepEqual(await seen(), ['10.96.0.10 sh 16', '10.96.0.11 rr 0']);
    assert.deepEqual(
      kernel.written.slice(written).map(({ kind }) => kind),
      ['change-server'],
    );
    rig.put(web());
    assert.deepEqual(await seen(), ['10.96.0.10 rr 0', '10.96.0.11 rr 0']);
  });

  it('writes at most three messages for one endpoint, and starts no process, however many Services there are', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const { rig, kernel, iptables } = made;
    const endpoints = (i: number, count: number) =>
      slice({
        name: `s${i}-1`,
        service: `s${i}`,
        endpoints: Array.from({ length: count }, (_, n) => ({
          addresses: [`10.1.${i % 250}.${n + 1}`],
          nodeName: 'node',
        })),
      });
    for (let i = 0; i < 1000; i++) {
      const clusterIP = `10.96.${Math.floor(i / 250)}.${(i % 250) + 1}`;
      rig.put(service({ name: `s${i}`, spec: { clusterIP, ports: [{ port: 80 }] } }), endpoints(i, 2));
    }
    await rig.sync();
    for (const count of [3, 2, 3]) {
      const [written, ran] = [kernel.written.length, iptables.ran.length];
      rig.put(endpoints(7, count));
      assert.equal((await rig.sync()).outcome, 'complete');
      const news = kernel.written.slice(written);
      assert.ok(news.length > 0 && news.length <= 3, JSON.stringify(news));
      assert.equal(iptables.ran.length, ran, 'no process');
    }
  });
});
