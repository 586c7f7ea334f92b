/** A question about `pod/NAMESPACE/NAME` asks the API server for that one Pod. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ApiError } from '../../../src/cluster/api/client.ts';
import { lookUpPod } from '../../../src/cluster/source/kubernetes.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

describe('a Pod', () => {
  let server: ApiServer;
  before(async () => {
    server = await ApiServer.start();
    server.put({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web-1', namespace: 'shop' },
      spec: { nodeName: 'node', containers: [] },
      status: { podIP: '10.244.1.11', podIPs: [{ ip: '10.244.1.11' }, { ip: 'fd00:244:1::11' }] },
    });
  });
  after(() => server.stop());

  const lookUp = async (key: string) => {
    const cluster = { kubeconfig: await server.kubeconfig(), master: undefined, userAgent: 'slicewire/test' };
    return await lookUpPod(key, cluster, NEVER);
  };

  it('is found with its addresses and its Node', async () => {
    const pod = await lookUp('shop/web-1');
    assert.deepEqual([pod?.addresses, pod?.nodeName], [['10.244.1.11', 'fd00:244:1::11'], 'node']);
  });

  it('that does not exist is none', async () => {
    assert.equal(await lookUp('shop/web-2'), undefined);
  });

  it('is asked for by its name alone: a name cannot lead to another path', async () => {
    assert.equal(await lookUp('shop/..%2f..%2fservices'), undefined);
    assert.equal(await lookUp('shop/web-1?x=y'), undefined);
  });

  it('is not missing where the API server is away: that is an error', async () => {
    const cluster = { kubeconfig: await server.kubeconfig(), master: undefined, userAgent: 'slicewire/test' };
    await server.stop();
    await assert.rejects(lookUpPod('shop/web-1', cluster, NEVER), (error) => !(error instanceof ApiError));
  });
});
