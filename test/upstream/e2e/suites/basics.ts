/** Services and their endpoints, from test/e2e/network/service.go of Kubernetes. */
import assert from 'node:assert/strict';
import { until } from '../../../helpers/base/until.ts';
import { shellCommands } from '../../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';
import { at, clusterAt, fails, type Jig, nodePortAt, replies, type Suite, textOf } from '../jig.ts';

const named = (name: string, containerPort: number) => ({ ports: [{ name, containerPort }] });

/** A Service with servers, and that it answers as each of them. */
async function serveHostnames(jig: Jig, name: string, count = 3, labels: Record<string, string> = {}) {
  const service = await jig.service(name, {}, labels);
  const pods = await jig.servers(name, count);
  const names = pods.map((pod) => pod.name);
  const target = clusterAt(service);
  const isUp = async () => {
    const client = await jig.client(undefined, { name: `up-${name}-${Math.random().toString(36).slice(2)}` });
    await replies({ ask: (request) => jig.cluster.askFromNode('node-1', request) }, target, ...names);
    await replies(client, target, ...names);
    await jig.cluster.kubelet.end(client);
  };
  const isDown = () => fails({ ask: (request) => jig.cluster.askFromNode('node-1', request) }, target);
  return { service, pods, names, target, isUp, isDown };
}

/** A change of type to one that is served. */
async function fromExternalName(jig: Jig, type: 'ClusterIP' | 'NodePort'): Promise<void> {
  const { selector: _, ...spec } = {
    selector: {},
    type: 'ExternalName' as const,
    externalName: 'example.com',
    ports: [],
  };
  const external = await jig.service('externalname-service', spec);
  assert.equal(external.spec.clusterIP, undefined);
  const service = await jig.update(external, ({ spec: changed }) => {
    changed.type = type;
    delete changed.externalName;
    changed.ports = [{ name: 'http', port: 80, targetPort: 9376 }];
  });
  assert.ok(service.spec.clusterIP);
  await jig.servers('externalname-service', 2, { ports: [{ containerPort: 9376 }] });
  await jig.isReachable(service, await jig.client());
}

/** A change of type to a name that is none of the proxy's: what it was served by is served no more. */
async function toExternalName(jig: Jig, type: 'ClusterIP' | 'NodePort'): Promise<void> {
  const service = await jig.service('a-service', { type });
  const [pod] = await jig.servers('a-service', 1);
  assert.ok(pod);
  await jig.endpoints('a-service', pod);
  const client = await jig.client();
  await jig.isReachable(service, client);
  const external = await jig.update(service, ({ spec }) => {
    spec.type = 'ExternalName';
    spec.externalName = 'externalsvc.example.com';
  });
  assert.equal(external.spec.clusterIP, undefined);
  for (const target of jig.targets(service)) await fails(client, target);
}

