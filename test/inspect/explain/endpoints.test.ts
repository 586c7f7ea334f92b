/** Every endpoint of every slice has its reason. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode } from '../../helpers/inspect/explain/asking.ts';
import { OBJECTS } from '../../messages/objects.ts';
import { problemIn } from '../../messages/row.ts';

const PORTS = [{ name: 'http', port: 8080 }];
const web = (spec: object = {}) =>
  service({
    name: 'web',
    namespace: 'shop',
    spec: { clusterIP: '10.96.0.10', ports: [{ name: 'http', port: 80 }], ...spec },
  });
const part = (name: string, endpoints: readonly object[], more: { ports?: readonly object[] } = {}) =>
  slice({ name, namespace: 'shop', service: 'web', addressType: 'IPv4', ports: PORTS, endpoints, ...more });
const at = (host: number, conditions: object = {}, more: object = {}) => ({
  addresses: [`10.244.1.${host}`],
  conditions,
  ...more,
});

/** `slice endpoint used|not used: why`, of each endpoint. */
async function reasons(...objects: object[]): Promise<string[]> {
  const node = askedNode('nftables');
  node.rig.put(nodeOf('zone-a'), ...objects);
  await node.rig.sync();
  const { slices } = await node.ask('10.244.1.99', 'svc/shop/web');
  return slices.flatMap(({ slice: of, endpoints }) =>
    endpoints.map(({ endpoint, used, why }) => `${of} ${endpoint} ${used ? 'used' : 'not used'}: ${why}`),
  );
}

describe('the reason of an endpoint', () => {
  it('is its condition where that keeps it out', async () => {
    const draining = { ready: false, serving: true, terminating: true };
    const gone = { ready: false, serving: false, terminating: true };
    const unready = { ready: false, serving: false, terminating: false };
    const slow = { ready: false, serving: true, terminating: false };
    assert.deepEqual(
      await reasons(web(), part('web-1', [at(1), at(2, draining), at(3, gone), at(4, unready), at(5, slow)])),
      [
        'shop/web-1 10.244.1.1:8080 used: ready',
        'shop/web-1 10.244.1.2:8080 not used: terminating and still serving; not used while ready endpoints are there',
        'shop/web-1 10.244.1.3:8080 not used: terminating, and not serving any more',
        'shop/web-1 10.244.1.4:8080 not used: not ready',
        'shop/web-1 10.244.1.5:8080 not used: not ready, though serving',
      ],
    );
    assert.deepEqual(await reasons(web(), part('web-1', [at(2, draining), at(4, unready)])), [
      'shop/web-1 10.244.1.2:8080 used: terminating and still serving; used because no ready endpoint is left',
      'shop/web-1 10.244.1.4:8080 not used: not ready',
    ]);
  });

  it('names the slice whose entry counts', async () => {
    const unready = { ready: false, serving: false };
    assert.deepEqual(await reasons(web(), part('web-1', [at(1, unready)]), part('web-2', [at(1)])), [
      'shop/web-1 10.244.1.1:8080 not used: duplicate of the entry in slice shop/web-2, which counts',
      'shop/web-2 10.244.1.1:8080 used: ready',
    ]);
    assert.deepEqual(await reasons(web(), part('web-1', [at(1)]), part('web-2', [at(1)])), [
      'shop/web-1 10.244.1.1:8080 used: ready',
      'shop/web-2 10.244.1.1:8080 not used: duplicate of the entry in slice shop/web-1, which counts',
    ]);
  });

  it('names the ports of the slice', async () => {
    const ports = [
      { name: 'web', port: 8080 },
      { name: 'http', port: 8080, protocol: 'UDP' },
    ];
    assert.deepEqual(await reasons(web(), part('web-1', [at(1)], { ports })), [
      'shop/web-1 10.244.1.1 not used: the slice has no port http for TCP, but web 8080/TCP and http 8080/UDP',
    ]);
    assert.deepEqual(await reasons(web(), part('web-1', [at(1)], { ports: [] })), [
      'shop/web-1 10.244.1.1 not used: the slice has no ports',
    ]);
  });

  it('is the fault of an endpoint that is set aside', async () => {
    assert.deepEqual(await reasons(web(), part('web-1', [at(1), { addresses: ['10.244.1.300'] }])), [
      'shop/web-1 10.244.1.1:8080 used: ready',
      'shop/web-1 10.244.1.300 not used: set aside: endpoints[1].addresses[0] must be an IP address',
    ]);
  });

  it('is the node, under policy Local, and the hint, under policy Cluster', async () => {
    const hinted = (zone: string) => ({ hints: { forZones: [{ name: zone }] } });
    const endpoints = [at(1, {}, { nodeName: 'node', ...hinted('zone-b') }), at(2, {}, hinted('zone-a'))];
    assert.deepEqual(await reasons(web({ internalTrafficPolicy: 'Local' }), part('web-1', endpoints)), [
      'shop/web-1 10.244.1.1:8080 used: ready, and on this node',
      'shop/web-1 10.244.1.2:8080 not used: not on this node: internalTrafficPolicy is Local',
    ]);
    assert.deepEqual(await reasons(web(), part('web-1', endpoints)), [
      'shop/web-1 10.244.1.1:8080 not used: its hint is for zone zone-b, and this node is in zone zone-a',
      "shop/web-1 10.244.1.2:8080 used: ready, and its hint names this node's zone zone-a",
    ]);
  });

  it('is the hint for nodes before that for zones', async () => {
    const hints = (node: string) => ({ hints: { forNodes: [{ name: node }], forZones: [{ name: 'zone-a' }] } });
    assert.deepEqual(await reasons(web(), part('web-1', [at(1, {}, hints('node')), at(2, {}, hints('other'))])), [
      'shop/web-1 10.244.1.1:8080 used: ready, and its hint names this node',
      'shop/web-1 10.244.1.2:8080 not used: its hint is for node other, and this node is node',
    ]);
  });
});

describe('the reasons of a Service', () => {
  const ask = async (...objects: object[]) => {
    const node = askedNode('iptables');
    node.rig.put(nodeOf('zone-a'), ...objects);
    await node.rig.sync();
    const { reasons: found } = await node.ask('10.244.1.99', 'svc/shop/web');
    return found.map(({ object, field, value, says }) => `${object} | ${field} | ${value} | ${says}`);
  };

  it('are hints that are not used', async () => {
    const hinted = { hints: { forZones: [{ name: 'zone-b' }] } };
    assert.deepEqual((await ask(web(), part('web-1', [at(1, {}, hinted), at(2)]))).slice(3), [
      'EndpointSlices of shop/web | endpoints[].hints | zone-b | The hints are not used: not every ready endpoint has a hint.',
    ]);
  });

  it('are faults of the Service, and slices that are set aside', async () => {
    const LABEL = 'metadata.labels[kubernetes.io/service-name]';
    const OWNER = problemIn(OBJECTS, `EndpointSlice shop/web-x: ${LABEL}`);
    const broken = slice({ name: 'web-x', namespace: 'shop', service: 'No Name', endpoints: ['10.244.1.1'] });
    assert.deepEqual((await ask(web({ externalIPs: ['bogus'] }), broken)).slice(3), [
      'Service shop/web | spec.externalIPs[0] | bogus | Must be an IP address (part left out).',
      `EndpointSlices of shop/web |  |  | EndpointSlice shop/web-x: ${LABEL}: No Name: ${OWNER} (object set aside).`,
    ]);
  });
});
