/** Stale UDP flows, by the destination and the source of the answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, addressBytes, socketBytes } from '../../../src/base/address.ts';
import type { Flows } from '../../../src/proxy/model/flows.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const A = '10.244.1.11:5353';
const B = '10.244.2.11:5353';
const NODE = '192.168.77.2';
const isNodeAddress = (address: string) => address === addressBytes(NODE as Address);
const nowhere = () => false;

function bytes(text: string): string {
  const [address = '', port = ''] = text.split(/:(?=\d+$)/);
  return socketBytes(address as Address, Number(port));
}

function verdict(flows: Flows, destination: string, replySource: string): string {
  const ends = { destination: bytes(destination), replySource: bytes(replySource) };
  return flows.judge({ family: 'IPv4', protocol: 'UDP', ...ends }, { now: isNodeAddress, before: nowhere }).kind;
}

interface Dns {
  readonly endpoints?: readonly object[];
  readonly spec?: Record<string, unknown>;
  readonly protocol?: 'TCP' | 'UDP';
}

const at = (address: string, nodeName: string, conditions: Record<string, boolean> = {}) => ({
  addresses: [address],
  nodeName,
  conditions,
});
const HERE = at('10.244.1.11', 'node');
const THERE = at('10.244.2.11', 'other');

function put(rig: Rig, { endpoints = [HERE, THERE], spec = {}, protocol = 'UDP' }: Dns = {}): Rig {
  const ports = [{ port: 53, protocol, nodePort: 30_053 }];
  const base = { type: 'NodePort', clusterIP: '10.96.0.10', externalIPs: ['192.0.2.10'], ports };
  return rig.put(
    service({ name: 'dns', spec: { ...base, ...spec } }),
    slice({
      name: 'dns-1',
      service: 'dns',
      addressType: 'IPv4',
      ports: [{ name: '', port: 5353, protocol }],
      endpoints,
    }),
  );
}

async function synced(dns: Dns = {}, kernel = new FakeIptables()): Promise<Rig> {
  const rig = put(new Rig({ commands: kernel, families: ['IPv4'] }), dns);
  assert.equal((await rig.sync()).outcome, 'complete');
  return rig;
}

/** The state after a complete sweep. */
function sweep({ flows }: Rig): void {
  flows.swept(flows.begin());
}

