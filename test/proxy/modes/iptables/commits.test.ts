/** Each commit of a table has the kernel walk all rules that packets can reach there: the transactions of a sync, counted. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PORTION_LINES } from '../../../../src/proxy/modes/netfilter/restore-text.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../../helpers/proxy/rig.ts';

const NODE_PORT = 30_080;

const web = (spec: object = {}) =>
  service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }], ...spec } });
const ready = (...addresses: string[]) => slice({ name: 'web-1', service: 'web', endpoints: addresses });
const ofNodePort = (nodePort: number, spec: object = {}) =>
  web({ type: 'NodePort', ports: [{ port: 80, nodePort }], ...spec });

/** A node with other Services of each kind: with and without endpoints. */
async function node(...objects: object[]): Promise<{ kernel: FakeIptables; rig: Rig }> {
  const kernel = new FakeIptables();
  const rig = new Rig({ commands: kernel, families: ['IPv4'] });
  for (let i = 1; i <= 40; i++) {
    rig.put(service({ name: `s${i}`, spec: { clusterIP: `10.96.1.${i}`, ports: [{ port: 80 }] } }));
    if (i % 4 > 0) rig.put(slice({ name: `s${i}-1`, service: `s${i}`, endpoints: [`10.1.1.${i}`] }));
  }
  assert.equal((await rig.put(...objects).sync()).outcome, 'complete');
  return { kernel, rig };
}

/** The tables that the next sync commits, by restore. */
async function committed({ kernel, rig }: Awaited<ReturnType<typeof node>>): Promise<string[][]> {
  const before = kernel.ran.length;
  assert.equal((await rig.sync()).outcome, 'complete');
  const restores = kernel.ran.slice(before).filter(({ file }) => file.endsWith('-restore'));
  return restores.map(({ lines }) => lines.filter((line) => line.startsWith('*')).map((line) => line.slice(1)));
}

describe('the transactions of a sync', () => {
  it('are one of nat for an endpoint that is changed or added', async () => {
    const one = await node(ofNodePort(NODE_PORT), ready('10.1.0.1', '10.1.0.2'));
    for (const endpoints of [
      ['10.1.0.1', '10.1.0.3'],
      ['10.1.0.1', '10.1.0.3', '10.1.0.4'],
    ]) {
      one.rig.put(ready(...endpoints));
      assert.deepEqual(await committed(one), [['nat']], endpoints.join());
    }
  });

  it('are another of nat, which adds no rule, where a chain is deleted', async () => {
    const one = await node(ofNodePort(NODE_PORT), ready('10.1.0.1', '10.1.0.2', '10.1.0.3'));
    one.rig.put(ready('10.1.0.1'));
    assert.deepEqual(await committed(one), [['nat', 'nat']]);
    const lines = one.kernel.ran.at(-1)?.lines ?? [];
    const last = lines.slice(lines.lastIndexOf('*nat'));
    assert.deepEqual(
      [last.some((line) => line.startsWith('-X ')), last.some((line) => line.startsWith('-A '))],
      [true, false],
    );
  });

  it('are one of nat for a Service that is added, with its endpoints, and two when it is removed', async () => {
    const one = await node();
    one.rig.put(ofNodePort(NODE_PORT), ready('10.1.0.1'));
    assert.deepEqual(await committed(one), [['nat']]);
    one.rig.remove('Service', 'default/web').remove('EndpointSlice', 'default/web-1');
    assert.deepEqual(await committed(one), [['nat', 'nat']]);
    assert.ok(!one.kernel.save('IPv4').includes('default/web'));
  });

  it('are one of nat for another node port', async () => {
    const one = await node(ofNodePort(NODE_PORT), ready('10.1.0.1'));
    one.rig.put(ofNodePort(NODE_PORT + 1));
    assert.deepEqual(await committed(one), [['nat']]);
  });

  it('are one of filter for a Service without endpoints, for its other node port, and when it is removed', async () => {
    const one = await node();
    one.rig.put(ofNodePort(NODE_PORT));
    assert.deepEqual(await committed(one), [['filter']]);
    one.rig.put(ofNodePort(NODE_PORT + 1));
    assert.deepEqual(await committed(one), [['filter']]);
    one.rig.remove('Service', 'default/web');
    assert.deepEqual(await committed(one), [['filter']]);
    assert.ok(!one.kernel.save('IPv4').includes('default/web'));
  });

  it('are of both tables for the last endpoint, which the refusal precedes, and for the first, which it outlasts', async () => {
    const one = await node(ofNodePort(NODE_PORT), ready('10.1.0.1'));
    one.rig.put(ready());
    assert.deepEqual(await committed(one), [['filter', 'nat', 'nat']]);
    one.rig.put(ready('10.1.0.2'));
    assert.deepEqual(await committed(one), [['nat', 'filter']]);
  });

  it('are one of nat for very many changed Services', async () => {
    const one = await node();
    for (let i = 1; i <= 40; i++) {
      if (i % 4 > 0) one.rig.put(slice({ name: `s${i}-1`, service: `s${i}`, endpoints: [`10.1.2.${i}`] }));
    }
    assert.deepEqual(await committed(one), [['nat']]);
  });
});

