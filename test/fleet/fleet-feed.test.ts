/** What the fleet reads of the API server, in protobuf and in JSON. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { realClock } from '../../src/base/clock.ts';
import { apiClient } from '../../src/cluster/api/client.ts';
import { loadCredentials } from '../../src/cluster/api/credentials.ts';
import { FleetFeed } from '../../src/fleet/fleet-feed.ts';
import { FleetNodes } from '../../src/fleet/fleet-nodes.ts';
import { FleetObjects } from '../../src/fleet/fleet-objects.ts';
import { ProgrammingLatency } from '../../src/fleet/programming-latency.ts';
import type { AgentAddress } from '../../src/fleet/tracked-node.ts';
import { faultText } from '../../src/proxy/model/objects.ts';
import { until } from '../helpers/base/until.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { agentsSlice } from './rig.ts';

async function started(t: TestContext, hasProtobuf: boolean) {
  const api = await ApiServer.start({ hasProtobuf });
  const client = apiClient(await loadCredentials({ kubeconfig: await api.kubeconfig(), master: undefined }), {
    userAgent: 'test',
  });
  const seen: string[] = [];
  const objects = new FleetObjects(realClock, (kind, version, key) => void seen.push(`${kind} ${version} ${key}`));
  const nodes = new FleetNodes({
    clock: realClock,
    programming: new ProgrammingLatency(realClock),
    leaveOutAfter: 60_000,
  });
  const faults: string[] = [];
  const places = new Map<string, AgentAddress | undefined>();
  const feed = new FleetFeed({
    ...{ objects, nodes, client, clock: realClock, agents: { namespace: 'kube-system', name: 'slicewire-agents' } },
    log: { info: () => undefined, v2: () => undefined, warn: () => undefined },
    onFault: (fault) => void faults.push(faultText(fault)),
    links: { set: (node, at) => void places.set(node, at) === undefined },
  });
  const stop = new AbortController();
  const following = feed.follow(stop.signal);
  t.after(async () => {
    stop.abort(new Error('stopped'));
    await following;
    client.close();
    await api.stop();
  });
  await until('the lists', () => feed.isSynced);
  const standing = (pod: string) => objects.stateOf({ kind: 'pod', pod });
  return { api, objects, faults, places, standing, seen };
}

const endpoint = (address: string, name: string) => ({
  addresses: [address],
  nodeName: 'n1',
  conditions: { ready: true },
  targetRef: { kind: 'Pod', namespace: 'shop', name },
});

for (const [form, hasProtobuf] of [
  ['protobuf', true],
  ['JSON', false],
] as const) {
  describe(`the feed of the fleet in ${form}`, () => {
    it('knows the Pod of each endpoint, also beside one that cannot be read', async (t) => {
      const { api, faults, standing } = await started(t, hasProtobuf);
      api.put(service({ name: 'web', namespace: 'shop', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }));
      const endpoints = [
        endpoint('fd00::1', 'six'),
        endpoint('10.1.0.2', 'web-2'),
        { ...endpoint('10.1.0.3', 'web-3'), targetRef: { kind: 'VirtualMachine', namespace: 'shop', name: 'web-3' } },
        endpoint('10.1.0.4', 'web-4'),
      ];
      api.put(slice({ name: 'web-a', namespace: 'shop', service: 'web', endpoints, addressType: 'IPv4' }));
      await until('the slice', () => standing('shop/web-4').services.length === 1);
      assert.match(standing('shop/web-2').takes ?? '', /10\.1\.0\.2/);
      assert.match(standing('shop/web-4').takes ?? '', /10\.1\.0\.4/);
      assert.deepEqual([standing('shop/web-3').services, standing('shop/six').services], [[], []]);
      assert.match(
        faults.join('\n'),
        /^EndpointSlice shop\/web-a: endpoints\[0\]\.addresses\[0\]: fd00::1: must be an IPv4/,
      );
    });

    it('tells changes of watches from lists, with their versions', async (t) => {
      const { api, objects, seen } = await started(t, hasProtobuf);
      const put = api.put(slice({ name: 'a', namespace: 'shop', service: 'web', endpoints: ['10.1.0.1'] }));
      await until('the change', () => seen.length === 1);
      api.delete('EndpointSlice', 'shop/a');
      await until('the end', () => seen.length === 2);
      assert.deepEqual(seen, [`slices ${put} shop/web`, `slices ${api.version} shop/web`]);
      assert.equal(objects.isComplete, true);
    });

    it('follows the agents from slice to slice', async (t) => {
      const { api, faults, places } = await started(t, hasProtobuf);
      const node = (name: string) => ({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name },
        status: { conditions: [{ type: 'Ready', status: 'True' }] },
      });
      api.put(node('n1'));
      api.put(agentsSlice('n1', 10_256));
      await until('the agent', () => places.get('n1')?.port === 10_256);
      // Its successor is there while it ends.
      api.put(agentsSlice('n1', 10_256, { ready: false, serving: true, terminating: true }));
      const other = agentsSlice('n1', 10_257) as { metadata: { name: string } };
      other.metadata.name = 'slicewire-agents-z';
      api.put(other);
      await until('the successor', () => places.get('n1')?.port === 10_257);
      api.delete('EndpointSlice', 'kube-system/slicewire-agents-z');
      await until('the former', () => places.get('n1')?.port === 10_256);
      api.delete('EndpointSlice', 'kube-system/slicewire-agents-n1');
      await until('none', () => places.get('n1') === undefined);
      assert.deepEqual(faults, []);
    });
  });
}
