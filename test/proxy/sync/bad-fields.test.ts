/** Each field with a wrong value: the Service is programmed without that part, or set aside. The fault names object and field. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { faultText } from '../../../src/proxy/model/objects.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';
import { OBJECTS } from '../../messages/objects.ts';
import { problemIn } from '../../messages/row.ts';

interface Row {
  readonly spec?: Record<string, unknown>;
  readonly ingress?: readonly object[];
  readonly endpoints?: readonly object[];
  /** The zone of this node; default: none. */
  readonly zone?: string;
  /** The message, after «Service default/web: » unless it names another object. */
  readonly says: string;
  /** Whether the cluster IP is served nevertheless. */
  readonly isServed: boolean;
}

const hinted = (address: string, ...zones: string[]) => ({
  addresses: [address],
  hints: { forZones: zones.map((name) => ({ name })) },
});

const SERVICE = 'Service shop/web: spec';
const NUMBER = problemIn(OBJECTS, `${SERVICE}.ports[0].port: 70000`);
const PROTOCOL = problemIn(OBJECTS, `${SERVICE}.ports[0].protocol: HTTP`);
const RANGE = problemIn(OBJECTS, `${SERVICE}.loadBalancerSourceRanges[0]: 10.0.0.1`);
const POLICY = problemIn(OBJECTS, `${SERVICE}.externalTrafficPolicy: local`);
const AFFINITY = problemIn(OBJECTS, `${SERVICE}.sessionAffinity: Cookie`);
const NO_TIMEOUT = problemIn(OBJECTS, `${SERVICE}.sessionAffinityConfig.clientIP.timeoutSeconds`, 'is missing');
const HOST_NAME = problemIn(OBJECTS, 'Service shop/web: status.loadBalancer.ingress[0].hostname: lb.example.com');
const HINT = problemIn(OBJECTS, 'EndpointSlice shop/web-x: endpoints[0].hints.forZones[0].name: -');

