/** Which Nodes become suspects, and when they are none any more (docs/semantics.md 3.6, k8s#101101). */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Reply } from '../../../src/agent/failover/suspicion.ts';
import type { Address } from '../../../src/base/address.ts';
import { decodeService } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { type Deployed, pod, World } from './rig.ts';

/** Two pods on each of three other Nodes, and one here. */
const WEB: Deployed = {
  name: 'web',
  ip: 10,
  pods: [
    [1, 1],
    [2, 1],
    [2, 2],
    [3, 1],
    [3, 2],
    [4, 1],
  ],
};
const ofNode = (node: number) => (address: Address) => address.startsWith(`10.244.${node}.`);

/** A cluster whose second Node dies when a connection to its first pod is on its way. */
function dying(test: TestContext, ...more: readonly Deployed[]): World {
  const world = new World(test, WEB, ...more);
  world.connect(10, pod(2, 1));
  world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
  world.run();
  return world;
}

/** Nothing becomes of the Service for a minute of connections to a pod that nobody answers. */
async function staysAsItIs(world: World, to = pod(2, 1)): Promise<void> {
  if (world.readings === 0) world.run();
  const before = world.backends('web');
  for (let second = 0; second < 60; second++) {
    world.connect(10, to);
    await world.pass(1000);
  }
  assert.deepEqual(world.kinds, []);
  assert.deepEqual(world.backends('web'), before);
  assert.ok(world.asked.includes(`${to}:8080`), 'it was asked');
  assert.ok(world.spared.length > 0, 'it was judged');
}

