/** The Services of a made-up cluster, for what writes them in kube-proxy's layouts. */
import type { ProxiedService } from '../netns/kube-proxy-rules.ts';
import { type ClusterShape, clusterIP, endpointsOf, serviceKey, TARGET_PORT } from './cluster.ts';

export function proxiedServices(shape: ClusterShape): ProxiedService[] {
  return Array.from({ length: shape.services }, (_, n) => ({
    id: `${serviceKey(shape, n)}:http`,
    clusterIP: clusterIP(n),
    port: 80,
    endpoints: endpointsOf(shape, n).map(({ addresses }) => `${addresses[0]}:${TARGET_PORT}`),
  }));
}