const ROWS: Readonly<Record<string, Row>> = {
  'a bad CIDR in the ranges': {
    spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.0/8', '10.0.0.0/33'] },
    ingress: [{ ip: '198.51.100.1' }],
    says: `spec.loadBalancerSourceRanges[1]: 10.0.0.0/33: ${RANGE} (part left out)`,
    isServed: true,
  },
  'affinity without a timeout': {
    spec: { sessionAffinity: 'ClientIP' },
    says: `spec.sessionAffinityConfig.clientIP.timeoutSeconds: ${NO_TIMEOUT} (default used)`,
    isServed: true,
  },
  'an affinity that does not exist': {
    spec: { sessionAffinity: 'Cookie' },
    says: `spec.sessionAffinity: Cookie: ${AFFINITY} (default used)`,
    isServed: true,
  },
  'a hint for a zone that is not this node’s': {
    endpoints: [hinted('10.244.1.1', 'z'), hinted('10.244.1.2', 'y')],
    zone: 'a',
    says: "endpoints.hints.forZones: y,z: not used for default/web (TCP, IPv4): no hint names this node's zone a (no effect here)",
    isServed: true,
  },
  'hints on a node without a zone': {
    endpoints: [hinted('10.244.1.1', 'z')],
    says: 'endpoints.hints.forZones: z: not used for default/web (TCP, IPv4): this node has no label topology.kubernetes.io/zone (no effect here)',
    isServed: true,
  },
  'hints on some endpoints alone': {
    endpoints: [hinted('10.244.1.1', 'a'), hinted('10.244.1.2')],
    zone: 'a',
    says: 'endpoints.hints.forZones: a: not used for default/web (TCP, IPv4): not every ready endpoint has a hint (no effect here)',
    isServed: true,
  },
  'a hint that is no name': {
    endpoints: [hinted('10.244.1.1', '-')],
    says: `EndpointSlice default/web-1: endpoints[0].hints.forZones[0].name: -: ${HINT} (part left out)`,
    isServed: true,
  },
  'an ingress with a hostname': {
    spec: { type: 'LoadBalancer' },
    ingress: [{ hostname: 'lb.example.com' }],
    says: `status.loadBalancer.ingress[0].hostname: lb.example.com: ${HOST_NAME} (no effect here)`,
    isServed: true,
  },
  'an ipMode that does not exist': {
    spec: { type: 'LoadBalancer' },
    ingress: [{ ip: '198.51.100.1', ipMode: 'NAT' }],
    says: 'status.loadBalancer.ingress[0].ipMode: NAT: must be VIP or Proxy (part left out)',
    isServed: true,
  },
  'an internal policy that does not exist': {
    spec: { internalTrafficPolicy: 'Near' },
    says: `spec.internalTrafficPolicy: Near: ${POLICY} (default used)`,
    isServed: true,
  },
  'an external policy that does not exist': {
    spec: { externalTrafficPolicy: 'Far' },
    says: `spec.externalTrafficPolicy: Far: ${POLICY} (default used)`,
    isServed: true,
  },
  'an external IP that is the cluster IP': {
    spec: { externalIPs: ['10.96.0.10'] },
    says: 'spec.externalIPs: 10.96.0.10: already an address of this Service by spec.clusterIP (no effect here)',
    isServed: true,
  },
  'an external IP that is no address': {
    spec: { externalIPs: ['192.0.2'] },
    says: 'spec.externalIPs[0]: 192.0.2: must be an IP address (part left out)',
    isServed: true,
  },
  'a health check port out of range': {
    spec: { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 99_999 },
    says: `spec.healthCheckNodePort: 99999: ${NUMBER} (part left out)`,
    isServed: true,
  },
  'a protocol that does not exist': {
    spec: { ports: [{ port: 80, protocol: 'QUIC' }] },
    says: `spec.ports[0].protocol: QUIC: ${PROTOCOL} (object set aside)`,
    isServed: false,
  },
  'a node port out of range': {
    spec: { ports: [{ port: 80, nodePort: 70_000 }] },
    says: `spec.ports[0].nodePort: 70000: ${NUMBER} (object set aside)`,
    isServed: false,
  },
  'a cluster IP that is no address': {
    spec: { clusterIP: '10.96.0.300' },
    says: 'spec.clusterIP: 10.96.0.300: must be an IP address (object set aside)',
    isServed: false,
  },
};

describe('a field with a wrong value', () => {
  for (const [what, { spec, ingress = [], endpoints = ['10.244.1.1'], zone, says, isServed }] of Object.entries(ROWS)) {
    it(what, async () => {
      const kernel = new FakeIptables();
      const rig = new Rig({ commands: kernel, families: ['IPv4'] });
      const other = { clusterIP: '10.96.0.99', ports: [{ port: 80 }] };
      rig.put(
        nodeOf(zone),
        service({ name: 'other', spec: other }),
        slice({ name: 'other-1', service: 'other', endpoints: ['10.244.1.9'] }),
        service({
          name: 'web',
          spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec },
          status: { loadBalancer: { ingress } },
        }),
        slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: endpoints as object[] }),
      );
      assert.equal((await rig.sync()).outcome, 'complete');
      const expected = says.startsWith('EndpointSlice ') ? says : `Service default/web: ${says}`;
      assert.deepEqual(rig.faults.map(faultText), [expected]);
      const rules = kernel.save('IPv4');
      assert.match(rules, /default\/other cluster IP/, 'the other Service is served');
      assert.equal(rules.includes('default/web cluster IP'), isServed);
      // The fault is counted once, as long as it exists.
      const counted = [rig.cache, rig.loop].flatMap(({ faults }) => [...faults.counts]);
      const effect = /\(([^()]*)\)$/.exec(says)?.[1];
      assert.deepEqual(counted, [[effect, 1]]);
    });
  }
});
