/** Services that change from one generation to the next: some stay, some change their endpoints, some come and go. */
import type { Address } from '../../src/base/address.ts';
import type { Service, Slice } from '../../src/proxy/model/objects.ts';

const SERVICES = 40;

/** The n-th generation: a Service has the same name in each that it is in. */
export function generation(n: number): { readonly service: Service; readonly slices: readonly Slice[] }[] {
  const found = [];
  for (let i = 0; i < SERVICES; i++) {
    // Every fourth is there in every other generation.
    if (i % 4 === 0 && n % 2 === 1) continue;
    const key = `default/s${i}`;
    found.push({ service: serviceOf(key, i), slices: [sliceOf(key, i, n)] });
  }
  return found;
}

function serviceOf(key: string, i: number): Service {
  return {
    key,
    createdAt: 0,
    type: i % 5 === 0 ? 'NodePort' : 'ClusterIP',
    clusterIPs: [`10.96.0.${i + 1}` as Address],
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: undefined,
    ports: [{ name: '', protocol: i % 3 === 0 ? 'UDP' : 'TCP', port: 80, nodePort: i % 5 === 0 ? 30_000 + i : 0 }],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: i % 10 === 0 ? 'Local' : 'Cluster',
    affinitySeconds: i % 7 === 0 ? 60 : 0,
    healthCheckNodePort: 0,
  };
}

function sliceOf(key: string, i: number, n: number): Slice {
  const protocol = i % 3 === 0 ? 'UDP' : 'TCP';
  return {
    key: `${key}-1`,
    service: key,
    family: 'IPv4',
    ports: [{ name: '', protocol, port: 8080 }],
    endpoints: [1, 2, 2 + ((i + n) % 3)].map((host) => ({
      address: `10.244.${i}.${host}` as Address,
      ready: true,
      serving: true,
      terminating: false,
      nodeName: 'node',
      zoneHints: [],
      nodeHints: [],
    })),
  };
}
