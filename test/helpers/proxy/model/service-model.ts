/** A Service as the model has it. */
import type { Address } from '../../../../src/base/address.ts';
import type { Service } from '../../../../src/proxy/model/objects.ts';

/** `key`: `namespace/name`. */
export function serviceModel(key: string, more: Partial<Service> = {}): Service {
  return {
    key,
    createdAt: 0,
    type: 'ClusterIP',
    clusterIPs: ['10.0.0.1' as Address],
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: undefined,
    ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    affinitySeconds: 0,
    healthCheckNodePort: 0,
    ...more,
  };
}
