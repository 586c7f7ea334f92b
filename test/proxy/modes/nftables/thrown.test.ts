/** An error after the mode took changes does not make it take them twice: it counts the holders of what Services share. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { nftRig } from '../../../helpers/proxy/nft-rig.ts';

const web = (name: string, clusterIP: string) => service({ name, spec: { clusterIP, ports: [{ port: 80 }] } });
const ready = (name: string, ...endpoints: string[]) => slice({ name: `${name}-1`, service: name, endpoints });

it('a Service keeps the chain that it shares with one whose change was taken in spite of an error', async () => {
  const { rig, kernel } = nftRig({ families: ['IPv4'] });
  rig.put(web('a', '10.96.0.1'), ready('a', '10.1.0.1'), web('b', '10.96.0.2'), ready('b', '10.1.0.2'));
  assert.equal((await rig.sync()).outcome, 'complete');
  const chains = [...(kernel.tables.get('IPv4')?.chains.keys() ?? [])];

  const { flows } = rig;
  const update = flows.update.bind(flows);
  flows.update = () => {
    flows.update = update;
    throw new Error('an error of a test');
  };
  rig.put(ready('a', '10.1.0.1', '10.1.0.3'));
  assert.equal((await rig.sync()).outcome, 'failed');
  assert.deepEqual((await rig.sync()).failed, []);
  const now = kernel.tables.get('IPv4')?.chains;
  for (const name of chains) assert.ok(now?.has(name), `the chain ${name} went`);

  // The other way round, its last holder lets it go.
  rig.put(ready('b', '10.1.0.2', '10.1.0.4'));
  assert.deepEqual((await rig.sync()).failed, []);
  rig.remove('Service', 'default/a').remove('Service', 'default/b');
  assert.deepEqual((await rig.sync()).failed, []);
});

it('a Service that was never taken is not released when it changes', async () => {
  const { rig, kernel } = nftRig({ families: ['IPv4'] });
  rig.put(web('a', '10.96.0.1'), ready('a', '10.1.0.1'));
  assert.equal((await rig.sync()).outcome, 'complete');
  const chains = [...(kernel.tables.get('IPv4')?.chains.keys() ?? [])];

  const { mode } = rig;
  const desire = mode.desire.bind(mode);
  mode.desire = () => {
    mode.desire = desire;
    throw new Error('an error of a test');
  };
  rig.put(web('b', '10.96.0.2'), ready('b', '10.1.0.2'));
  assert.equal((await rig.sync()).outcome, 'failed');
  rig.put(ready('b', '10.1.0.2', '10.1.0.4'));
  assert.deepEqual((await rig.sync()).failed, []);
  const now = kernel.tables.get('IPv4')?.chains;
  for (const name of chains) assert.ok(now?.has(name), `the chain ${name} went`);
});
