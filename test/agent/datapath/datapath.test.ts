/** The agent asks itself: what it serves, what counts as reached, and where it answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Datapath } from '../../../src/agent/datapath/datapath.ts';
import type { DatapathSockets, Reached } from '../../../src/agent/datapath/reach.ts';
import type { Address, Family } from '../../../src/base/address.ts';
import type { SourceEvent } from '../../../src/proxy/model/events.ts';

const RESERVED = ['192.0.2.80', '2001:db8::80'].map((text) => text as Address);

class Sockets implements DatapathSockets {
  readonly open = new Map<string, { readonly text: string; readonly isAllowed: (from: string) => boolean }>();
  answers: (token: string) => Reached = (said) => ({ kind: 'connected', said });
  routes = true;
  cannotListen: string | undefined;

  hasRoute: DatapathSockets['hasRoute'] = () => Promise.resolve(this.routes);

  reach: DatapathSockets['reach'] = () => Promise.resolve(this.answers([...this.open.values()][0]?.text ?? ''));

  answer: DatapathSockets['answer'] = (address, text, isAllowed) => {
    if (address === this.cannotListen) return Promise.reject(new Error('EADDRNOTAVAIL'));
    this.open.set(address, { text, isAllowed });
    return Promise.resolve({ address, port: 40_000, close: () => void this.open.delete(address) });
  };
}

function made(own: Readonly<Record<Family, readonly string[]>>, preferred: readonly string[] = []) {
  const sockets = new Sockets();
  const problems: string[] = [];
  const placed = new Map<string, SourceEvent>();
  const addresses = (family: Family) => Promise.resolve(own[family] as readonly Address[]);
  const datapath = new Datapath({ sockets, addresses, onProblem: (text) => problems.push(text) });
  const place = (event: SourceEvent) => void ('key' in event && placed.set(event.key, event));
  const open = () =>
    datapath.open({ addresses: RESERVED, nodeName: 'node-1', preferred: preferred as readonly Address[], place });
  const endpoints = () =>
    [...placed.values()].flatMap((event) =>
      event.kind === 'slice' && event.slice !== undefined ? [event.slice.endpoints[0]?.address as string] : [],
    );
  const clusterIPs = () =>
    [...placed.values()].flatMap((event) => (event.kind === 'service' ? [event.service?.clusterIPs] : []))[0];
  return { sockets, datapath, open, problems, endpoints, clusterIPs };
}

const BOTH = { IPv4: ['127.0.0.1', '192.168.77.2'], IPv6: ['fd00:77::2'] };

describe('the Service of the agent', () => {
  it('has the reserved address of each family, and the agent as its endpoint, at an address that is not loopback', async () => {
    const { open, sockets, endpoints, clusterIPs } = made(BOTH);
    await open();
    assert.deepEqual(clusterIPs(), RESERVED);
    assert.deepEqual(endpoints(), ['192.168.77.2', 'fd00:77::2']);
    const isAllowed = sockets.open.get('192.168.77.2')?.isAllowed;
    assert.deepEqual(
      ['192.168.77.2', '192.0.2.80', '192.168.77.9'].map((from) => isAllowed?.(from)),
      [true, true, false],
    );
  });

  it('has the Node’s own address as its endpoint, where the machine has it, before others', async () => {
    const own = { IPv4: ['172.17.0.1', '192.168.77.2'], IPv6: [] };
    const { open, endpoints } = made(own, ['203.0.113.5', '192.168.77.2']);
    await open();
    assert.deepEqual(endpoints(), ['192.168.77.2']);
  });

  it('leaves out a family of which the node has no address, or where it cannot listen, and says so', async () => {
    const { open, clusterIPs, datapath } = made({ IPv4: ['127.0.0.1', '192.168.77.2'], IPv6: ['::1'] });
    await open();
    assert.deepEqual(clusterIPs(), ['192.0.2.80']);
    const tentative = made(BOTH);
    tentative.sockets.cannotListen = 'fd00:77::2';
    await tentative.open();
    assert.deepEqual(tentative.clusterIPs(), ['192.0.2.80']);
    assert.deepEqual(tentative.problems, ['the data path of IPv6 cannot be checked: EADDRNOTAVAIL']);
    assert.deepEqual((await datapath.check(['IPv6'])).length, 0);
  });

  it('keeps its port where the address is still the node’s, answers elsewhere where it is not, and goes with the check', async () => {
    const own = { IPv4: ['192.168.77.2'], IPv6: [] as string[] };
    const { open, sockets, datapath, endpoints, clusterIPs } = made(own);
    await open();
    const before = sockets.open.get('192.168.77.2');
    await open();
    assert.equal(sockets.open.get('192.168.77.2'), before);
    own.IPv4 = ['192.168.77.3'];
    sockets.answers = () => ({ kind: 'failed', cause: 'no answer' });
    assert.equal(
      (await datapath.check(['IPv4']))[0]?.kind,
      'unknown',
      'the address moved, which is no fault of the rules',
    );
    assert.deepEqual([...sockets.open.keys()], ['192.168.77.3']);
    assert.deepEqual(endpoints(), ['192.168.77.3']);
    datapath.close();
    assert.deepEqual([sockets.open.size, endpoints(), clusterIPs()], [0, [], undefined]);
  });
});

describe('a connection through the rules', () => {
  for (const [what, answers, kind] of [
    ['passed where the agent itself answers', (said: string): Reached => ({ kind: 'connected', said }), 'passed'],
    ['failed where another program answers', (): Reached => ({ kind: 'connected', said: 'HTTP/1.1 400' }), 'failed'],
    ['failed where nothing answers', (): Reached => ({ kind: 'failed', cause: 'no answer' }), 'failed'],
  ] as const) {
    it(`has ${what}`, async () => {
      const { open, datapath, sockets } = made(BOTH);
      await open();
      sockets.answers = answers;
      const results = await datapath.check(['IPv4']);
      assert.deepEqual(
        results.map((result) => [result.family, result.kind]),
        [['IPv4', kind]],
      );
    });
  }

  it('is not made without a route, and nothing is known', async () => {
    const { open, datapath, sockets } = made(BOTH);
    await open();
    sockets.routes = false;
    sockets.answers = () => assert.fail('there is no route');
    assert.equal((await datapath.check(['IPv4']))[0]?.kind, 'unknown');
  });
});
