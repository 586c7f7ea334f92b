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
        ? ({ kind: 'connected', said: '' } as const)
        : ({ kind: 'failed', cause: 'no answer' } as const),
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
    assert.deepEqual(
      (await sampleNow(cache, network, () => 0.5)).map(({ service, address, port }) => [service, address, port]),
      [['default/one', '10.96.0.1', 80]],
    );
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
  /** Those of these objects that answered, of which some answer no more. */
  async function lost(before: readonly object[], after: readonly object[], answering: readonly string[]) {
    const network = new Network();
    network.answering = ['10.96.0.1:80'];
    const sampled = await sampleNow(cacheOf(...before), network, () => 0.5);
    assert.equal(sampled.length, 1);
    network.answering = answering;
    return [...(await lostServices(sampled, cacheOf(...after), network)).values()];
  }

  it('is lost where its endpoints answer without it', async () => {
    const both = web('one', 1, ['10.244.1.1', '10.244.1.2']);
    assert.deepEqual(await lost(both, both, ['10.244.1.1:8080', '10.244.1.2:8080']), [
      'Service default/one at 10.96.0.1:80 answered before the takeover and does not now, though its endpoints do: 10.244.1.1:8080, 10.244.1.2:8080',
    ]);
  });

  for (const [what, objects, answering] of [
    ['answers', web('one', 1), ['10.96.0.1:80', '10.244.1.1:8080']],
    ['has no endpoint that answers', web('one', 1), []],
    ['has another endpoint', web('one', 1, ['10.244.1.9']), ['10.244.1.9:8080']],
    ['is gone', [], ['10.244.1.1:8080']],
    ['has another address', web('one', 7, ['10.244.1.1']), ['10.244.1.1:8080']],
  ] as const) {
    it(`is not lost where it ${what}`, async () => {
      assert.deepEqual(await lost(web('one', 1), objects, answering), []);
    });
  }

  it('is not lost where one of its endpoints does not answer, which the rules may have chosen', async () => {
    const both = web('one', 1, ['10.244.1.1', '10.244.1.2']);
    assert.deepEqual(await lost(both, both, ['10.244.1.1:8080']), []);
  });

  it('is not in the sample where its policy is Local', async () => {
    const network = new Network();
    network.answering = ['10.96.0.1:80'];
    const [local, ...slices] = web('one', 1);
    const cache = cacheOf(
      { ...local, spec: { ...(local as { spec: object }).spec, internalTrafficPolicy: 'Local' } },
      ...slices,
    );
    assert.deepEqual(await sampleNow(cache, network, () => 0.5), []);
  });
});