export const basics: Suite = {
  'should serve a basic endpoint from pods': async (jig) => {
    const service = await jig.service('endpoint-test2');
    await jig.endpoints('endpoint-test2');
    const first = await jig.server('endpoint-test2', 'pod1');
    await jig.endpoints('endpoint-test2', first);
    const client = await jig.client();
    await replies(client, clusterAt(service), 'pod1');
    const second = await jig.server('endpoint-test2', 'pod2');
    await jig.endpoints('endpoint-test2', first, second);
    await replies(client, clusterAt(service), 'pod1', 'pod2');
    await jig.cluster.kubelet.end(first);
    await jig.endpoints('endpoint-test2', second);
    await replies(client, clusterAt(service), 'pod2');
    await jig.cluster.kubelet.end(second);
    await jig.endpoints('endpoint-test2');
    await fails(client, clusterAt(service), 'refused');
  },

  'should serve multiport endpoints from pods': async (jig) => {
    const ports = [
      { name: 'portname1', port: 80, targetPort: 'svc1' },
      { name: 'portname2', port: 81, targetPort: 'svc2' },
    ];
    const service = await jig.service('multi-endpoint-test', { ports });
    const client = await jig.client();
    await jig.endpointPorts('multi-endpoint-test', {});
    const first = await jig.server('multi-endpoint-test', 'pod1', named('svc1', 100));
    await jig.endpointPorts('multi-endpoint-test', { portname1: 'pod1:100/TCP' });
    const second = await jig.server('multi-endpoint-test', 'pod2', named('svc2', 101));
    await jig.endpointPorts('multi-endpoint-test', { portname1: 'pod1:100/TCP', portname2: 'pod2:101/TCP' });
    await replies(client, clusterAt(service, 80), 'pod1');
    await replies(client, clusterAt(service, 81), 'pod2');
    await jig.cluster.kubelet.end(first);
    await jig.endpointPorts('multi-endpoint-test', { portname2: 'pod2:101/TCP' });
    await fails(client, clusterAt(service, 80), 'refused');
    await jig.cluster.kubelet.end(second);
    await jig.endpointPorts('multi-endpoint-test', {});
  },

  'should be updated after adding or deleting ports': async (jig) => {
    const first = { name: 'portname1', port: 80, targetPort: 'svc1' };
    const second = { name: 'portname2', port: 81, targetPort: 'svc2' };
    const service = await jig.service('edit-port-test', { ports: [first] });
    await jig.server('edit-port-test', 'pod1', named('svc1', 100));
    await jig.endpointPorts('edit-port-test', { portname1: 'pod1:100/TCP' });
    const client = await jig.client();
    await replies(client, clusterAt(service, 80), 'pod1');
    await jig.update(service, ({ spec }) => {
      spec.ports = [first, second];
    });
    await jig.server('edit-port-test', 'pod2', named('svc2', 101));
    await jig.endpointPorts('edit-port-test', { portname1: 'pod1:100/TCP', portname2: 'pod2:101/TCP' });
    await replies(client, clusterAt(service, 80), 'pod1');
    await replies(client, clusterAt(service, 81), 'pod2');
    await jig.update(service, ({ spec }) => {
      spec.ports = [first];
    });
    await jig.endpointPorts('edit-port-test', { portname1: 'pod1:100/TCP' });
    await replies(client, clusterAt(service, 80), 'pod1');
    await fails(client, clusterAt(service, 81));
  },

  'should preserve source pod IP for traffic thru service cluster IP': async (jig) => {
    const service = await jig.service('sourceip-test', { ports: [{ port: 8080 }], ipFamilyPolicy: 'RequireDualStack' });
    await jig.server('sourceip-test', 'echo-sourceip', { ports: [{ containerPort: 8080 }] });
    for (const node of ['node-1', 'node-2']) {
      const client = await jig.client(node);
      const { v4, v6 } = client.addresses;
      const [first = '', second = ''] = service.spec.clusterIPs ?? [];
      for (const [address, own] of [
        [first, v4],
        [second, v6],
      ] as const) {
        await replies(client, at(address, 8080));
        assert.equal(await textOf(client, { ...at(address, 8080), path: 'clientip' }), own);
      }
    }
  },

  'should allow pods to hairpin back to themselves through services': async (jig) => {
    const service = await jig.service('hairpin-test', { ports: [{ port: 8080 }], ipFamilyPolicy: 'RequireDualStack' });
    const pod = await jig.server('hairpin-test', 'hairpin', { ports: [{ containerPort: 8080 }] });
    await jig.endpoints('hairpin-test', pod);
    await jig.isReachable(service, pod);
  },

  'should be able to up and down services': async (jig) => {
    const first = await serveHostnames(jig, 'up-down-1');
    const second = await serveHostnames(jig, 'up-down-2');
    await first.isUp();
    await second.isUp();
    for (const pod of first.pods) await jig.cluster.kubelet.end(pod);
    await jig.remove(first.service);
    await first.isDown();
    await second.isUp();
    const third = await serveHostnames(jig, 'up-down-3');
    await second.isUp();
    await third.isUp();
  },

  'should work after the service has been recreated': async (jig) => {
    const { service, isUp, isDown, names } = await serveHostnames(jig, 'service-deletion', 1);
    await isUp();
    await jig.remove(service);
    await isDown();
    const again = await jig.service('service-deletion');
    await replies(await jig.client(), clusterAt(again), ...names);
  },

  'should be able to create a functioning NodePort service': async (jig) => {
    const ports = [{ name: 'http', port: 80, targetPort: 9376 }];
    const service = await jig.service('nodeport-test', { type: 'NodePort', ports });
    await jig.servers('nodeport-test', 2, { ports: [{ containerPort: 9376 }] });
    await jig.isReachable(service, await jig.client());
    await jig.isReachable(service, await jig.client('node-2', { hostNetwork: true }));
    for (const { addresses } of jig.cluster.nodes)
      await replies({ ask: (request) => jig.cluster.askFromOutside(request) }, nodePortAt(service, addresses.v4));
  },

  'should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node': async (
    jig,
  ) => {
    const ports = [{ name: 'http', port: 80, targetPort: 9376 }];
    const service = await jig.service('externalip-test', { ports, externalIPs: [jig.externalAddress] });
    await jig.servers('externalip-test', 2, { ports: [{ containerPort: 9376 }] });
    const client = await jig.client();
    assert.ok(jig.targets(service).some(({ address }) => address === jig.externalAddress));
    await jig.isReachable(service, client);
  },

  'should be able to update service type to NodePort listening on same port number but different protocols': async (
    jig,
  ) => {
    const tcp = { name: 'tcp-port', port: 80, protocol: 'TCP' as const, targetPort: 9376 };
    const service = await jig.service('nodeport-update-service');
    const changed = await jig.update(service, ({ spec }) => Object.assign(spec, { type: 'NodePort', ports: [tcp] }));
    const ports = (['TCP', 'UDP'] as const).map((protocol) => ({ containerPort: 9376, protocol }));
    await jig.servers('nodeport-update-service', 2, { ports });
    const client = await jig.client();
    await jig.isReachable(changed, client);
    const both = await jig.update(service, ({ spec }) => {
      spec.ports = [...(spec.ports ?? []), { ...tcp, name: 'udp-port', protocol: 'UDP' }];
    });
    assert.equal(both.spec.ports?.filter(({ nodePort }) => nodePort !== undefined).length, 2);
    await jig.isReachable(both, client);
  },

  'should be able to change the type from ExternalName to ClusterIP': (jig) => fromExternalName(jig, 'ClusterIP'),
  'should be able to change the type from ExternalName to NodePort': (jig) => fromExternalName(jig, 'NodePort'),
  'should be able to change the type from ClusterIP to ExternalName': (jig) => toExternalName(jig, 'ClusterIP'),
  'should be able to change the type from NodePort to ExternalName': (jig) => toExternalName(jig, 'NodePort'),

  'should release NodePorts on delete': async (jig) => {
    const nodePort = 31_999;
    const service = await jig.service('nodeport-reuse', { type: 'NodePort', ports: [{ port: 80, nodePort }] });
    const [pod] = await jig.servers('nodeport-reuse', 1);
    const client = await jig.client();
    await jig.isReachable(service, client);
    await jig.remove(service);
    for (const { name, addresses } of jig.cluster.nodes) {
      await fails(client, at(addresses.v4, nodePort));
      await until(`nobody listens on ${nodePort}`, async () => {
        const inside = jig.cluster.network.inside(name, 'ss', ['-Hltn', `sport = :${nodePort}`]);
        return (await shellCommands.run(inside, NEVER)).stdout === '';
      });
    }
    const again = await jig.service('nodeport-reuse', { type: 'NodePort', ports: [{ port: 80, nodePort }] });
    await replies(client, nodePortAt(again, jig.cluster.nodes[0]?.addresses.v4 ?? ''), pod?.name ?? '');
  },

  'should implement service.kubernetes.io/service-proxy-name': async (jig) => {
    const label = { 'service.kubernetes.io/service-proxy-name': 'foo-bar' };
    const disabled = await serveHostnames(jig, 'service-proxy-disabled', 3, label);
    const toggled = await serveHostnames(jig, 'service-proxy-toggled');
    await toggled.isUp();
    await disabled.isDown();
    await jig.update(toggled.service, ({ metadata }) => {
      metadata.labels = label;
    });
    await toggled.isDown();
    await jig.update(toggled.service, ({ metadata }) => {
      metadata.labels = {};
    });
    await toggled.isUp();
    await disabled.isDown();
  },

  'should implement service.kubernetes.io/headless': async (jig) => {
    const { selector: _, ...spec } = { selector: {}, ports: [{ name: 'port80', port: 80 }] };
    const service = await jig.service('example-custom-endpoints', spec);
    const pod = await jig.server('nobody', 'pod-handle-http-request', { ports: [{ containerPort: 8090 }] });
    const labels = {
      'kubernetes.io/service-name': 'example-custom-endpoints',
      'endpointslice.kubernetes.io/managed-by': 'e2e-test',
    };
    const slice = await jig.cluster.api.create({
      ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
      metadata: { name: 'e2e-custom-slice', namespace: jig.namespace, labels },
      addressType: 'IPv4',
      endpoints: [{ addresses: [pod.addresses.v4], conditions: { ready: true } }],
      ports: [{ name: 'port80', port: 8090, protocol: 'TCP' }],
    });
    const client = await jig.client();
    await replies(client, clusterAt(service), 'pod-handle-http-request');
    await jig.update(slice, ({ metadata }) => {
      metadata.labels = { ...labels, 'service.kubernetes.io/headless': '' };
    });
    await fails(client, clusterAt(service));
  },
};

export { serveHostnames };