describe('udp flows', () => {
  it('of every frontend are live while an endpoint answers, and stale otherwise', async () => {
    const { flows } = await synced();
    for (const frontend of ['10.96.0.10:53', '192.0.2.10:53', `${NODE}:30053`]) {
      assert.equal(verdict(flows, frontend, A), 'live', frontend);
      assert.equal(verdict(flows, frontend, B), 'live', frontend);
      assert.equal(verdict(flows, frontend, '10.244.1.99:5353'), 'stale', frontend);
      assert.equal(verdict(flows, frontend, '10.244.1.11:53'), 'stale', 'another port of the endpoint');
      assert.equal(verdict(flows, frontend, frontend), 'stale', 'a black hole from before the rules');
    }
  });

  it('to other ports and addresses, and to a node port on another host (8.8.8.8:30053), are foreign', async () => {
    const { flows } = await synced();
    assert.equal(verdict(flows, '10.96.0.10:54', '10.244.1.99:54'), 'foreign');
    assert.equal(verdict(flows, '10.96.0.11:53', '10.244.1.99:53'), 'foreign');
    assert.equal(verdict(flows, '8.8.8.8:30053', '8.8.8.8:30053'), 'foreign');
  });

  it('to an endpoint that serves without being ready go on; to one that does neither they are stale', async () => {
    const draining = at('10.244.1.11', 'node', { ready: false, serving: true, terminating: true });
    const unready = at('10.244.2.11', 'other', { ready: false, serving: false });
    const { flows } = await synced({ endpoints: [draining, unready] });
    assert.equal(verdict(flows, '10.96.0.10:53', A), 'live');
    assert.equal(verdict(flows, '10.96.0.10:53', B), 'stale');
    // publishNotReadyAddresses: ready without serving.
    const published = at('10.244.1.11', 'node', { ready: true, serving: false });
    assert.equal(verdict((await synced({ endpoints: [published] })).flows, '10.96.0.10:53', A), 'live');
  });

  it('to the cluster IP under internal policy Local go on only to endpoints on this node (k8s#126934)', async () => {
    const { flows } = await synced({ spec: { internalTrafficPolicy: 'Local' } });
    assert.equal(verdict(flows, '10.96.0.10:53', A), 'live');
    assert.equal(verdict(flows, '10.96.0.10:53', B), 'stale');
    assert.equal(verdict(flows, '192.0.2.10:53', B), 'live');
  });

  it('of a Service without endpoints are stale (k8s#139628)', async () => {
    const rig = await synced();
    sweep(rig);
    await put(rig, { endpoints: [] }).sync();
    assert.equal(rig.flows.isDirty, true);
    assert.equal(verdict(rig.flows, '10.96.0.10:53', A), 'stale');
  });

  it('of a deleted Service are stale when they were translated, until they are swept', async () => {
    const rig = await synced();
    sweep(rig);
    await rig.remove('Service', 'default/dns').sync();
    assert.equal(rig.flows.isDirty, true);
    assert.equal(verdict(rig.flows, '10.96.0.10:53', A), 'stale');
    assert.equal(verdict(rig.flows, `${NODE}:30053`, B), 'stale');
    assert.equal(verdict(rig.flows, `${NODE}:30053`, `${NODE}:30053`), 'foreign', 'a server of the node itself');
    sweep(rig);
    assert.equal(verdict(rig.flows, '10.96.0.10:53', A), 'foreign');
  });

  it('of a Service with a new address: to the old one they are stale, and the new one is swept for untranslated flows', async () => {
    const rig = await synced();
    sweep(rig);
    await put(rig, { spec: { externalIPs: ['192.0.2.11'] } }).sync();
    assert.equal(rig.flows.isDirty, true);
    assert.equal(verdict(rig.flows, '192.0.2.10:53', A), 'stale');
    assert.equal(verdict(rig.flows, '192.0.2.11:53', '192.0.2.11:53'), 'stale');
  });

  it('need a sweep only when a flow may have become stale', async () => {
    const rig = await synced({ endpoints: [HERE] });
    sweep(rig);
    await put(rig, { endpoints: [HERE, THERE] }).sync();
    assert.equal(rig.flows.isDirty, false, 'an endpoint came');
    await put(rig, { endpoints: [HERE, THERE], spec: { sessionAffinity: 'ClientIP' } }).sync();
    assert.equal(rig.flows.isDirty, false, 'affinity changed');
    await put(rig, { endpoints: [THERE] }).sync();
    assert.equal(rig.flows.isDirty, true, 'an endpoint left');
    sweep(rig);
    await put(rig, { endpoints: [] }).sync();
    sweep(rig);
    await put(rig, { endpoints: [HERE] }).sync();
    assert.equal(rig.flows.isDirty, true, 'the first endpoint came: the node may have sent to nobody meanwhile');
  });

  it('to a port that a Service has only for TCP are foreign', async () => {
    const { flows } = await synced({ protocol: 'TCP' });
    assert.equal(verdict(flows, '10.96.0.10:53', '10.244.1.99:5353'), 'foreign');
  });

  it('of a Service that was deleted while no agent ran are stale: the kernel still has its rules', async () => {
    const kernel = new FakeIptables();
    await synced({}, kernel);
    const restarted = new Rig({ commands: kernel, families: ['IPv4'] });
    assert.equal((await restarted.sync()).outcome, 'complete');
    for (const frontend of ['10.96.0.10:53', '192.0.2.10:53', `${NODE}:30053`]) {
      assert.equal(verdict(restarted.flows, frontend, A), 'stale', frontend);
    }
    assert.equal(verdict(restarted.flows, '10.96.0.10:54', A), 'foreign');
  });

  it('become stale when the rules are written: an earlier sweep does not count', async () => {
    const rig = await synced({ endpoints: [HERE] });
    sweep(rig);
    const { mode, flows } = rig;
    const plan = mode.plan.bind(mode);
    mode.plan = (setAside) => {
      const { steps, apply } = plan(setAside);
      return {
        steps,
        apply(signal) {
          assert.equal(flows.isDirty, false, 'the old rules would make the flow anew');
          // A sweep that began earlier.
          sweep(rig);
          return apply(signal);
        },
      };
    };
    await put(rig, { endpoints: [THERE] }).sync();
    assert.equal(flows.isDirty, true);
    mode.plan = plan;
    await rig.remove('Service', 'default/dns').sync();
    sweep(rig);
    assert.equal(verdict(flows, '10.96.0.10:53', B), 'foreign');
  });

  it('of a frontend that was removed during a sweep need another sweep', async () => {
    const rig = await synced();
    await rig.remove('Service', 'default/dns').sync();
    const mark = rig.flows.begin();
    await put(rig).sync();
    await rig.remove('Service', 'default/dns').sync();
    rig.flows.swept(mark);
    assert.equal(rig.flows.isDirty, true);
    assert.equal(verdict(rig.flows, '10.96.0.10:53', A), 'stale');
  });

  it('of a Service that the kernel refused need a sweep once it is written', async () => {
    const kernel = new FakeIptables();
    const rig = await synced({ endpoints: [HERE] }, kernel);
    sweep(rig);
    kernel.options = { refuse: (line) => line.includes('10.244.2.11') };
    const other = service({ name: 'other', spec: { clusterIP: '10.96.0.11', ports: [{ port: 53, protocol: 'UDP' }] } });
    assert.equal(
      (
        await put(rig, { endpoints: [THERE] })
          .put(other)
          .sync()
      ).outcome,
      'partial',
    );
    assert.equal(rig.flows.isDirty, true, 'another was written');
    sweep(rig);
    assert.equal((await rig.sync()).outcome, 'partial');
    assert.equal(rig.flows.isDirty, false, 'nothing was written');
    kernel.options = {};
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(rig.flows.isDirty, true);
  });

  it('of a deleted Service need a sweep after its rules went, which waited for a refused rule of all Services', async () => {
    const kernel = new FakeIptables();
    const rig = await synced({}, kernel);
    sweep(rig);
    kernel.options = { refuse: (line) => line.startsWith('-A KUBE-SERVICES ') };
    rig.remove('Service', 'default/dns').remove('EndpointSlice', 'default/dns-1');
    rig.put(service({ name: 'other', spec: { clusterIP: '10.96.0.11', ports: [{ port: 53, protocol: 'UDP' }] } }));
    assert.notEqual((await rig.sync()).outcome, 'complete');
    assert.match(kernel.save('IPv4'), /10\.96\.0\.10/, 'its rules stand, and make the flows anew');
    sweep(rig);
    kernel.options = {};
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(rig.flows.isDirty, true);
    assert.equal(verdict(rig.flows, '10.96.0.10:53', A), 'stale');
  });

  it('move with a frontend from one Service to another', async () => {
    const rig = await synced();
    sweep(rig);
    const moved = service({ name: 'dns2', spec: { clusterIP: '10.96.0.10', ports: [{ port: 53, protocol: 'UDP' }] } });
    const ports = [{ name: '', port: 5353, protocol: 'UDP' }];
    const endpoints = slice({
      name: 'dns2-1',
      service: 'dns2',
      addressType: 'IPv4',
      ports,
      endpoints: ['10.244.2.11'],
    });
    await rig.put(moved, endpoints).remove('Service', 'default/dns').sync();
    assert.equal(verdict(rig.flows, '10.96.0.10:53', A), 'stale');
    assert.equal(verdict(rig.flows, '10.96.0.10:53', B), 'live');
  });

  it('to a node port are stale on an address that served node ports before, when they were translated', async () => {
    const { flows } = await synced();
    const nodes = { now: nowhere, before: isNodeAddress };
    const judged = (destination: string, replySource: string) =>
      flows.judge(
        { family: 'IPv4', protocol: 'UDP', destination: bytes(destination), replySource: bytes(replySource) },
        nodes,
      );
    assert.deepEqual(judged(`${NODE}:30053`, A), { kind: 'stale', owner: undefined });
    assert.equal(judged(`${NODE}:30053`, `${NODE}:30053`).kind, 'foreign', 'a server of the node itself');
    assert.equal(judged('192.168.77.9:30053', A).kind, 'foreign');
  });

  it('of a deleted Service are handed over to the successor, and swept once it has written', async () => {
    const rig = await synced();
    sweep(rig);
    await rig.remove('Service', 'default/dns').sync();
    const next = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
    next.flows.inherit(rig.flows.handOver());
    assert.equal(next.flows.isDirty, false, 'its rules are not written');
    // An earlier sweep does not count.
    next.flows.swept(next.flows.begin());
    assert.equal((await next.sync()).outcome, 'complete');
    assert.equal(next.flows.isDirty, true);
    for (const frontend of ['10.96.0.10:53', '192.0.2.10:53', `${NODE}:30053`]) {
      assert.equal(verdict(next.flows, frontend, A), 'stale', frontend);
    }
    sweep(next);
    assert.equal(verdict(next.flows, '10.96.0.10:53', A), 'foreign');
  });

  it('are live when a handed-over frontend exists again', async () => {
    const rig = await synced();
    sweep(rig);
    await rig.remove('Service', 'default/dns').sync();
    const next = put(new Rig({ commands: new FakeIptables(), families: ['IPv4'] }));
    next.flows.inherit(rig.flows.handOver());
    await next.sync();
    assert.equal(verdict(next.flows, '10.96.0.10:53', A), 'live');
  });
});