describe('a Node that dies', () => {
  it('gets no new connections after two readings and one round of questions', async (t) => {
    const world = dying(t);
    await world.pass(900);
    assert.deepEqual(world.asked, [], 'one reading alone proves nothing: each connection is unanswered at first');
    await world.pass(900);
    assert.deepEqual(world.events, [{ kind: 'suspect', node: 'node-2', asked: 2, others: 2 }]);
    assert.deepEqual(world.backends('web'), [pod(1, 1), pod(3, 1), pod(3, 2), pod(4, 1)]);
    assert.deepEqual([...world.cache.own.suspects], ['node-2']);
  });

  it('takes the endpoints of all its Services along, also of UDP and SCTP, but never more than half', async (t) => {
    const world = dying(
      t,
      {
        name: 'dns',
        ip: 53,
        pods: [
          [2, 3],
          [3, 3],
        ],
        protocol: 'UDP',
      },
      {
        name: 'calls',
        ip: 54,
        pods: [
          [2, 4],
          [3, 4],
        ],
        protocol: 'SCTP',
      },
      {
        name: 'most',
        ip: 55,
        pods: [
          [2, 5],
          [2, 6],
          [2, 7],
          [3, 5],
        ],
      },
      { name: 'only', ip: 56, pods: [[2, 8]] },
    );
    await world.pass(3000);
    assert.deepEqual(world.backends('dns'), [pod(3, 3)]);
    assert.deepEqual(world.backends('calls'), [pod(3, 4)]);
    assert.deepEqual(world.backends('most'), [pod(2, 7), pod(3, 5)]);
    assert.deepEqual(world.backends('only'), [pod(2, 8)]);
  });

  it('is found by connections of IPv6, too', async (t) => {
    const world = new World(t, WEB);
    const key = 'default/six';
    const spec = { clusterIP: 'fd00:96::10', ports: [{ port: 80 }] };
    world.cache.take(decodeService(service({ name: 'six', spec }), key));
    const endpoints = [2, 2, 3, 3].map((node, i) => ({ addresses: [`fd00::${node}:${i}`], nodeName: `node-${node}` }));
    world.cache.take(decodeSlice(slice({ name: 'six-1', service: 'six', endpoints }), `${key}-1`));
    world.deploy(WEB);
    assert.equal(world.backends('six').length, 4);
    world.reply = (address) => (ofNode(2)(address) || address.startsWith('fd00::2:') ? 'silence' : 'answer');
    world.connect('fd00:96::10' as Address, 'fd00::2:1' as Address);
    world.run();
    await world.pass(3000);
    assert.deepEqual(world.kinds, ['suspect node-2']);
    assert.deepEqual(world.backends('six'), ['fd00::3:2', 'fd00::3:3']);
  });

  it('is found by connections to a node port, too', async (t) => {
    const world = new World(t, WEB);
    const spec = { type: 'NodePort', clusterIP: '10.96.0.10', ports: [{ port: 8000, nodePort: 80 }] };
    world.cache.take(decodeService(service({ name: 'web', spec }), 'default/web'));
    world.deploy({ name: 'other', ip: 11, pods: [[3, 7]] });
    world.connect('192.168.0.1' as Address, pod(2, 1));
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    world.run();
    await world.pass(3000);
    assert.deepEqual(world.kinds, ['suspect node-2']);
  });

  it('counts for a Service that gets an endpoint there later', async (t) => {
    const world = dying(t);
    await world.pass(3000);
    world.deploy({
      name: 'new',
      ip: 57,
      pods: [
        [2, 9],
        [3, 9],
      ],
    });
    assert.deepEqual(world.backends('new'), [pod(3, 9)]);
  });

  it('is asked every second, and is back at the first answer, also of a port that nobody serves', async (t) => {
    const world = dying(t);
    await world.pass(5000);
    assert.deepEqual(world.kinds, ['suspect node-2']);
    world.reply = (address, port) => (ofNode(2)(address) && port !== 9 ? 'silence' : 'answer');
    await world.pass(2000);
    assert.deepEqual(world.kinds, ['suspect node-2', 'answers node-2']);
    assert.equal(world.backends('web').length, 6);
  });

  it('that reboots dies and comes back as often as it likes', async (t) => {
    const world = dying(t);
    for (let boots = 1; boots <= 3; boots++) {
      world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
      world.connect(10, pod(2, 2));
      await world.pass(4000);
      assert.equal(world.backends('web').length, 4);
      world.reply = () => 'answer';
      await world.pass(3000);
      assert.equal(world.backends('web').length, 6);
    }
    assert.equal(world.events.length, 6);
  });

  it('is forgotten when its slices have no ready endpoint there any more', async (t) => {
    const world = dying(t);
    await world.pass(3000);
    world.deploy({
      ...WEB,
      pods: [
        [1, 1],
        [3, 1],
        [3, 2],
        [4, 1],
      ],
      unready: [
        [2, 1],
        [2, 2],
      ],
    });
    await world.pass(7000);
    assert.deepEqual(world.kinds, ['suspect node-2', 'unused node-2']);
    assert.deepEqual([...world.cache.own.suspects], []);
  });

  it('is judged anew after five minutes, and only by a new connection', async (t) => {
    const world = dying(t);
    const end = world.connect(10, pod(2, 2));
    await world.pass(304_000);
    assert.deepEqual(world.kinds.slice(0, 2), ['suspect node-2', 'expired node-2']);
    end();
    await world.pass(5000);
    assert.equal(world.kinds.at(-1), 'suspect node-2');
  });

  it('is found beside another one that died at the same time', async (t) => {
    const world = new World(t, { ...WEB, pods: [...WEB.pods, [4, 2], [5, 1]] });
    world.connect(10, pod(2, 1));
    world.connect(10, pod(3, 1));
    world.reply = (address) => (ofNode(2)(address) || ofNode(3)(address) ? 'silence' : 'answer');
    world.run();
    await world.pass(12_000);
    assert.deepEqual(world.kinds.toSorted(), ['suspect node-2', 'suspect node-3']);
    assert.deepEqual(world.backends('web'), [pod(1, 1), pod(4, 1), pod(4, 2), pod(5, 1)]);
  });
});

