/** Which of several Services gets an address, and that deciding it costs by the number of claims, however many ports the Services have. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { Claims } from '../../../src/proxy/model/claims.ts';
import type { Service } from '../../../src/proxy/model/objects.ts';
import type { PortsOfService } from '../../../src/proxy/model/packed/ports.ts';
import { type Location, type ServicePort, servicePorts } from '../../../src/proxy/model/service-port.ts';

const PORTS = 100;
const HERE: Location = { nodeName: 'node-1', zone: '' };

/** `clusterIP`, and an external IP, with the same many ports. */
function portsOf(key: string, clusterIP: string, externalIP: string): readonly ServicePort[] {
  const service: Service = {
    key,
    createdAt: 0,
    type: 'ClusterIP',
    clusterIPs: [clusterIP as Address],
    externalIPs: [externalIP as Address],
    loadBalancerIPs: [],
    sourceRanges: undefined,
    ports: Array.from({ length: PORTS }, (_, i) => ({ name: `p${i}`, protocol: 'TCP', port: i + 1, nodePort: 0 })),
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    affinitySeconds: 0,
    healthCheckNodePort: 0,
  };
  return servicePorts(service, [], HERE);
}

const NOTHING: PortsOfService = { createdAt: 0, ports: [] };

/** The holder of each external IP's port, and how often a Service was looked through. */
function decided(
  services: Readonly<Record<string, readonly ServicePort[]>>,
  createdAt: Readonly<Record<string, number>> = {},
): { held: Set<unknown>; looks: number } {
  const asked = new Map<string, PortsOfService>();
  let looks = 0;
  const claims = new Claims((key) => {
    looks += 1;
    return asked.get(key) ?? NOTHING;
  });
  const held = new Set<unknown>();
  for (const [key, ports] of Object.entries(services)) {
    const now = { createdAt: createdAt[key] ?? 0, ports };
    asked.set(key, now);
    claims.replace(key, NOTHING, now);
  }
  for (const ports of Object.values(services)) {
    for (const port of ports) for (const frontend of port.frontends) held.add(claims.rival(port, frontend));
  }
  return { held, looks };
}

it('looks through Services that share an external IP a few times, not once for each port', () => {
  const { held, looks } = decided({
    'a/web': portsOf('a/web', '10.0.0.1', '192.0.2.1'),
    'b/web': portsOf('b/web', '10.0.0.2', '192.0.2.1'),
  });
  assert.deepEqual(held, new Set([undefined, 'a/web']));
  assert.ok(looks < 10, `${looks} looks`);
});

it('looks through a Service whose cluster IP another one has as its external IP a few times', () => {
  const { held, looks } = decided({
    'a/web': portsOf('a/web', '10.0.0.1', '10.0.0.1'),
    'b/web': portsOf('b/web', '10.0.0.2', '10.0.0.1'),
  });
  assert.deepEqual(held, new Set([undefined, 'a/web']));
  assert.ok(looks < 10, `${looks} looks`);
});

it('gives an external IP that two Services ask for to the older one, whichever comes first', () => {
  const a = portsOf('a/web', '10.0.0.1', '192.0.2.1');
  const b = portsOf('b/web', '10.0.0.2', '192.0.2.1');
  const age = { 'a/web': 2000, 'b/web': 1000 };
  assert.deepEqual(decided({ 'a/web': a, 'b/web': b }, age).held, new Set([undefined, 'b/web']));
  assert.deepEqual(decided({ 'b/web': b, 'a/web': a }, age).held, new Set([undefined, 'b/web']));
});

it('names the Services that may have an address now, as its holder comes or goes', () => {
  const a = { createdAt: 0, ports: portsOf('a/web', '10.0.0.1', '192.0.2.1') };
  const b = { createdAt: 0, ports: portsOf('b/web', '10.0.0.2', '192.0.2.1') };
  const asked = new Map([
    ['a/web', a],
    ['b/web', b],
  ]);
  const claims = new Claims((key) => asked.get(key) ?? NOTHING);
  assert.deepEqual(claims.replace('a/web', NOTHING, a), new Set());
  assert.deepEqual(claims.replace('b/web', NOTHING, b), new Set(['a/web']));
  // The same claims again; a claim more; another age.
  assert.deepEqual(claims.replace('b/web', b, structuredClone(b)), new Set());
  const more = { createdAt: 0, ports: [...b.ports, ...portsOf('b/web', '10.0.0.2', '192.0.2.2')] };
  assert.deepEqual(claims.replace('b/web', b, more), new Set(['a/web']));
  assert.deepEqual(claims.replace('b/web', more, { ...more, createdAt: 1 }), new Set(['a/web']));
  asked.delete('a/web');
  assert.deepEqual(claims.replace('a/web', a, NOTHING), new Set(['b/web']));
});
