/** Kubernetes' end-to-end tests of EndpointSlice and of the controller of Endpoints, against the real controllers of slicewire. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { EndpointsObject, SliceObject } from '../../../src/cluster/producers/api-objects.ts';
import { namedPort, podWith, serviceOf } from '../../cluster/producers/real-objects.ts';
import { ControllerRig } from '../../controller/rig.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import { backendsOn } from './node-view.ts';

const [POD_1, POD_2] = ['10.244.0.2', '10.244.0.3'];
/** Kinds of objects that are watched. */
const WATCHED = 5;
const HERE = { nodeName: 'node-a', zone: '' };

async function start(t: TestContext): Promise<ControllerRig> {
  const rig = await ControllerRig.create(t);
  rig.node('node-a');
  await rig.start();
  await until('all is watched', () => rig.server.watches === WATCHED);
  return rig;
}

function put(rig: ControllerRig, object: object): void {
  rig.server.put({ ...object } as Parameters<typeof rig.server.put>[0]);
}

/** A Service that the API server has given its defaults. */
function service(name: string, spec: object): object {
  return serviceOf(name, { clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ipFamilies: ['IPv4'], ...spec });
}

/** Two Pods that wait for nobody: one port of a name in common, with another number each. */
function putPods(rig: ControllerRig): void {
  const on = (pod: string) => ({ [pod]: 'on', shared12: 'on' });
  const ports = [namedPort('example-name', 3001), namedPort('other-port', 3002)];
  put(rig, podWith('pod1', { n: 1, node: 'node-a', labels: on('pod1'), ports: [namedPort('example-name', 3000)] }));
  put(rig, podWith('pod2', { n: 2, node: 'node-a', labels: on('pod2'), ports }));
  const open = { publishNotReadyAddresses: true };
  const byNumber = { name: 'example', port: 80, targetPort: 3000, protocol: 'TCP' };
  const byName = { name: 'http', port: 80, targetPort: 'example-name', protocol: 'TCP' };
  put(rig, service('example-int-port', { ...open, selector: { pod1: 'on' }, ports: [byNumber] }));
  put(rig, service('example-named-port', { ...open, selector: { shared12: 'on' }, ports: [byName] }));
}

const NOBODY = { selector: { 'does-not-match-anything': 'yes' }, ports: [{ name: 'example', port: 80 }] };
const endpointsOf = (rig: ControllerRig, name: string) =>
  (rig.server.objects('Endpoints') as unknown as EndpointsObject[]).find(({ metadata }) => metadata.name === name);

/** Ports, address and Pod of each slice or subset. */
const bySlice = ({ ports, endpoints }: SliceObject) => [
  ports.map(({ name, port, protocol }) => `${name} ${port}/${protocol}`),
  endpoints.map(({ addresses, targetRef }) => [addresses[0], targetRef?.kind, targetRef?.namespace, targetRef?.name]),
];
const bySubset = ({ subsets }: EndpointsObject) =>
  subsets.map(({ ports = [], addresses = [] }) => [
    ports.map(({ name, port, protocol }) => `${name} ${port}/${protocol}`),
    addresses.map(({ ip, targetRef }) => [ip, targetRef?.kind, targetRef?.namespace, targetRef?.name]),
  ]);

const sorted = (list: readonly unknown[]) => list.map((one) => JSON.stringify(one)).sort();
const pod = (name: string, ip: string) => [ip, 'Pod', 'default', name];
const ONE = [[['example 3000/TCP'], [pod('pod1', POD_1)]]];
const TWO = [
  [['http 3000/TCP'], [pod('pod1', POD_1)]],
  [['http 3001/TCP'], [pod('pod2', POD_2)]],
];

