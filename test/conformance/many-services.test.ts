/** Among thousands of Services, where the dispatch trees are deep, each address and node port still finds its own endpoints, and nothing else does. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, endpointText } from '../../src/base/address.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { fatesIn, viewOfSaved } from '../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { Rig } from '../helpers/proxy/rig.ts';

const SERVICES = 2500;
const NODE = { IPv4: '192.168.77.2', IPv6: 'fd00:77::2' } as const;

/** Cluster IPs in clusters and far apart; the last 200 Services share one external address on different ports. */
function clusterIP(family: 'IPv4' | 'IPv6', n: number): string {
  const spread = n % 3 === 0 ? n : (n * 7919) % 65_536;
  const high = n % 3 === 0 ? 0 : 1 + (n % 7);
  return family === 'IPv4'
    ? `10.${96 + high}.${spread >> 8}.${spread & 255}`
    : `fd00:96::${high}:${spread.toString(16)}`;
}

const podIP = (family: 'IPv4' | 'IPv6', n: number) =>
  family === 'IPv4' ? `10.244.${n >> 8}.${n & 255}` : `fd00:244::${n.toString(16)}`;
const shared = { IPv4: '192.0.2.1', IPv6: 'fd00:192::1' } as const;
const isShared = (n: number) => n >= SERVICES - 200;

describe('many Services', () => {
  for (const family of ['IPv4', 'IPv6'] as const) {
    it(family, async () => {
      const kernel = new FakeIptables();
      const rig = new Rig({ commands: kernel, families: [family] });
      for (let n = 0; n < SERVICES; n++) {
        const ports = [{ port: isShared(n) ? n : 80, nodePort: 30_000 + n }];
        const external = isShared(n) ? { externalIPs: [shared[family]] } : {};
        rig.put(
          service({ name: `s${n}`, spec: { type: 'NodePort', clusterIP: clusterIP(family, n), ports, ...external } }),
        );
        // Every fifth has no endpoint.
        if (n % 5 !== 0)
          rig.put(slice({ name: `s${n}-a`, service: `s${n}`, addressType: family, endpoints: [podIP(family, n)] }));
      }
      assert.equal((await rig.sync()).outcome, 'complete');
      assert.deepEqual(rig.faults, []);
      const view = viewOfSaved(kernel.save(family), family);
      const facts = { localAddresses: new Set([NODE[family]]), remembered: new Set<string>() };
      const tell = (destination: string, port: number) => {
        const source = podIP(family, 60_000) as Address;
        const packet = {
          protocol: 'TCP',
          source,
          destination: destination as Address,
          port,
          device: 'eth0',
          state: 'NEW',
        } as const;
        return fatesIn(view, packet, facts).map((fate) => `${fate.kind} ${fate.backend}`);
      };
      for (let n = 1; n < SERVICES; n += 97) {
        const wanted = n % 5 === 0 ? ['rejected '] : [`balanced ${endpointText(podIP(family, n) as Address, 8080)}`];
        assert.deepEqual(tell(clusterIP(family, n), isShared(n) ? n : 80), wanted, `cluster IP of s${n}`);
        assert.deepEqual(tell(clusterIP(family, n), 81), ['untouched '], `another port of s${n}`);
        assert.deepEqual(tell(NODE[family], 30_000 + n), wanted, `node port of s${n}`);
        if (isShared(n)) assert.deepEqual(tell(shared[family], n), wanted, `external address of s${n}`);
      }
      assert.deepEqual(tell(shared[family], SERVICES + 1), ['untouched ']);
      assert.deepEqual(tell(NODE[family], 29_999), ['untouched ']);
    });
  }
});
