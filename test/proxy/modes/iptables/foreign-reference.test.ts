/** Another program's rule refers to a chain of a Service that goes: the chain cannot be deleted, and everything else is written. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../../helpers/proxy/rig.ts';

const web = (name: string, n: number, ...endpoints: string[]) => [
  service({ name, spec: { clusterIP: `10.96.0.${n}`, ports: [{ port: 80 }] } }),
  slice({ name: `${name}-1`, service: name, endpoints }),
];

describe('a chain of ours to which another program refers', () => {
  for (const legacy of [false, true]) {
    it(`stays, and all other changes are written (${legacy ? 'legacy' : 'nft'} variant)`, async () => {
      const kernel = new FakeIptables({ legacy });
      const rig = new Rig({ commands: kernel, families: ['IPv4'] });
      rig.put(...web('gone', 1, '10.244.0.1'), ...web('kept', 2, '10.244.0.2'));
      assert.equal((await rig.sync()).outcome, 'complete');
      const nat = kernel.kernels.IPv4.get('nat');
      const chains = [...(nat?.keys() ?? [])];
      const chain = chains.find((name) => nat?.get(name)?.some((rule) => rule.includes('--to-destination 10.244.0.1')));
      nat?.set('FOREIGN', [`-j ${chain}`]);
      rig.remove('Service', 'default/gone').remove('EndpointSlice', 'default/gone-1');
      rig.put(...web('kept', 2, '10.244.0.3'), ...web('new', 3, '10.244.0.4'));
      await rig.sync();
      assert.match(kernel.save('IPv4'), /--to-destination 10\.244\.0\.3/);
      assert.match(kernel.save('IPv4'), /--to-destination 10\.244\.0\.4/);
      assert.doesNotMatch(kernel.save('IPv4'), /--to-destination 10\.244\.0\.2/);
      assert.match(kernel.save('IPv4'), new RegExp(`-A FOREIGN -j ${chain}`));
    });
  }
});
