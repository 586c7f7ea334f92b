/** Services that answered before a takeover: which are asked, and which count as lost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DatapathSockets } from '../../../src/agent/datapath/reach.ts';
import { lostServices, sampleNow } from '../../../src/agent/takeover/sample.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

/** Only these addresses and ports answer. */
class Network implements Pick<DatapathSockets, 'reach'> {
  readonly asked: string[] = [];
  answering: readonly string[] = [];

  readonly reach: DatapathSockets['reach'] = ({ address, port }) => {
    this.asked.push(`${address}:${port}`);
    return Promise.resolve(
      this.answering.includes(`${address}:${port}`)
        ? { kind: 'connected', said: '' }
        : { kind: 'silent', cause: 'no answer' },
    );
  };
}

const web = (name: string, n: number, endpoints: readonly string[] = [`10.244.1.${n}`]) => [
  service({ name, spec: { clusterIP: `10.96.0.${n}`, ports: [{ port: 80 }] } }),
  slice({ name: `${name}-1`, service: name, endpoints: [...endpoints] }),
];
const cacheOf = (...objects: object[]) => new Rig({ commands: new FakeIptables() }).put(...objects).cache;

describe('the sample', () => {
  it('has Services that answer now, with a TCP port and an endpoint', async () => {
    const network = new Network();
    network.answering = ['10.96.0.1:80', '10.96.0.3:80'];
    const udp = service({ name: 'dns', spec: { clusterIP: '10.96.0.4', ports: [{ port: 53, protocol: 'UDP' }] } });
    const cache = cacheOf(...web('one', 1), ...web('two', 2), ...web('three', 3, []), udp);
    assert.deepEqual(await sampleNow(cache, network, () => 0.5), [
      { service: 'default/one', address: '10.96.0.1', port: 80 },
    ]);
    assert.deepEqual(network.asked.toSorted(), ['10.96.0.1:80', '10.96.0.2:80']);
  });

  it('has 20 at most, chosen at random', async () => {
    const network = new Network();
    const objects = Array.from({ length: 50 }, (_, i) => web(`s${i}`, i + 1)).flat();
    let n = 0;
    await sampleNow(cacheOf(...objects), network, () => (n += 0.01));
    assert.equal(network.asked.length, 20);
    n = 1;
    const others = new Network();
    await sampleNow(cacheOf(...objects), others, () => (n -= 0.01));
    assert.notDeepEqual(others.asked, network.asked);
  });
});

describe('a Service that does not answer any more', () => {
  const sampled = [{ service: 'default/one', address: '10.96.0.1', port: 80 }];

  it('is lost where one of its endpoints answers without it', async () => {
    const network = new Network();
    network.answering = ['10.244.1.1:8080'];
    const lost = await lostServices(sampled, cacheOf(...web('one', 1)), network);
    assert.deepEqual(lost, [
      'Service default/one at 10.96.0.1:80 answered before the takeover and does not now, though its endpoint 10.244.1.1:8080 does',
    ]);
  });

  for (const [what, objects, answering] of [
    ['answers', web('one', 1), ['10.96.0.1:80', '10.244.1.1:8080']],
    ['has no endpoint that answers', web('one', 1), []],
    ['is gone', [], ['10.244.1.1:8080']],
    ['has another address', web('one', 7, ['10.244.1.1']), ['10.244.1.1:8080']],
  ] as const) {
    it(`is not lost where it ${what}`, async () => {
      const network = new Network();
      network.answering = answering;
      assert.deepEqual(await lostServices(sampled, cacheOf(...objects), network), []);
    });
  }
});
