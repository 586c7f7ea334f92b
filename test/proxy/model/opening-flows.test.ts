/** Connections without an answer that are stale (k8s#101607). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../src/base/address.ts';
import { type Address, addressBytes, socketBytes } from '../../../src/base/address.ts';
import type { Flows } from '../../../src/proxy/model/flows.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const VIP = '10.96.0.10:80';
const NODE = '192.168.77.2';
const A = '10.244.1.11:8080';
const B = '10.244.2.11:8080';
const C = '10.244.2.12:8080';
const isNode = (address: string) => address === addressBytes(NODE as Address);
const nowhere = () => false;

interface Web {
  readonly endpoints?: readonly object[];
  readonly spec?: Record<string, unknown>;
  readonly protocol?: Protocol;
}

const at = (address: string, conditions: Record<string, boolean> = {}, more: object = {}) => ({
  addresses: [address.split(':')[0]],
  nodeName: 'other',
  conditions,
  ...more,
});

function put(rig: Rig, { endpoints = [at(A), at(B)], spec = {}, protocol = 'TCP' }: Web = {}): Rig {
  const base = { type: 'NodePort', clusterIP: '10.96.0.10', externalIPs: ['192.0.2.10'] };
  return rig.put(
    service({ name: 'web', spec: { ...base, ports: [{ port: 80, protocol, nodePort: 30_080 }], ...spec } }),
    slice({
      name: 'web-1',
      service: 'web',
      addressType: 'IPv4',
      ports: [{ name: '', port: 8080, protocol }],
      endpoints,
    }),
  );
}

/** After a sync and a sweep. */
async function settled(web: Web = {}): Promise<Rig> {
  const rig = put(new Rig({ commands: new FakeIptables(), families: ['IPv4'] }), web);
  await synced(rig);
  sweep(rig);
  return rig;
}

async function synced(rig: Rig): Promise<Rig> {
  assert.equal((await rig.sync()).outcome, 'complete');
  return rig;
}

function sweep({ flows }: Rig): void {
  flows.swept(flows.begin());
}

function bytes(text: string): string {
  const [address = '', port = ''] = text.split(':');
  return socketBytes(address as Address, Number(port));
}

function verdict(
  flows: Flows,
  to: string,
  by: string,
  {
    protocol = 'TCP',
    nodes = { now: isNode, before: nowhere },
  }: { protocol?: Protocol; nodes?: Parameters<Flows['judge']>[1] } = {},
): string {
  return flows.judge({ family: 'IPv4', protocol, destination: bytes(to), replySource: bytes(by) }, nodes).kind;
}

