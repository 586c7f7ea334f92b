/** Deleted objects are forgotten: after ten thousand endpoints come and go, memory use is as before (cil#28696). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const ENDPOINTS = 10_000;
const PER_SLICE = 100;
/** Bytes of noise: one percent of the endpoints' memory. */
const NOISE = 1_000_000;

const PORTS = [
  { name: 'dns-tcp', port: 53 },
  { name: 'dns', port: 53, protocol: 'UDP' },
];

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as (options: object) => void;

/** Bytes in use after a garbage collection. */
function used(): number {
  collect({ type: 'major' });
  return process.memoryUsage().heapUsed;
}

describe('memory', () => {
  it('is as before once ten thousand endpoints are deleted (cil#28696)', async () => {
    const kernel = new FakeIptables();
    const rig = new Rig({ commands: kernel, families: ['IPv4'] });
    const fill = async () => {
      for (let n = 0; n < ENDPOINTS / PER_SLICE; n++) {
        const endpoints = Array.from({ length: PER_SLICE }, (_, i) => ({
          addresses: [`10.${n}.0.${i}`],
          nodeName: i % 2 === 0 ? 'node' : 'other',
        }));
        rig.put(slice({ name: `big-${n}`, service: 'big', addressType: 'IPv4', ports: PORTS, endpoints }));
      }
      assert.equal((await rig.sync()).outcome, 'complete');
    };
    const empty = async () => {
      for (let n = 0; n < ENDPOINTS / PER_SLICE; n++) rig.remove('EndpointSlice', `default/big-${n}`);
      assert.equal((await rig.sync()).outcome, 'complete');
      kernel.ran.length = 0;
    };
    rig.put(service({ name: 'big', spec: { clusterIP: '10.96.0.10', ports: PORTS } }));
    // A first round: memory that is allocated once (compiled code, tables of strings) must not count.
    await fill();
    await empty();
    const before = used();
    await fill();
    const full = used();
    await empty();
    const after = used();
    assert.ok(full - before > 5 * NOISE, `ten thousand endpoints take ${full - before} bytes`);
    assert.ok(after - before < NOISE, `${after - before} bytes stay of ${full - before}`);
  });
});
