/** The agent asks itself: what it serves, what counts as reached, and where it answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Datapath } from '../../../src/agent/datapath/datapath.ts';
import type { DatapathSockets, Reached } from '../../../src/agent/datapath/reach.ts';
import type { Address, Family } from '../../../src/base/address.ts';

const RESERVED = ['192.0.2.80', '2001:db8::80'].map((text) => text as Address);

class Sockets implements DatapathSockets {
  readonly open = new Map<string, { readonly text: string; readonly isAllowed: (from: string) => boolean }>();
  answers: (token: string) => Reached = (said) => ({ kind: 'connected', said });

  reach: DatapathSockets['reach'] = () => Promise.resolve(this.answers([...this.open.values()][0]?.text ?? ''));

  answer: DatapathSockets['answer'] = (address, text, isAllowed) => {
    this.open.set(address, { text, isAllowed });
    return Promise.resolve({ address, port: 40_000, close: () => void this.open.delete(address) });
  };
}

function made(own: Readonly<Record<Family, readonly string[]>>) {
  const sockets = new Sockets();
  const addresses = (family: Family) => Promise.resolve(own[family] as readonly Address[]);
  return { sockets, datapath: new Datapath({ sockets, addresses }) };
}

const BOTH = { IPv4: ['127.0.0.1', '192.168.77.2'], IPv6: ['fd00:77::2'] };

describe('the Service of the agent', () => {
  it('has the reserved address of each family, and the agent as its endpoint, at an address that is not loopback', async () => {
    const { datapath, sockets } = made(BOTH);
    const [service, ...slices] = await datapath.open(RESERVED, 'node-1');
    assert.ok(service?.kind === 'service');
    assert.deepEqual(service.service?.clusterIPs, RESERVED);
    assert.deepEqual(
      slices.map((event) => event.kind === 'slice' && event.slice?.endpoints[0]?.address),
      ['192.168.77.2', 'fd00:77::2'],
    );
    const isAllowed = sockets.open.get('192.168.77.2')?.isAllowed;
    assert.deepEqual(
      [isAllowed?.('192.168.77.2'), isAllowed?.('192.0.2.80'), isAllowed?.('192.168.77.9')],
      [true, true, false],
    );
  });

  it('leaves out a family of which the node has no address', async () => {
    const { datapath } = made({ IPv4: ['127.0.0.1', '192.168.77.2'], IPv6: ['::1'] });
    const [service, ...slices] = await datapath.open(RESERVED, 'node-1');
    assert.deepEqual([service?.kind === 'service' && service.service?.clusterIPs, slices.length], [['192.0.2.80'], 1]);
    assert.deepEqual(datapath.families, ['IPv4']);
  });

  it('keeps its port where the address is still the node’s, and answers elsewhere where it is not', async () => {
    const own = { IPv4: ['192.168.77.2'], IPv6: [] as string[] };
    const { datapath, sockets } = made(own);
    await datapath.open(RESERVED, 'node-1');
    const before = sockets.open.get('192.168.77.2');
    await datapath.open(RESERVED, 'node-1');
    assert.equal(sockets.open.get('192.168.77.2'), before);
    own.IPv4 = ['192.168.77.3'];
    await datapath.open(RESERVED, 'node-1');
    assert.deepEqual([...sockets.open.keys()], ['192.168.77.3']);
    datapath.close();
    assert.equal(sockets.open.size, 0);
  });
});

describe('a connection through the rules', () => {
  for (const [what, answers, kind] of [
    ['passed where the agent itself answers', (said: string) => ({ kind: 'connected', said }) as const, 'passed'],
    ['failed where another program answers', () => ({ kind: 'connected', said: 'HTTP/1.1 400' }) as const, 'failed'],
    ['failed where nothing answers', () => ({ kind: 'silent', cause: 'no answer' }) as const, 'failed'],
    ['failed where it is refused', () => ({ kind: 'refused', cause: 'ECONNREFUSED' }) as const, 'failed'],
    ['unknown without a route', () => ({ kind: 'unroutable', cause: 'ENETUNREACH' }) as const, 'unknown'],
  ] as const) {
    it(`has ${what}`, async () => {
      const { datapath, sockets } = made(BOTH);
      await datapath.open(RESERVED, 'node-1');
      sockets.answers = answers;
      const results = await datapath.check(['IPv4']);
      assert.deepEqual(
        results.map((result) => [result.family, result.kind]),
        [['IPv4', kind]],
      );
    });
  }
});