describe('connections without an answer', () => {
  for (const protocol of ['TCP', 'SCTP'] as const) {
    it(`of ${protocol} are live to an endpoint, and stale to any other address`, async () => {
      const { flows } = await settled({ protocol });
      for (const frontend of [VIP, '192.0.2.10:80', `${NODE}:30080`]) {
        assert.equal(verdict(flows, frontend, A, { protocol }), 'live', frontend);
        assert.equal(verdict(flows, frontend, C, { protocol }), 'stale', frontend);
        assert.equal(verdict(flows, frontend, '10.244.1.11:81', { protocol }), 'stale', 'another port of the endpoint');
        assert.equal(verdict(flows, frontend, frontend, { protocol }), 'foreign', 'not translated');
      }
      const other = protocol === 'TCP' ? 'SCTP' : 'TCP';
      assert.equal(verdict(flows, VIP, C, { protocol: other }), 'foreign', 'the port of another protocol');
    });
  }

  it('to other addresses and ports, and to a node port elsewhere, are foreign', async () => {
    const { flows } = await settled();
    for (const to of ['10.96.0.10:81', '10.96.0.11:80', '8.8.8.8:30080'])
      assert.equal(verdict(flows, to, C), 'foreign');
  });

  it('have the ServicePort as owner', async () => {
    const { flows } = await settled();
    const flow = { family: 'IPv4', protocol: 'TCP', destination: bytes(VIP), replySource: bytes(C) } as const;
    assert.deepEqual(flows.judge(flow, { now: isNode, before: nowhere }), {
      kind: 'stale',
      owner: 'default/web/TCP/IPv4',
    });
  });

  it('need a sweep when an endpoint was removed, and only then', async () => {
    const rig = await settled();
    await synced(put(rig, { endpoints: [at(A), at(B), at(C)] }));
    assert.deepEqual(rig.flows.due, [], 'one came');
    await synced(put(rig, { endpoints: [at(A), at(C)] }));
    assert.deepEqual(rig.flows.due, ['opening'], 'UDP flows are not looked at for it');
    assert.equal(verdict(rig.flows, VIP, B), 'stale');
    sweep(rig);
    await synced(put(rig, { endpoints: [at(A), at(C)], spec: { sessionAffinity: 'ClientIP' } }));
    assert.deepEqual(rig.flows.due, []);
    rig.put(service({ name: 'dns', spec: { clusterIP: '10.96.0.11', ports: [{ port: 53, protocol: 'UDP' }] } }));
    await synced(rig);
    assert.deepEqual(rig.flows.due, ['udp']);
  });

  it('to a draining endpoint go on until it is removed, which needs a sweep', async () => {
    const rig = await settled();
    const draining = at(B, { ready: false, serving: true, terminating: true });
    await synced(put(rig, { endpoints: [at(A), draining] }));
    assert.deepEqual(rig.flows.due, []);
    assert.equal(verdict(rig.flows, VIP, B), 'live');
    await synced(put(rig, { endpoints: [at(A)] }));
    assert.deepEqual(rig.flows.due, ['opening']);
    assert.equal(verdict(rig.flows, VIP, B), 'stale');
  });

  it('to an existing endpoint that no longer serves are stale', async () => {
    const rig = await settled();
    await synced(put(rig, { endpoints: [at(A), at(B, { ready: false, serving: false })] }));
    assert.deepEqual(rig.flows.due, ['opening']);
    assert.equal(verdict(rig.flows, VIP, B), 'stale');
  });

  it('to an endpoint with hints for another zone go on', async () => {
    const hinted = (address: string, zone: string) => at(address, {}, { hints: { forZones: [{ name: zone }] } });
    const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
    rig.become({ objects: [], zone: 'a' });
    await synced(put(rig, { endpoints: [hinted(A, 'a'), hinted(B, 'b')] }));
    assert.equal(verdict(rig.flows, VIP, B), 'live');
    assert.equal(verdict(rig.flows, VIP, C), 'stale');
  });

  it('of a deleted Service are stale until they are swept, also on its node port', async () => {
    const rig = await settled();
    await synced(rig.remove('Service', 'default/web'));
    assert.deepEqual(rig.flows.due, ['opening']);
    assert.equal(verdict(rig.flows, VIP, A), 'stale');
    assert.equal(verdict(rig.flows, `${NODE}:30080`, A), 'stale');
    assert.equal(verdict(rig.flows, `${NODE}:30080`, `${NODE}:30080`), 'foreign');
    sweep(rig);
    assert.equal(verdict(rig.flows, VIP, A), 'foreign');
  });

  it('are stale on an address that served node ports before', async () => {
    const { flows } = await settled();
    const nodes = { now: nowhere, before: isNode };
    assert.equal(verdict(flows, `${NODE}:30080`, A, { nodes }), 'stale');
    assert.equal(verdict(flows, '192.168.77.9:30080', A, { nodes }), 'foreign');
  });

  it('of an external IP that moves to another Service are judged by that Service', async () => {
    const rig = await settled();
    put(rig, { spec: { externalIPs: [] } });
    rig.put(
      service({ name: 'web2', spec: { clusterIP: '10.96.0.12', externalIPs: ['192.0.2.10'], ports: [{ port: 80 }] } }),
      slice({
        name: 'web2-1',
        service: 'web2',
        addressType: 'IPv4',
        ports: [{ name: '', port: 8080 }],
        endpoints: ['10.244.2.12'],
      }),
    );
    await synced(rig);
    assert.ok(rig.flows.due.includes('opening'));
    assert.equal(verdict(rig.flows, '192.0.2.10:80', A), 'stale');
    assert.equal(verdict(rig.flows, '192.0.2.10:80', C), 'live');
  });

  it('of a deleted Service are handed over to the successor', async () => {
    const rig = await settled();
    await synced(rig.remove('Service', 'default/web'));
    await mustBeHandedOver(rig);
  });

  it('of a Service that was deleted since the last sync are handed over, too', async () => {
    const rig = await settled();
    rig.remove('Service', 'default/web').loop.end();
    await mustBeHandedOver(rig);
  });

  async function mustBeHandedOver(rig: Rig): Promise<void> {
    const next = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
    next.flows.inherit(rig.flows.handOver());
    await synced(next);
    assert.ok(next.flows.due.includes('opening'));
    assert.equal(verdict(next.flows, VIP, A), 'stale');
    sweep(next);
    assert.equal(verdict(next.flows, VIP, A), 'foreign');
  }
});