describe('EndpointSlice', () => {
  it('should create and delete EndpointSlices for a Service with a selector that matches no pods', async (t) => {
    const rig = await start(t);
    put(rig, service('example-empty-selector', NOBODY));
    await until('a slice', () => rig.slices('example-empty-selector').length === 1);
    const [slice] = rig.slices('example-empty-selector');
    const manager = slice?.metadata.labels?.['endpointslice.kubernetes.io/managed-by'];
    assert.deepEqual([manager, slice?.endpoints], ['endpointslice-controller.k8s.io', []]);
    rig.server.delete('Service', 'default/example-empty-selector');
    await until('no slice', () => rig.slices('example-empty-selector').length === 0);
  });

  it('should create Endpoints and EndpointSlices for Pods matching a Service', async (t) => {
    const rig = await start(t);
    putPods(rig);
    const slices = (name: string, wanted: readonly unknown[]) =>
      until(`slices of ${name}`, () => `${sorted(rig.slices(name).map(bySlice))}` === `${sorted(wanted)}`);
    await slices('example-int-port', ONE);
    await slices('example-named-port', TWO);
    for (const { metadata } of rig.slices('example-named-port')) {
      rig.server.delete('EndpointSlice', `default/${metadata.name}`);
    }
    await slices('example-named-port', TWO);
  });

  it('should support a Service with multiple ports specified in multiple EndpointSlices', async (t) => {
    const rig = await start(t);
    putCustomSlices(rig, { port80: [POD_1, 8090], port81: [POD_1, 9090] });
    await aWhile();
    const wanted = { port80: [`${POD_1}:8090`], port81: [`${POD_1}:9090`] };
    assert.deepEqual(Object.fromEntries(backendsOn(rig, 'example-custom-endpoints', HERE)), wanted);
    assert.equal(rig.slices('example-custom-endpoints').length, 2, 'slices of others are left alone');
  });

  it('should support a Service with multiple endpoint IPs specified in multiple EndpointSlices', async (t) => {
    const rig = await start(t);
    putCustomSlices(rig, { port80: [POD_1, 8090], port81: [POD_2, 8090] });
    await aWhile();
    const wanted = { port80: [`${POD_1}:8090`], port81: [`${POD_2}:8090`] };
    assert.deepEqual(Object.fromEntries(backendsOn(rig, 'example-custom-endpoints', HERE)), wanted);
    assert.equal(rig.slices('example-custom-endpoints').length, 2, 'slices of others are left alone');
  });
});

/** A Service without a selector, with a slice for each of its ports that a person wrote. */
function putCustomSlices(
  rig: ControllerRig,
  slices: Readonly<Record<string, readonly [ip: string, port: number]>>,
): void {
  const ports = ['port80', 'port81'].map((name, i) => ({ name, port: 80 + i, protocol: 'TCP' }));
  put(rig, service('example-custom-endpoints', { selector: undefined, ports }));
  for (const [name, [ip, port]] of Object.entries(slices)) {
    const labels = { 'kubernetes.io/service-name': 'example-custom-endpoints' };
    put(rig, {
      kind: 'EndpointSlice',
      metadata: { name: `custom-${name}`, labels: { ...labels, 'endpointslice.kubernetes.io/managed-by': 'e2e-test' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [ip], conditions: { ready: true } }],
      ports: [{ name, port, protocol: 'TCP' }],
    });
  }
}

describe('EndpointsController', () => {
  it('should create and delete Endpoints for a Service with a selector that matches no pods', async (t) => {
    const rig = await start(t);
    put(rig, service('example-empty-selector', NOBODY));
    await until('Endpoints', () => endpointsOf(rig, 'example-empty-selector') !== undefined);
    rig.server.delete('Service', 'default/example-empty-selector');
    await until('no Endpoints', () => endpointsOf(rig, 'example-empty-selector') === undefined);
  });

  it('should create Endpoints for Pods matching a Service', async (t) => {
    const rig = await start(t);
    putPods(rig);
    const endpoints = (name: string, wanted: readonly unknown[]) =>
      until(`Endpoints ${name}`, () => {
        const found = endpointsOf(rig, name);
        return found !== undefined && `${sorted(bySubset(found))}` === `${sorted(wanted)}`;
      });
    await endpoints('example-int-port', ONE);
    await endpoints('example-named-port', TWO);
  });
});
