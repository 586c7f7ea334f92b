/** The agent asks itself: what it serves, what counts as reached, and where it answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Datapath } from '../../../src/agent/datapath/datapath.ts';
import type { DatapathSockets, JoinedPod, Reached } from '../../../src/agent/datapath/reach.ts';
import type { Address, Family } from '../../../src/base/address.ts';
import { breath } from '../../../src/base/clock.ts';
import type { SourceEvent } from '../../../src/proxy/model/events.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

const RESERVED = ['192.0.2.80', '2001:db8::80'].map((text) => text as Address);

function removed<T>(from: T[], one: T): void {
  assert.ok(from.includes(one), 'it was closed before');
  from.splice(from.indexOf(one), 1);
}

class Sockets implements DatapathSockets {
  readonly open = new Map<string, { readonly text: string; readonly isAllowed: (from: string) => boolean }>();
  answers: (token: string) => Reached = (said) => ({ kind: 'connected', said });
  routes = true;
  cannotListen: string | undefined;

  hasRoute: DatapathSockets['hasRoute'] = () => Promise.resolve(this.routes);

  reach: DatapathSockets['reach'] = () => Promise.resolve(this.answers([...this.open.values()][0]?.text ?? ''));

  /** Those of the namespaces that are joined now. */
  readonly pods: (readonly Address[])[] = [];
  /** The open ports in them. */
  readonly podPorts: Address[] = [];
  /** Joins wait for it. */
  joining: Promise<void> = Promise.resolve();
  podAnswers: (token: string) => Reached = (said) => ({ kind: 'connected', said });
  cannotJoin: string | undefined;
  isJoined = true;

  joinPod: DatapathSockets['joinPod'] = async (addresses) => {
    if (this.cannotJoin !== undefined) throw new Error(this.cannotJoin);
    assert.equal(this.pods.length, 0, 'the device of another Pod would be removed');
    this.pods.push(addresses);
    let token = '';
    const pod: JoinedPod = {
      addresses,
      reach: () => Promise.resolve(this.podAnswers(token)),
      answer: (address, text) => {
        token = text;
        this.podPorts.push(address);
        return Promise.resolve({ address, port: 50_000, close: () => removed(this.podPorts, address) });
      },
      isJoined: () => Promise.resolve(this.isJoined),
      close: () => removed(this.pods, addresses),
    };
    await this.joining;
    return pod;
  };

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
  const clock = new FakeClock();
  const datapath = new Datapath({ sockets, addresses, clock, onProblem: (text) => problems.push(text) });
  const place = (event: SourceEvent) => void ('key' in event && placed.set(event.key, event));
  const open = (mode: ModeName = 'nftables', reserved: readonly Address[] = RESERVED) =>
    datapath.open({ addresses: reserved, nodeName: 'node-1', mode, preferred: preferred as readonly Address[], place });
  const endpointsOf = (port: string) =>
    [...placed.values()].flatMap((event) =>
      event.kind === 'slice' && event.slice?.ports[0]?.name === port
        ? [event.slice.endpoints[0]?.address as string]
        : [],
    );
  const endpoints = () => endpointsOf('node');
  const clusterIPs = () =>
    [...placed.values()].flatMap((event) => (event.kind === 'service' ? [event.service?.clusterIPs] : []))[0];
  return { sockets, datapath, clock, open, problems, endpoints, endpointsOf, clusterIPs };
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

