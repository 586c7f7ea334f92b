/** What kube-proxy's tests of IPVS say about the addresses on its device. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { service } from '../../helpers/cluster/objects.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';

it('an address is on the device once, while a port of its Service is there', async () => {
  const { rig, kernel } = ipvsRig({ families: ['IPv4'] });
  const become = async (...ports: readonly (readonly [string, string, number])[]) => {
    const spec = { clusterIP: '172.16.55.4', ports: ports.map(([name, protocol, port]) => ({ name, protocol, port })) };
    rig.become({ objects: ports.length === 0 ? [] : [service({ name: 'svc1', spec })] });
    assert.equal((await rig.sync()).outcome, 'complete');
    return [...kernel.ours];
  };
  const [ONE, TWO, THREE] = [
    ['port1', 'TCP', 1234],
    ['port2', 'TCP', 1235],
    ['port3', 'UDP', 1236],
  ] as const;
  const address = await become(ONE, TWO);
  assert.equal(address.length, 1);
  assert.match(JSON.stringify(address), /172\.16\.55\.4/);
  assert.deepEqual(await become(ONE), address);
  assert.deepEqual(await become(ONE, TWO, THREE), address);
  assert.deepEqual(await become(), []);
});