describe('no suspect', () => {
  it('is the Node of a pod that a NetworkPolicy shields', async (t) => {
    const world = new World(t, WEB);
    world.reply = (address) => (address === pod(2, 1) ? 'silence' : 'answer');
    await staysAsItIs(world);
    assert.ok(world.asked.filter((to) => to === `${pod(2, 1)}:8080`).length <= 3, 'it is asked every half minute');
  });

  it('is a Node of which all pods of one namespace are silent, shielded or invented: those of another one are asked, too', async (t) => {
    const isShielded = (address: Address) => Number(address.split('.')[3]) >= 11;
    const pods: Deployed['pods'] = [11, 12, 13, 14].map((n) => [2, n] as const);
    const shielded = { name: 'shielded', namespace: 'closed', ip: 20, pods };
    for (const deployed of [
      [shielded, WEB],
      [WEB, shielded],
    ]) {
      const world = new World(t, ...deployed);
      world.reply = (address) => (isShielded(address) ? 'silence' : 'answer');
      world.run();
      for (let second = 0; second < 60; second++) {
        for (const [node, n] of pods) world.connect(20, pod(node, n));
        await world.pass(1000);
      }
      assert.deepEqual(world.kinds, []);
      assert.equal(world.backends('web').length, WEB.pods.length);
      assert.ok(world.asked.includes(`${pod(2, 11)}:8080`) && world.spared.includes('answers'), 'it was judged');
    }
  });

  it('is the Node of a pod that accepts late', async (t) => {
    const world = new World(t, WEB);
    await staysAsItIs(world);
  });

  it('is a Node whose pods all have a full backlog: the ports beside it refuse', async (t) => {
    const world = new World(t, WEB);
    world.reply = (address, port) => (ofNode(2)(address) && port === 8080 ? 'silence' : 'answer');
    await staysAsItIs(world);
  });

  it('is any Node while nothing anywhere answers: the own network is down', async (t) => {
    const world = new World(t, WEB);
    world.reply = (address) => (ofNode(1)(address) ? 'answer' : 'silence');
    await staysAsItIs(world);
  });

  it('is any Node while this node cannot ask', async (t) => {
    const world = new World(t, WEB);
    world.reply = (address): Reply => (ofNode(2)(address) ? 'unknown' : 'answer');
    await staysAsItIs(world);
  });

  it('is a Node with one endpoint alone: a NetworkPolicy looks the same', async (t) => {
    const world = new World(t, WEB);
    world.reply = (address) => (ofNode(4)(address) ? 'silence' : 'answer');
    await staysAsItIs(world, pod(4, 1));
  });

  it('is the other one of two Nodes: nothing tells which network is down', async (t) => {
    const world = new World(t, {
      ...WEB,
      pods: [
        [1, 1],
        [2, 1],
        [2, 2],
      ],
    });
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    await staysAsItIs(world);
  });

  it('comes from connections that are answered before the next reading', async (t) => {
    const world = new World(t, WEB);
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    world.run();
    for (let n = 0; n < 50; n++) {
      const end = world.connect(10, pod(2, 1));
      await world.pass(300);
      end();
    }
    assert.deepEqual(world.asked, []);
  });

  it('is a Node whose other pods were deleted a moment ago, and are silent for that', async (t) => {
    const world = new World(t, WEB, { name: 'other', ip: 11, pods: [[2, 3]] });
    world.reply = (address) => (address === pod(3, 1) ? 'silence' : 'answer');
    world.connect(10, pod(3, 1));
    world.run();
    await world.pass(2000);
    assert.ok(world.asked.includes(`${pod(3, 1)}:8080`), 'endpoints of all Nodes were looked for');
    world.deploy({ name: 'other', ip: 11, pods: [[3, 4]] });
    world.deploy({ ...WEB, pods: WEB.pods.filter(([node, n]) => node !== 2 || n === 1) });
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    await staysAsItIs(world);
  });

  it('is a Node whose pods are replaced while they are asked', async (t) => {
    const world = new World(t, WEB);
    world.connect(10, pod(2, 1));
    let isReplaced = false;
    world.reply = (address) => {
      if (address === pod(2, 1) && !isReplaced) {
        isReplaced = true;
        const pods = WEB.pods.map(([node, n]) => [node, node === 2 ? n + 2 : n] as const);
        world.deploy({ ...WEB, pods });
      }
      const isOld = address === pod(2, 1) || address === pod(2, 2);
      return isOld ? 'silence' : 'answer';
    };
    world.run();
    await world.pass(12_000);
    assert.equal(isReplaced, true);
    assert.deepEqual(world.kinds, []);
  });
});

