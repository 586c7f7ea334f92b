/** Node ports on loopback: which are served, by which endpoints, and what cannot be served. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { relayPort } from '../../../src/agent/relay/node-ports.ts';
import { MAX_CONNECTIONS, MAX_CONNECTIONS_PER_PORT } from '../../../src/agent/relay/relay.ts';
import type { Address } from '../../../src/base/address.ts';
import { until } from '../../helpers/base/until.ts';
import { listeningPorts } from '../../helpers/kernel/listening.ts';
import { answerAt, backend, Client, freePort, LOOPBACK, RETRY, RelayRig, servicePort } from './rig.ts';

const isListening = (port: number) => listeningPorts(process.pid).includes(port);

describe('node ports on loopback', () => {
  it('are served for TCP alone, on the address of the family', async (test) => {
    const rig = new RelayRig(test);
    rig.relay.listenAt([LOOPBACK, '::1' as Address], RETRY);
    await rig.named(1);
    const [port, udp, sctp] = [await freePort('::1'), await freePort(), await freePort()];
    await rig.becomes(
      servicePort(port, { cluster: [1] }),
      servicePort(udp, { protocol: 'UDP', cluster: [1] }),
      servicePort(sctp, { protocol: 'SCTP', cluster: [1] }),
    );
    assert.equal(await answerAt(port), '1');
    assert.equal(await answerAt(port, '::1'), undefined);
    await rig.becomes(servicePort(port, { family: 'IPv6', cluster: [1] }));
    assert.deepEqual([isListening(udp), isListening(sctp)], [false, false]);
    const six = new Client(port, '::1');
    await six.ends('reset');
    assert.ok(rig.connected.includes('[fd00::1]:80'), rig.connected.join());
    // IPV6_V6ONLY: the two sockets do not get in each other's way, and neither is wider than loopback.
    assert.equal(await answerAt(port), '1');
    assert.deepEqual(
      rig.relay.counts.families.map(({ family, listeners }) => [family, listeners]),
      [
        ['IPv4', 1],
        ['IPv6', 1],
      ],
    );
  });

  it('spread over all endpoints of policy Cluster, and over those of this node with policy Local', async (test) => {
    const rig = new RelayRig(test);
    rig.random = Math.random;
    await rig.named(1, 2, 3);
    const port = await freePort();
    const seen = async () => {
      const found = new Set<string | undefined>();
      for (let i = 0; i < 60; i++) found.add(await answerAt(port));
      return [...found].sort();
    };
    await rig.becomes(servicePort(port, { cluster: [1, 2, 3], local: [2, 3] }));
    assert.deepEqual(await seen(), ['1', '2', '3']);
    await rig.becomes(servicePort(port, { policy: 'Local', cluster: [1, 2, 3], local: [2, 3] }));
    assert.deepEqual(await seen(), ['2', '3']);
    await rig.becomes(servicePort(port, { policy: 'Local', cluster: [1, 2, 3] }));
    assert.equal(await answerAt(port), undefined, 'no endpoint on this node: refused');
    assert.equal(isListening(port), false);
  });

  it('stay with one endpoint by ClientIP until no connection has begun for the time of the affinity', async (test) => {
    const rig = new RelayRig(test);
    await rig.named(1, 2);
    const port = await freePort();
    const sticky = { cluster: [1, 2], affinitySeconds: 100 };
    await rig.becomes(servicePort(port, sticky));
    const asks = async (draw: number) => {
      rig.random = () => draw;
      return await answerAt(port);
    };
    assert.equal(await asks(0.9), '2');
    rig.clock.advance(99_000);
    assert.equal(await asks(0), '2');
    rig.clock.advance(100_000);
    assert.equal(await asks(0), '2', 'each connection begins the time again');
    rig.clock.advance(100_001);
    assert.equal(await asks(0), '1');
    assert.equal(await asks(0.9), '1');
    await rig.becomes(servicePort(port, { ...sticky, cluster: [2] }));
    assert.equal(await asks(0), '2', 'the endpoint of the affinity is gone');
    await rig.becomes(servicePort(port, { cluster: [1, 2] }));
    assert.equal(await asks(0), '1', 'without affinity');
  });

  it('are never passed on to loopback or link-local addresses, which programs of this node may trust', () => {
    const special = ['127.0.0.1', '169.254.169.254', '0.0.0.0', '224.0.0.1'].map((address) => ({
      ...backend(1),
      address: address as Address,
    }));
    const port = { ...servicePort(30_000, { cluster: [2] }), cluster: [...special, backend(2)] };
    assert.deepEqual(relayPort(port)?.endpoints, [backend(2)]);
  });

  it('go on over generations, are closed where the next one does not have them, and are forgotten where it wants none', async (test) => {
    const rig = new RelayRig(test);
    await rig.named(1, 2);
    const [port, other] = [await freePort(), await freePort()];
    const stays = servicePort(port, { cluster: [1] });
    const gone = servicePort(other, { service: 'default/other', cluster: [2] });
    await rig.becomes(stays, gone);
    const client = new Client(port);
    await client.ends('ended');
    assert.deepEqual([await answerAt(port), await answerAt(other)], ['1', '2']);
    // The switch of generations reports the ports that are gone.
    rig.relay.update(new Map([[gone.key, undefined]]));
    await rig.becomes(stays);
    assert.deepEqual([await answerAt(port), await answerAt(other)], ['1', undefined]);
    assert.equal(rig.open, 1, 'the connection of before is still open');
    rig.relay.listenAt([], RETRY);
    await rig.becomes(stays);
    assert.equal(await answerAt(port), undefined);
    await rig.ended('endpoint lost');
    rig.relay.listenAt([LOOPBACK], RETRY);
    await rig.relay.sync();
    assert.equal(await answerAt(port), undefined, 'a generation without the relay heard of no change');
    await rig.becomes(stays);
    assert.equal(await answerAt(port), '1');
    client.socket.destroy();
  });

  it('that a program has are told once with the cause, and served when it is gone', async (test) => {
    const rig = new RelayRig(test);
    await rig.named(1);
    const [port, free] = [await freePort(), await freePort()];
    const program = net.createServer().listen(port, LOOPBACK);
    await once(program, 'listening');
    await rig.becomes(
      servicePort(port, { cluster: [1] }),
      servicePort(free, { service: 'default/free', cluster: [1] }),
    );
    await rig.relay.sync();
    const cause = `listen EADDRINUSE: address already in use 127.0.0.1:${port}`;
    assert.deepEqual(rig.failures, [`default/web 127.0.0.1 ${port} ${cause}`]);
    assert.equal(await answerAt(free), '1');
    assert.deepEqual([...rig.relay.state.failures], [[`127.0.0.1 ${port}`, cause]]);
    assert.equal(rig.relay.counts.families[0]?.failed, 2);
    program.close();
    await once(program, 'close');
    // No change needs to come.
    rig.clock.advance(RETRY);
    await until('the port is served', () => rig.recoveries.length > 0);
    assert.deepEqual([await answerAt(port), await answerAt(free), rig.clock.pending], ['1', '1', 0]);
    assert.deepEqual([rig.recoveries, rig.relay.state.failures.size], [['default/web 127.0.0.1'], 0]);
  });

  it('are closed with the agent, and a sync that ends later opens none', async (test) => {
    const rig = new RelayRig(test);
    await rig.named(1);
    const port = await freePort();
    const web = servicePort(port, { cluster: [1] });
    await rig.becomes(web);
    await rig.relay.close();
    await rig.becomes(web);
    assert.equal(await answerAt(port), undefined);
  });
});

describe('too many connections on loopback', () => {
  /** Sockets without a kernel: thousands of real ones are no better. */
  async function flooded(test: TestContext, ports: number) {
    const taken: ((client: net.Socket) => void)[] = [];
    const rig = new RelayRig(test, {
      listen: async (_at, onConnection) => {
        taken.push(onConnection);
        return { close: () => undefined };
      },
      connect: () => new net.Socket(),
    });
    const all = Array.from({ length: ports }, (_, i) =>
      servicePort(30_000 + i, { service: `default/web-${i}`, cluster: [1] }),
    );
    await rig.becomes(...all);
    const connects = (i: number) => {
      const client = new net.Socket();
      taken[i]?.(client);
      return client;
    };
    return { rig, connects };
  }

  it('of one node port are reset, and those of others are taken', async (test) => {
    const { rig, connects } = await flooded(test, 2);
    for (let n = 0; n < MAX_CONNECTIONS_PER_PORT; n++) assert.equal(connects(0).destroyed, false);
    assert.ok(connects(0).destroyed);
    assert.ok(connects(0).destroyed);
    assert.equal(connects(1).destroyed, false);
    assert.deepEqual(rig.outcomes(), { limit: 2 });
    assert.deepEqual(rig.troubles, [
      'a connection to node port 30000 of Service default/web-0 on loopback (IPv4) is reset: the relay has 1024 connections of this node port, which is the limit for one',
    ]);
  });

  it('for the descriptors of the process are reset, each without trying another endpoint', async (test) => {
    const rig = new RelayRig(test, {
      connect() {
        const socket = new net.Socket();
        rig.connected.push('a socket');
        socket.destroy(Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }));
        return socket;
      },
    });
    const port = await freePort();
    await rig.becomes(servicePort(port, { cluster: [1, 2, 3] }));
    assert.deepEqual([await answerAt(port), await answerAt(port)], ['reset', 'reset']);
    assert.deepEqual([rig.connected.length, rig.outcomes()], [2, { 'no descriptor': 2 }]);
    assert.deepEqual(rig.troubles, [
      `a connection to node port ${port} of Service default/web on loopback (IPv4) is reset, because this process has no file descriptor left: connect EMFILE; raise its limit of open files`,
    ]);
  });

  it('in all are reset, until one ends', async (test) => {
    const { rig, connects } = await flooded(test, 4);
    const first = connects(0);
    for (let n = 1; n < MAX_CONNECTIONS; n++) assert.equal(connects(n % 4).destroyed, false);
    assert.ok(connects(1).destroyed);
    assert.match(rig.troubles.join(), /the relay has 2048 connections, which is its limit$/);
    first.destroy(new Error('gone'));
    await until('one connection ended', () => rig.open === MAX_CONNECTIONS - 1);
    assert.equal(connects(1).destroyed, false);
  });
});
