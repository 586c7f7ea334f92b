/** Unserved cluster IPs: refused if a Service has the address, dropped if none has (docs/semantics.md 6.16). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address, Cidr } from '../../../../src/base/address.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { fatesIn, viewOfTable } from '../../../helpers/inspect/explain/views.ts';
import { nftRig } from '../../../helpers/proxy/nft-rig.ts';

describe('unserved cluster IPs', () => {
  it('are distinguished from those that a Service has, and from all other addresses', async () => {
    const { rig, kernel } = nftRig({
      families: ['IPv4'],
      settings: () => ({ serviceCidrs: ['10.96.0.0/24', '10.96.0.0/25', '10.97.0.0/16'] as Cidr[] }),
    });
    const ports = (names: readonly string[]) => names.map((name, i) => ({ name, port: 80 + i }));
    const web = (names: readonly string[]) =>
      service({ name: 'web', spec: { clusterIP: '10.96.0.9', ports: ports(names) } });
    const endpoints = slice({
      name: 'web-1',
      service: 'web',
      endpoints: [{ addresses: ['10.244.0.5'], nodeName: 'node' }],
    });
    const fate = (destination: string, port: number) => {
      const table = kernel.tables.get('IPv4') ?? assert.fail();
      const packet = {
        protocol: 'TCP',
        source: '10.244.0.7' as Address,
        destination: destination as Address,
        port,
        device: 'cni0',
        state: 'NEW',
      } as const;
      const facts = { localAddresses: new Set<string>(), remembered: new Set<string>() };
      return fatesIn(viewOfTable(table, 'IPv4'), packet, facts).map(({ kind }) => kind);
    };
    rig.put(web(['a', 'b']), endpoints);
    await rig.sync();
    assert.deepEqual(fate('10.96.0.9', 82), ['rejected'], 'a port that the Service does not have');
    assert.deepEqual(fate('10.96.0.10', 80), ['dropped'], 'an address that no Service has');
    assert.deepEqual(fate('10.97.255.255', 80), ['dropped']);
    assert.deepEqual(fate('10.96.1.0', 80), ['untouched']);
    rig.put(web(['a']));
    await rig.sync();
    assert.deepEqual(fate('10.96.0.9', 81), ['rejected'], 'the address is still the Service’s');
    rig.remove('Service', 'default/web');
    await rig.sync();
    assert.deepEqual(fate('10.96.0.9', 80), ['dropped'], 'it is nobody’s now');
  });
});
