/** External IPs with the feature gate AllowServiceExternalIPs off (KEP-5707): they are not written, and a fault reports it. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { faultText } from '../../../src/proxy/model/objects.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const web = (externalIPs: readonly string[]) =>
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], externalIPs } });

it('external IPs have a fault, once, for as long as the Service has them', async () => {
  const kernel = new FakeIptables();
  const rig = new Rig({ commands: kernel, families: ['IPv4'], servesExternalIPs: false });
  rig.put(web(['198.51.100.1', '192.168.77.2']), slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.1'] }));
  await rig.sync();
  assert.doesNotMatch(kernel.save('IPv4'), /198\.51\.100\.1|192\.168\.77\.2/);
  assert.match(kernel.save('IPv4'), /-d 10\.96\.0\.10\/32/);
  assert.deepEqual(rig.faults.map(faultText), [
    'Service default/web: spec.externalIPs: 198.51.100.1,192.168.77.2: not served: the feature gate AllowServiceExternalIPs is false (no effect here)',
  ]);
  assert.deepEqual([...rig.loop.faults.counts], [['no effect here', 1]]);
  rig.put(web([]));
  await rig.sync();
  assert.deepEqual([...rig.loop.faults.counts], []);
  rig.put(web(['198.51.100.1'])).remove('Service', 'default/web');
  await rig.sync();
  assert.deepEqual([...rig.loop.faults.counts], []);
});