describe('a NetworkPolicy that shields all pods of a Node from this one', () => {
  it('is not told from a dead Node: half of the endpoints are left, and the others are back after five minutes', async (t) => {
    const pods: Deployed['pods'] = [
      [2, 1],
      [2, 2],
      [2, 3],
      [3, 1],
    ];
    const world = new World(t, { ...WEB, pods });
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    const end = world.connect(10, pod(2, 1));
    world.run();
    await world.pass(3000);
    assert.deepEqual(world.backends('web'), [pod(2, 3), pod(3, 1)]);
    end();
    await world.pass(302_000);
    assert.equal(world.backends('web').length, 4);
  });
});

describe('the watch', () => {
  it('reads at most once a second, and asks nobody where every connection is answered', async (t) => {
    const world = new World(t, WEB);
    world.run();
    await world.pass(60_000);
    assert.ok(world.readings >= 30 && world.readings <= 60, `${world.readings} readings`);
    assert.deepEqual(world.asked, []);
  });

  it('looks no endpoint up twice for the same connection once it answered', async (t) => {
    const world = new World(t, WEB);
    world.connect(10, pod(2, 1));
    world.run();
    await world.pass(60_000);
    assert.equal(world.asked.filter((to) => to === `${pod(2, 1)}:8080`).length, 1);
  });

  it('unpacks a Service once a reading, however many of its endpoints do not answer', async (t) => {
    const pods: Deployed['pods'] = [1, 2, 3, 4, 5].map((n) => [1, n] as const);
    const world = new World(t, { name: 'here', ip: 30, pods });
    for (const [node, n] of pods) world.connect(30, pod(node, n));
    world.run();
    await world.pass(20_000);
    assert.ok(world.readings > 10, `${world.readings} readings`);
    assert.equal(world.unpacked, world.readings - 1, 'the first reading alone proves nothing');
  });

  it('says once that the kernel cannot be read, and goes on when it can', async (t) => {
    const world = new World(t, WEB);
    world.refusal = 'EPERM';
    world.run();
    await world.pass(70_000);
    assert.deepEqual(world.events, [{ kind: 'unread', cause: 'EPERM' }]);
    world.refusal = undefined;
    await world.pass(31_000);
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    world.connect(10, pod(2, 1));
    await world.pass(4000);
    assert.equal(world.kinds.at(-1), 'suspect node-2');
  });

  it('ends with an unexpected error of one of its questions, and asks suspects no more', async (t) => {
    const world = new World(t, WEB);
    world.connect(10, pod(2, 1));
    world.reply = (address) => (ofNode(2)(address) ? 'silence' : 'answer');
    const failures: unknown[] = [];
    world.run((error) => failures.push(error));
    await world.pass(3000);
    assert.deepEqual(world.kinds, ['suspect node-2']);
    world.reply = () => {
      throw new Error('a bug');
    };
    await world.pass(2000);
    assert.match(String(failures), /a bug/);
    const asked = world.asked.length;
    await world.pass(5000);
    assert.deepEqual([failures.length, world.asked.length], [1, asked]);
  });

  it('ignores connections to this node, to endpoints that are not ready, and to no Service', async (t) => {
    const world = new World(t, { ...WEB, unready: [[2, 7]] });
    world.reply = () => 'silence';
    world.connect(10, pod(1, 1));
    world.connect(10, pod(2, 7));
    world.connect(99, pod(2, 1));
    world.run();
    await world.pass(10_000);
    assert.deepEqual(world.asked, []);
  });
});