it('answers in a family that could not be listened in, a minute later, and tells the cause once', async () => {
  const world = made(BOTH);
  world.sockets.cannotListen = 'fd00:77::2';
  await world.open();
  for (let minute = 0; minute < 2; minute++) {
    world.clock.advance(60_000);
    await world.datapath.check(['IPv4', 'IPv6']);
  }
  assert.deepEqual([world.problems.length, world.endpoints()], [1, ['192.168.77.2']]);
  world.sockets.cannotListen = undefined;
  assert.deepEqual((await world.datapath.check(['IPv6'])).length, 0, 'not at once');
  world.clock.advance(60_000);
  await world.datapath.check(['IPv6']);
  assert.deepEqual(world.endpoints(), ['192.168.77.2', 'fd00:77::2']);
  assert.deepEqual(world.endpointsOf('pod'), ['192.0.2.81', '2001:db8::81']);
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
        results.map((result) => [result.from, result.family, result.kind]),
        [
          ['node', 'IPv4', kind],
          ['pod', 'IPv4', 'passed'],
        ],
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

describe('a connection as of a Pod', () => {
  type World = ReturnType<typeof made>;
  const told = async ({ datapath }: World) =>
    (await datapath.check(['IPv4', 'IPv6']))
      .filter(({ from }) => from === 'pod')
      .map(({ family, kind }) => [family, kind]);
  const both = (kind: string) => [
    ['IPv4', kind],
    ['IPv6', kind],
  ];
  const fails = (): Reached => ({ kind: 'failed', cause: 'no answer' });

  it('leads to the Pod itself, which has the address after the reserved one', async () => {
    const world = made(BOTH);
    await world.open();
    assert.deepEqual(world.endpointsOf('pod'), ['192.0.2.81', '2001:db8::81']);
    assert.deepEqual(await told(world), both('passed'));
    world.datapath.close();
    assert.deepEqual([world.sockets.pods, world.endpointsOf('pod')], [[], []]);
  });

  it('tells something only after one has passed: a firewall may not know the device', async () => {
    const world = made(BOTH);
    await world.open();
    world.sockets.podAnswers = fails;
    assert.deepEqual(await told(world), both('unknown'));
    world.sockets.podAnswers = (said) => ({ kind: 'connected', said });
    assert.deepEqual(await told(world), both('passed'));
    world.sockets.podAnswers = fails;
    assert.deepEqual(await told(world), both('failed'));
    await world.open();
    assert.deepEqual(await told(world), both('failed'), 'another configuration forgets nothing');
    await world.open('iptables');
    assert.deepEqual(await told(world), both('unknown'), 'the rules of another mode may not let the device through');
  });

  it('is told once where none passes for a while', async () => {
    const world = made(BOTH);
    await world.open();
    world.sockets.podAnswers = fails;
    for (let round = 0; round < 20; round++) await told(world);
    assert.equal(world.problems.length, 2, world.problems.join());
    assert.match(world.problems[0] ?? '', /^the data path of Pods is not known: .* no answer, and none did before$/);
  });

  it('is forgotten where another program removed the device, and another Pod joined within a minute, once', async () => {
    const world = made(BOTH);
    await world.open();
    await told(world);
    world.sockets.podAnswers = fails;
    world.sockets.isJoined = false;
    assert.deepEqual(await told(world), []);
    assert.match(world.problems.join(), /^another program took the device/);
    assert.deepEqual([await told(world), world.sockets.pods], [[], []], 'not at once: it may be removed again');
    world.sockets.isJoined = true;
    world.sockets.podAnswers = (said) => ({ kind: 'connected', said });
    world.sockets.cannotJoin = 'EEXIST: file already exists';
    world.clock.advance(60_000);
    assert.deepEqual(await told(world), []);
    world.sockets.cannotJoin = undefined;
    assert.deepEqual(await told(world), []);
    world.clock.advance(60_000);
    assert.deepEqual(await told(world), both('passed'), 'also after a try that failed');
    assert.equal(world.sockets.pods.length, 1);
  });

  it('is of one Pod at a time, that of the addresses that were asked for last', async () => {
    const world = made(BOTH);
    const { promise, resolve } = Promise.withResolvers<void>();
    world.sockets.joining = promise;
    const opened = [world.open(), world.open('iptables', ['198.51.100.80' as Address])];
    await breath();
    resolve();
    await Promise.all(opened);
    assert.deepEqual([world.sockets.pods, world.sockets.podPorts], [[['198.51.100.81']], ['198.51.100.81']]);
    const reached = world.sockets.open.get('192.168.77.2')?.isAllowed('198.51.100.80');
    assert.ok(reached, 'the port that was kept answers the address that the Service has now');
  });

  it('is of none when the check ends while it is joined', async () => {
    const world = made(BOTH);
    const { promise, resolve } = Promise.withResolvers<void>();
    world.sockets.joining = promise;
    const opened = world.open();
    await breath();
    world.datapath.close();
    resolve();
    await opened;
    assert.deepEqual([world.sockets.pods, world.sockets.podPorts, world.sockets.open.size], [[], [], 0]);
  });

  it('that was broken is not, once the Pod or the mode is another one', async () => {
    for (const change of [
      (world: World) => world.open('ipvs'),
      (world: World) => world.open('nftables', ['198.51.100.80' as Address]),
    ]) {
      const world = made(BOTH);
      const { health } = world.datapath;
      const round = async () => health.round(await world.datapath.check(['IPv4', 'IPv6']));
      await world.open();
      await round();
      world.sockets.podAnswers = fails;
      await round();
      await round();
      assert.equal(health.reasons.length, 2);
      await change(world);
      await round();
      assert.deepEqual(health.reasons, []);
    }
  });

  it('is not made where another route of the node leads to the address', async () => {
    const world = made(BOTH);
    world.sockets.isJoined = false;
    await world.open();
    assert.deepEqual([world.sockets.pods, world.endpointsOf('pod')], [[], []]);
    assert.match(world.problems.join(), /not checked, .*: another route of the node leads to 192\.0\.2\.81$/);
  });

  it('is not made without CAP_SYS_ADMIN, which is told once, and that of the node goes on', async () => {
    const world = made(BOTH);
    world.sockets.cannotJoin = 'unshare: EPERM: operation not permitted';
    for (let minute = 0; minute < 3; minute++) {
      await world.open();
      world.clock.advance(60_000);
      await told(world);
    }
    assert.equal(world.problems.length, 1, world.problems.join());
    assert.deepEqual(
      (await world.datapath.check(['IPv4'])).map(({ from, kind }) => [from, kind]),
      [['node', 'passed']],
    );
    assert.deepEqual(world.endpointsOf('pod'), []);
  });
});
