/** Ports of several protocols and names, from test/e2e/network/service.go of Kubernetes. */
import assert from 'node:assert/strict';
import { affinity, at, clusterAt, fails, type Jig, replies, type Suite } from '../jig.ts';

const BOTH = (['TCP', 'UDP'] as const).map((protocol) => ({ containerPort: 80, protocol }));

/** A port of a sidecar container (KEP-753), by its number or its name. */
async function reachesSidecar(jig: Jig, targetPort: number | string): Promise<void> {
  const service = await jig.service('sidecar', { ports: [{ name: 'http-sidecar', port: 8080, targetPort }] });
  const ports = [{ name: 'http-sidecar', containerPort: 8080 }];
  await jig.server('sidecar', 'sidecar-port', { ports, isSidecar: true });
  await replies(await jig.client(), clusterAt(service), 'sidecar-port');
}

export const protocols: Suite = {
  'should serve endpoints on same port and different protocols': async (jig) => {
    const tcp = { name: 'tcp-port', port: 80, protocol: 'TCP' as const };
    const udp = { name: 'udp-port', port: 80, protocol: 'UDP' as const };
    const service = await jig.service('multiprotocol-test', { ports: [tcp, udp] });
    await jig.server('multiprotocol-test', 'pod1', { ports: BOTH });
    await jig.endpointPorts('multiprotocol-test', { 'tcp-port': 'pod1:80/TCP', 'udp-port': 'pod1:80/UDP' });
    const client = await jig.client();
    const { clusterIP = '' } = service.spec;
    await replies(client, at(clusterIP, 80, 'TCP'), 'pod1');
    await replies(client, at(clusterIP, 80, 'UDP'), 'pod1');
    await jig.update(service, ({ spec }) => {
      spec.ports = [tcp];
    });
    await fails(client, at(clusterIP, 80, 'UDP'));
    await replies(client, at(clusterIP, 80, 'TCP'), 'pod1');
    await jig.update(service, ({ spec }) => {
      spec.ports = [udp];
    });
    await replies(client, at(clusterIP, 80, 'UDP'), 'pod1');
    await fails(client, at(clusterIP, 80, 'TCP'));
  },

  'should serve endpoints on same port and different protocol for internal traffic on Type LoadBalancer': async (
    jig,
  ) => {
    const ports = [
      { name: 'portname1', port: 80, targetPort: 'svc1', protocol: 'TCP' as const },
      { name: 'portname2', port: 80, targetPort: 'svc2', protocol: 'UDP' as const },
    ];
    const service = await jig.service('multiprotocol-lb-test', { type: 'LoadBalancer', ports });
    const serving = ports.map(({ targetPort, protocol }) => ({ name: targetPort, containerPort: 100, protocol }));
    await jig.server('multiprotocol-lb-test', 'pod1', { ports: serving });
    await jig.endpointPorts('multiprotocol-lb-test', { portname1: 'pod1:100/TCP', portname2: 'pod1:100/UDP' });
    await jig.isReachable(service, await jig.client());
  },

  'should allow creating a basic SCTP service with pod and endpoints': async (jig) => {
    const service = await jig.service('sctp-endpoint-test', { ports: [{ port: 5060, protocol: 'SCTP' }] });
    assert.ok(service.spec.clusterIP);
    await jig.endpoints('sctp-endpoint-test');
    const ports = [{ containerPort: 5060, protocol: 'SCTP' as const }];
    const pod = await jig.server('sctp-endpoint-test', 'pod1', { ports, serves: [] });
    await jig.endpoints('sctp-endpoint-test', pod);
    await jig.endpointPorts('sctp-endpoint-test', { '': 'pod1:5060/SCTP' });
    await jig.cluster.kubelet.end(pod);
    await jig.endpoints('sctp-endpoint-test');
  },

  'should connect to the ports exposed by restartable init containers': (jig) => reachesSidecar(jig, 8080),
  'should connect to the named ports exposed by restartable init containers': (jig) =>
    reachesSidecar(jig, 'http-sidecar'),

  'should support named targetPorts that resolve to different ports on different endpoints': async (jig) => {
    const ports = [{ name: 'mutable-named-port', port: 8001, targetPort: 'mutable-port' }];
    const service = await jig.service('mutable-named-port', { ports });
    const run = (name: string, containerPort: number) =>
      jig.server('mutable-named-port', name, { ports: [{ name: 'mutable-port', containerPort }] });
    const client = await jig.client();
    const old = [await run('testpod0', 8080), await run('testpod1', 8080)];
    const both = async (...names: string[]) => {
      await replies(client, clusterAt(service), ...names);
      await affinity(client, clusterAt(service), false);
    };
    await both('testpod0', 'testpod1');
    for (const [index, pod] of old.entries()) {
      await jig.cluster.kubelet.end(pod);
      await run(`testpod${index + 2}`, 8000);
      await both(`testpod${index + 1}`, `testpod${index + 2}`);
    }
  },
};
