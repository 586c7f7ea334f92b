/** What is asked of the API server itself before something is removed, and what a refused write leaves alone. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { apiClient } from '../../src/api/client.ts';
import { StaleCache } from '../../src/controller/workers.ts';
import { mustBeGone } from '../../src/controller/writer.ts';
import { ApiServer } from '../helpers/api-server.ts';
import { NEVER } from '../helpers/rig.ts';
import { until } from '../helpers/until.ts';
import { address, ControllerRig } from './rig.ts';

async function start(t: TestContext) {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  const credentials = {
    server: server.url,
    apply: (options: { agent?: unknown }) => {
      options.agent = false;
      return Promise.resolve();
    },
  };
  return { server, client: apiClient(credentials, { userAgent: 'test' }) };
}

describe('an object that the cache does not show', () => {
  it('is gone when the API server says so, and in no other case', async (t) => {
    const { server, client } = await start(t);
    await mustBeGone(client, 'services', 'default/web', NEVER);
    server.put({ kind: 'Service', metadata: { name: 'web', namespace: 'default' }, spec: {} });
    await assert.rejects(mustBeGone(client, 'services', 'default/web', NEVER), StaleCache);
    server.failNext(1, 503);
    await assert.rejects(mustBeGone(client, 'endpoints', 'default/web', NEVER), /503/);
  });
});

describe('a refused write', () => {
  it('of one family does not keep the other', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web', { ipFamilies: ['IPv4', 'IPv6'] });
    rig.pod('web', 1);
    rig.server.failNext(1, 500, {}, { kind: 'write', resource: 'endpointslices' });
    await rig.start({ controllers: 'endpointslice-controller' });
    await until('the other family', () => rig.slices('web').length === 1);
    assert.deepEqual(
      rig.slices('web').map(({ addressType }) => addressType),
      ['IPv6'],
    );
    await until('the first, tried again', () => rig.ready('web').join() === address(1));
    assert.equal(rig.slices('web').length, 2);
  });
});

describe('Endpoints', () => {
  it('that a person wrote stay, though no Service has their name; those of a Service that is gone go', async (t) => {
    const rig = await ControllerRig.create(t);
    rig.node('node-a');
    rig.service('web');
    rig.pod('web', 1);
    const subsets = [{ addresses: [{ ip: '192.168.4.100' }], ports: [{ port: 80, protocol: 'TCP' }] }];
    rig.server.put({ kind: 'Endpoints', metadata: { name: 'mine', namespace: 'default' }, subsets });
    await rig.start();
    await until('both', () => rig.server.objects('Endpoints').length === 2);
    rig.server.delete('Service', 'default/web');
    await until('one', () => rig.server.objects('Endpoints').length === 1);
    assert.equal(rig.server.objects('Endpoints')[0]?.metadata.name, 'mine');
  });
});