describe('a changed endpoint', () => {
  it('renders the chains of its Service, and no leaf of a tree', async () => {
    const elsewhere = (...addresses: string[]) => {
      const endpoints = addresses.map((address) => ({ addresses: [address], nodeName: 'other' }));
      return slice({ name: 'web-1', service: 'web', endpoints });
    };
    const { rig } = await node(ofNodePort(NODE_PORT), elsewhere('10.1.0.1', '10.1.0.2'));
    rig.put(elsewhere('10.1.0.1', '10.1.0.3'));
    const { work } = await rig.sync();
    // KUBE-SVC and KUBE-EXT.
    assert.deepEqual({ rendered: work.rendered, compared: work.compared }, { rendered: 2, compared: 2 });
  });

  it('write the table filter once, after nat, where the rules of IPVS mode go: of slicewire, and of a kube-proxy without KUBE-IPVS-FILTER', async () => {
    for (const left of ['KUBE-IPVS-FILTER', 'KUBE-NODE-PORT']) {
      const kernel = new FakeIptables();
      kernel.kernels.IPv4.get('filter')?.set(left, []);
      const rig = new Rig({ commands: kernel, families: ['IPv4'] });
      const ranges = { type: 'LoadBalancer', loadBalancerSourceRanges: ['192.0.2.0/24'] };
      const status = { loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } };
      const spec = { clusterIP: '10.96.0.1', ports: [{ port: 80 }], ...ranges };
      rig.put(service({ name: 'web', spec, status }), ready('10.1.0.1'));
      assert.deepEqual(await committed({ kernel, rig }), [['mangle', 'nat', 'filter']], left);
    }
  });
});

describe('a flush of the table nat by another program', () => {
  it('is repaired in portions, as many new rules are written, and what leads to the chains comes last', async () => {
    const kernel = new FakeIptables();
    const rig = new Rig({ commands: kernel, families: ['IPv4'] });
    for (let i = 0; i < 800; i++) {
      const [a, b] = [i >> 8, i & 255];
      rig.put(
        service({ name: `s${i}`, spec: { clusterIP: `10.97.${a}.${b}`, ports: [{ port: 80 }] } }),
        slice({ name: `s${i}-1`, service: `s${i}`, endpoints: [`10.1.${a}.${b}`, `10.2.${a}.${b}`] }),
      );
    }
    assert.equal((await rig.sync()).outcome, 'complete');
    const before = kernel.save('IPv4');
    const nat = kernel.kernels.IPv4.get('nat');
    for (const name of nat?.keys() ?? []) nat?.set(name, []);
    rig.loop.distrust();
    const first = kernel.ran.length;
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(kernel.save('IPv4'), before);
    const restores = kernel.ran.slice(first).filter(({ file }) => file.endsWith('-restore'));
    assert.ok(restores.length > 1, `${restores.length} restores`);
    assert.ok(restores.every(({ lines }) => lines.length < 1.5 * PORTION_LINES));
    const jumps = restores.map(({ lines }) => lines.some((line) => line.startsWith('-I PREROUTING')));
    assert.deepEqual(jumps, [...restores.slice(1).map(() => false), true]);
  });
});
