/** Endpoints that are gone, and the connections to them that end (--reset-gone, docs/traffic.md, k8s#100698). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../src/base/address.ts';
import { type Address, socketBytes } from '../../../src/base/address.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const VIP = '10.96.0.10';
const A = '10.244.1.11';
const B = '10.244.2.11';
const NODES = { now: () => false, before: () => false };
const TERMINATING = { ready: false, serving: true, terminating: true };

interface At {
  readonly address: string;
  readonly conditions?: object;
  readonly nodeName?: string;
}

const ended = (address: string, nodeName = 'other'): At => ({ address, conditions: TERMINATING, nodeName });

/** The slice of a Service, `web` by default. */
function pods(
  endpoints: readonly (string | At)[],
  { name = 'web', slice: of = 'web-1', protocol = 'TCP' } = {},
): object {
  return slice({
    name: of,
    service: name,
    addressType: 'IPv4',
    ports: [{ name: '', port: 8080, protocol }],
    endpoints: endpoints.map((one) => {
      const { address, conditions = {}, nodeName = 'other' } = typeof one === 'string' ? { address: one } : one;
      return { addresses: [address], nodeName, conditions };
    }),
  });
}

async function begun({ protocol = 'TCP', notes = true }: { protocol?: Protocol; notes?: boolean } = {}): Promise<Rig> {
  const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
  rig.put(
    service({ name: 'web', spec: { type: 'ClusterIP', clusterIP: VIP, ports: [{ port: 80, protocol }] } }),
    pods([A, B], { protocol }),
  );
  rig.cache.noteGone(notes);
  await synced(rig);
  rig.flows.swept(rig.flows.begin());
  return rig;
}

async function synced(rig: Rig): Promise<Rig> {
  assert.equal((await rig.sync()).outcome, 'complete');
  return rig;
}

/** The verdict of the sweep of gone endpoints on an established connection, and whether that sweep is due. */
function fate({ flows }: Rig, by: string, { to = VIP, protocol = 'TCP' as Protocol } = {}): string {
  const ends = {
    family: 'IPv4',
    protocol,
    destination: socketBytes(to as Address, 80),
    replySource: socketBytes(by as Address, 8080),
  } as const;
  const { kind } = flows.judge(ends, NODES, 'gone');
  return flows.due.includes('gone') ? kind : `${kind}, no sweep`;
}

describe('an endpoint', () => {
  it('is gone when it was terminating and is in no slice: its connections end, and no others', async () => {
    const rig = await begun();
    await synced(rig.put(pods([ended(A), B])));
    assert.equal(fate(rig, A), 'live, no sweep', 'it may still answer');
    await synced(rig.put(pods([B])));
    assert.equal(fate(rig, A), 'stale');
    assert.equal(fate(rig, B), 'live');
    assert.equal(fate(rig, A, { to: '203.0.113.5' }), 'foreign', 'another program translates it');
    rig.flows.swept(rig.flows.begin(['gone']));
    assert.equal(fate(rig, A), 'live, no sweep');
  });

  it('is not gone without the setting', async () => {
    const rig = await begun({ notes: false });
    await synced(rig.put(pods([ended(A), B])));
    await synced(rig.put(pods([B])));
    assert.equal(fate(rig, A), 'live, no sweep');
  });

  it('is not gone when it vanishes without having been terminating: its Pod may live', async () => {
    const rig = await begun();
    await synced(rig.put(pods([B])));
    assert.equal(fate(rig, A), 'live, no sweep');
  });

  it('is gone when its slice is removed after it was terminating', async () => {
    const rig = await begun();
    await synced(rig.put(pods([ended(A), ended(B)])));
    await synced(rig.remove('EndpointSlice', 'default/web-1'));
    assert.deepEqual([fate(rig, A), fate(rig, B)], ['stale', 'stale']);
  });

  it('is not gone while a slice of any Service has its address', async () => {
    const rig = await begun();
    rig.put(
      service({ name: 'other', spec: { type: 'ClusterIP', clusterIP: '10.96.0.11', ports: [{ port: 80 }] } }),
      pods([A], { name: 'other', slice: 'other-1' }),
    );
    await synced(rig.put(pods([ended(A), B])));
    await synced(rig.put(pods([B])));
    assert.equal(fate(rig, A), 'live, no sweep');
    await synced(rig.put(pods([], { name: 'other', slice: 'other-1' })));
    assert.equal(fate(rig, A), 'stale');
  });

  it('is not gone while it moves between slices, in either order', async () => {
    for (const order of [0, 1]) {
      const rig = await begun();
      await synced(rig.put(pods([ended(A), B])));
      const [first, second] = [pods([ended(A)], { slice: 'web-2' }), pods([B])];
      rig.put(...(order === 0 ? [first, second] : [second, first]));
      await synced(rig);
      assert.equal(fate(rig, A), 'live, no sweep');
    }
  });

  it('is not gone when another Pod got its address, and lost its label later', async () => {
    const rig = await begun();
    rig.put(
      service({ name: 'other', spec: { type: 'ClusterIP', clusterIP: '10.96.0.11', ports: [{ port: 80 }] } }),
      pods([A], { name: 'other', slice: 'other-1' }),
    );
    rig.put(pods([ended(A), B]), pods([B]), pods([A, B]));
    rig.put(pods([], { name: 'other', slice: 'other-1' }), pods([B]));
    await synced(rig);
    assert.equal(fate(rig, A), 'live, no sweep');
  });

  it('is gone when its Node does not answer and it vanishes', async () => {
    const rig = await begun();
    rig.cache.own.suspect(['other'], ['default/web']);
    await synced(rig.put(pods([B])));
    assert.equal(fate(rig, A), 'stale');
  });

  it('with two entries for one address has ended only where both have', async () => {
    const rig = await begun();
    await synced(rig.put(pods([A, ended(A), B])));
    await synced(rig.put(pods([B])));
    assert.equal(fate(rig, A), 'live, no sweep');
  });

  for (const protocol of ['UDP', 'SCTP'] as const) {
    it(`of ${protocol} has no such connections`, async () => {
      const rig = await begun({ protocol });
      await synced(rig.put(pods([ended(A), B], { protocol })));
      await synced(rig.put(pods([B], { protocol })));
      assert.equal(fate(rig, A, { protocol }), 'live, no sweep');
    });
  }
});

describe('connections to endpoints that are gone', () => {
  it('are handed to a successor, which sweeps them after its first write', async () => {
    const rig = await begun();
    await synced(rig.put(pods([ended(A), B])));
    rig.put(pods([B]));
    rig.loop.end();
    const next = await begun();
    await synced(next.put(pods([B])));
    next.flows.inherit(rig.flows.handOver());
    await synced(next);
    assert.equal(fate(next, A), 'stale');
  });
});
