/** Kubernetes' end-to-end tests of the mirroring of Endpoints, against the real controllers of slicewire. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { ControllerRig } from '../../controller/rig.ts';
import { until } from '../../helpers/base/until.ts';
import { backendsOn } from './node-view.ts';

const NAME = 'example-custom-endpoints';

async function start(t: TestContext, ports: readonly object[]): Promise<ControllerRig> {
  const rig = await ControllerRig.create(t);
  rig.node('node-a');
  await rig.start();
  rig.service(NAME, { selector: undefined, ports });
  return rig;
}

function putEndpoints(rig: ControllerRig, subsets: readonly object[]): void {
  rig.server.put({ kind: 'Endpoints', metadata: { name: NAME, namespace: 'default' }, subsets });
}

/** Ports and addresses of the slices. */
const content = (rig: ControllerRig) =>
  rig
    .slices(NAME)
    .map(({ ports, endpoints }) => [ports.map(({ port }) => port), endpoints.map(({ addresses }) => addresses)]);

const isContent = (rig: ControllerRig, wanted: readonly unknown[]) =>
  JSON.stringify(content(rig)) === JSON.stringify(wanted);

describe('EndpointSliceMirroring', () => {
  it('should mirror a custom Endpoints resource through create update and delete', async (t) => {
    const rig = await start(t, [{ name: 'example', port: 80, protocol: 'TCP' }]);
    const ports = [{ port: 80 }];
    putEndpoints(rig, [{ addresses: [{ ip: '10.1.2.3' }], ports }]);
    await until('a slice of its own', () => isContent(rig, [[[80], [['10.1.2.3']]]]));
    putEndpoints(rig, [{ addresses: [{ ip: '10.2.3.4' }], ports }]);
    await until('the other address', () => isContent(rig, [[[80], [['10.2.3.4']]]]));
    rig.server.delete('Endpoints', `default/${NAME}`);
    await until('no slice', () => rig.slices(NAME).length === 0);
  });

  it('should mirror a custom Endpoint with multiple subsets and same IP address', async (t) => {
    const names = ['port80', 'port81'];
    const rig = await start(
      t,
      names.map((name, i) => ({ name, port: 80 + i, protocol: 'TCP' })),
    );
    const subset = (name: string, port: number) => ({ addresses: [{ ip: '10.244.0.2' }], ports: [{ name, port }] });
    putEndpoints(rig, [subset('port80', 8090), subset('port81', 9090)]);
    await until('both ports', () => rig.slices(NAME).flatMap(({ ports }) => ports).length === 2);
    const used = backendsOn(rig, NAME, { nodeName: 'node-a', zone: '' });
    assert.deepEqual(Object.fromEntries(used), { port80: ['10.244.0.2:8090'], port81: ['10.244.0.2:9090'] });
    rig.server.delete('Endpoints', `default/${NAME}`);
    await until('no slice', () => rig.slices(NAME).length === 0);
  });
});
