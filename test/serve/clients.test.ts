/** The limits on clients: shares of addresses, places, rates, and bytes that nobody reads. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  type Client,
  Clients,
  type ClientsOptions,
  CONNECTIONS_PER_CLIENT,
  MAX_NAMED_CLIENTS,
  MAX_UNSENT,
  MAX_UNSENT_PER_CLIENT,
} from '../../src/serve/clients.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

class Peer implements Client {
  readonly local = '192.0.2.1';
  readonly remote: string;
  readonly port: number;
  idleSince: number | undefined = Number.NEGATIVE_INFINITY;
  isCut = false;
  isNew = false;
  unsent = 0;
  stalledSince = 0;

  constructor(remote: string, port = 10256) {
    this.remote = remote;
    this.port = port;
  }

  cut(): void {
    this.isCut = true;
  }
}

function start(options: Partial<ClientsOptions> = {}) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const clients = new Clients({ clock, onTurnedAway: (_address, sentence) => lines.push(sentence), ...options });
  const admit = (remote: string, port?: number) => {
    const peer = new Peer(remote, port);
    const isIn = clients.hasPlace(peer);
    if (isIn) clients.add(peer);
    return { peer, isIn };
  };
  const admitAll = (count: number, remote: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => admit(remote(i)));
  return { clock, clients, lines, admit, admitAll };
}

const POD = '10.244.1.9';
const podAddress = (i: number) => `10.244.${i >> 8}.${i & 255}`;

describe('the limits on clients', () => {
  it('give an address its share of each port: a new connection ends the oldest idle one', () => {
    const { clients, lines, admit, admitAll } = start();
    const first = admitAll(CONNECTIONS_PER_CLIENT, () => POD);
    assert.ok(first.every(({ isIn, peer }) => isIn && !peer.isCut));
    const [oldest, second, third] = first.map(({ peer }) => peer);
    if (oldest !== undefined) oldest.idleSince = undefined;
    assert.ok(admit(POD).isIn);
    assert.deepEqual(
      [oldest?.isCut, second?.isCut, third?.isCut],
      [false, true, false],
      'the oldest is being answered',
    );
    assert.ok(admit(POD, 30_000).isIn, 'another port');
    assert.ok(admit('10.244.1.10').isIn, 'another address');
    assert.equal(clients.count, CONNECTIONS_PER_CLIENT + 2);
    assert.deepEqual(clients.turnedAway, [{ address: POD, reason: 'share', count: 1 }]);
    assert.deepEqual(lines, [
      '10.244.1.9 uses up its share of port 10256, or of all ports: at most 16 connections to one (--max-connections-per-client), and 8 times as many to all. Each new one ends the oldest that is idle, or is refused',
    ]);
  });

  it('give an address its share of all ports, so that it cannot take the places of others by many ports', () => {
    const { clients, admit } = start();
    for (let port = 30_000; port < 30_064; port += 1) for (let i = 0; i < 16; i += 1) admit(POD, port);
    assert.equal(clients.count, 128);
    assert.ok(admit('10.244.1.10').isIn);
  });

  it('take a place from the address that has the most, where none is idle for long', () => {
    const { clients, admit, clock } = start({ max: 20, reserved: 8 });
    const greedy = Array.from({ length: 11 }, () => admit(POD).peer);
    admit('10.244.1.10').peer.idleSince = undefined;
    for (const peer of greedy) peer.idleSince = undefined;
    const [first, second] = greedy;
    if (second !== undefined) second.idleSince = clock.now();
    const next = admit('10.244.1.11');
    assert.ok(next.isIn);
    next.peer.idleSince = undefined;
    assert.deepEqual([first?.isCut, second?.isCut], [false, true], 'one that is not being answered');
    const [, , , last] = [...greedy];
    for (let i = 12; i < 14; i += 1) admit(`10.244.1.${i}`).peer.idleSince = undefined;
    assert.deepEqual([first?.isCut, last?.isCut], [true, false], 'or the oldest');
    assert.ok(
      clients.turnedAway.every(({ address }) => address === POD),
      'it is the one that is named',
    );
  });

  it('keep nothing of addresses that were refused', () => {
    const { clients, admit, admitAll } = start({ max: 20, reserved: 8 });
    for (const { peer } of admitAll(12, podAddress)) peer.idleSince = undefined;
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 100_000; i += 1)
      assert.equal(admit(`2001:db8::${(i >> 16).toString(16)}:${(i & 0xffff).toString(16)}`).isIn, false);
    assert.equal(clients.count, 12);
    // A share of each would take some 40 MB.
    assert.ok(process.memoryUsage().heapUsed - before < 30_000_000);
  });

  it('refuse a client whose other connections are not idle for a second, because they may be about to ask', () => {
    const { clock, admit } = start({ perClient: () => 2 });
    const [one, two] = [admit(POD).peer, admit(POD).peer];
    one.idleSince = clock.now();
    two.idleSince = clock.now();
    clock.advance(999);
    assert.equal(admit(POD).isIn, false);
    clock.advance(1);
    assert.equal(admit(POD).isIn, true);
    assert.deepEqual([one.isCut, two.isCut], [true, false]);
  });

  it('refuse a client whose other connections are all being answered, until one of them is over', () => {
    const { clients, admit, admitAll } = start({ perClient: () => 2 });
    const [one, two] = admitAll(2, () => POD).map(({ peer }) => peer);
    if (one === undefined || two === undefined) assert.fail();
    one.idleSince = undefined;
    two.idleSince = undefined;
    assert.equal(admit(POD).isIn, false);
    clients.release(one);
    assert.ok(admit(POD).isIn);
    assert.equal(clients.count, 2);
  });

  it('take an IPv4 address and its mapped form for the same client', () => {
    const { clients, admit } = start({ perClient: () => 1 });
    admit('::ffff:10.244.1.9');
    admit(POD);
    assert.equal(clients.count, 1);
  });

  it('keep places for the node’s own programs and for trusted addresses', () => {
    const isTrusted = (address: string) => address === '10.244.7.7';
    const { clients, admit, admitAll, lines } = start({ max: 20, reserved: 8, isTrusted });
    const strangers = admitAll(100, podAddress);
    assert.equal(clients.count, 12);
    assert.equal(strangers.filter(({ isIn }) => isIn).length, 100, 'each in the place of an older idle one');
    assert.equal(strangers.filter(({ peer }) => peer.isCut).length, 88);
    for (const { peer } of strangers) peer.idleSince = undefined;
    assert.equal(admit('10.244.9.9').isIn, false, 'none of the others is idle, and each has one');
    const trusted = ['192.0.2.1', '127.0.0.1', '::1', '::ffff:127.0.0.1', '10.244.7.7'].map((one) => admit(one));
    assert.ok(trusted.every(({ isIn }) => isIn));
    assert.equal(clients.count, 17);
    const [kubelet] = trusted;
    if (kubelet !== undefined) kubelet.peer.idleSince = undefined;
    admitAll(50, () => '192.0.2.1');
    assert.ok(clients.count <= 20);
    assert.equal(kubelet?.peer.isCut, false);
    assert.equal(admit('10.244.7.7').isIn, true);
    assert.ok(clients.turnedAway.some(({ reason }) => reason === 'places'));
    assert.match(lines.join('\n'), /all 12 connections that addresses without a reserved place may have are taken/);
  });

  it('end the oldest connection of the node’s own programs, however young, before they refuse one: it may be a probe', () => {
    const { clock, clients, admit } = start({ max: 20, reserved: 8, perTrustedClient: 4 });
    const flood = Array.from({ length: 8 }, () => {
      const { peer, isIn } = admit('127.0.0.1');
      assert.ok(isIn, 'the reserved places are theirs for a moment');
      peer.idleSince = clock.now();
      return { peer };
    });
    const [oldest, second] = flood.map(({ peer }) => peer);
    if (oldest !== undefined) oldest.idleSince = undefined;
    assert.ok(admit('127.0.0.1').isIn);
    assert.deepEqual([oldest?.isCut, second?.isCut], [false, true], 'the oldest is being answered');
    assert.equal(clients.count, 8);
  });

  it('let an address make many requests at once and then one in 50 ms, also over new connections', () => {
    const { clock, clients, admit } = start();
    let made = 0;
    let delay = 0;
    for (let i = 0; delay === 0 && i < 1000; i += 1) {
      const { peer } = admit(POD);
      delay = clients.delay(peer);
      if (delay === 0) made += 1;
      clients.release(peer);
    }
    assert.deepEqual([made, delay], [32, 50]);
    clock.advance(50);
    const { peer } = admit(POD);
    assert.deepEqual([clients.delay(peer), clients.delay(peer)], [0, 50]);
    assert.equal(clients.delay(admit('10.244.1.10').peer), 0, 'another address');
    const kubelet = admit('127.0.0.1').peer;
    assert.ok(Array.from({ length: 1000 }, () => clients.delay(kubelet)).every((each) => each === 0));
    for (let i = 0; i < CONNECTIONS_PER_CLIENT; i += 1) admit('127.0.0.1');
    const delays = Array.from({ length: 100 }, () => clients.delay(kubelet));
    assert.deepEqual(
      [delays.filter((each) => each === 0).length, delays.at(-1)],
      [32, 5],
      'a program here floods the port',
    );
  });

  it('let no first request of a trusted connection wait: the probe of the kubelet may be one', () => {
    const { clients, admit, admitAll } = start();
    for (const { peer } of admitAll(60, () => '127.0.0.1')) for (let i = 0; i < 100; i += 1) clients.delay(peer);
    const probe = admit('127.0.0.1').peer;
    probe.isNew = true;
    assert.equal(clients.delay(probe), 0);
    probe.isNew = false;
    assert.ok(clients.delay(probe) > 0, 'its second one waits as others do');
  });

  it('let those that wait for their turn be asked again in the order in which they came', () => {
    const { clients, admitAll } = start();
    const peers = admitAll(4, () => POD).map(({ peer }) => peer);
    const [first, ...others] = peers as [Peer, ...Peer[]];
    while (clients.delay(first) === 0);
    assert.deepEqual(
      [first, ...others].map((peer) => clients.delay(peer)),
      [50, 100, 150, 200],
    );
    for (const peer of peers) clients.release(peer);
  });

  it('have one share for all loopback addresses of a program, and a place for the node’s own address beside it', () => {
    const { admit, admitAll } = start();
    const held = admitAll(1500, (i) => `127.0.${i >> 8}.${(i & 255) + 1}`);
    const busy = admitAll(1500, (i) => `127.0.${i >> 8}.${(i & 255) + 1}`);
    for (const { peer } of busy) peer.idleSince = undefined;
    assert.ok(held.filter(({ isIn, peer }) => isIn && !peer.isCut).length <= 128);
    assert.ok(admit('192.0.2.1').isIn);
  });

  it('take the place of the greediest program of the node for another address of the node, also when it is busy', () => {
    const { admit, admitAll } = start({ max: 8, reserved: 4 });
    const busy = admitAll(8, () => '127.0.0.1');
    for (const { peer } of busy) peer.idleSince = undefined;
    assert.ok(admit('192.0.2.1').isIn);
    assert.deepEqual(
      busy.map(({ peer }) => peer.isCut),
      [true, ...Array.from({ length: 7 }, () => false)],
    );
  });

  it('let an address wait that does not read its answers', () => {
    const { clients, admit } = start();
    const { peer } = admit(POD);
    peer.unsent = MAX_UNSENT_PER_CLIENT + 1;
    const other = admit(POD).peer;
    assert.equal(clients.delay(other), 100);
    peer.unsent = 0;
    assert.equal(clients.delay(other), 0);
  });

  it('end what stalls for the longest time where too much waits for all, and never one answer alone', () => {
    const { clients, admit, lines } = start();
    const [profile, stalled, fresh] = [admit('127.0.0.1').peer, admit(POD).peer, admit('10.244.1.10').peer];
    profile.unsent = 4 * MAX_UNSENT;
    clients.answered(profile);
    assert.equal(profile.isCut, false);
    profile.stalledSince = 900;
    stalled.unsent = 1000;
    stalled.stalledSince = 5;
    fresh.unsent = 1000;
    fresh.stalledSince = 950;
    clients.answered(fresh);
    assert.deepEqual([profile.isCut, stalled.isCut, fresh.isCut], [true, true, false]);
    assert.deepEqual(lines, [
      '10.244.1.9 does not read the answers of port 10256: its connection is closed',
      '127.0.0.1 does not read the answers of port 10256: its connection is closed',
    ]);
  });

  it('name an address in the log once in ten minutes, and a bounded number of addresses in the counter', () => {
    const { clock, clients, lines, admit, admitAll } = start({ perClient: () => 1 });
    for (let i = 0; i < 100; i += 1) admit(POD);
    assert.equal(lines.length, 1);
    clock.advance(600_000);
    admit(POD);
    assert.equal(lines.length, 2);
    admitAll(2000, (i) => podAddress(Math.floor(i / 2)));
    assert.equal(new Set(clients.turnedAway.map(({ address }) => address)).size, MAX_NAMED_CLIENTS + 1);
    assert.ok(lines.length <= MAX_NAMED_CLIENTS + 3, `${lines.length} lines`);
    assert.ok(clients.turnedAway.some(({ address, count }) => address === 'others' && count > 900));
  });
});
