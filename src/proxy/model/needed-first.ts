/** Services that other programs need at their start. The first sync of a node writes their rules before all others. */
import type { Service } from './objects.ts';

/** The API server's own Service. */
const API_SERVER = 'default/kubernetes';
const DNS_PORT = 53;

/** The API server's own Service, and DNS, which is found by its port because its name differs. Only Services without other addresses: another Service may own such an address (`claims.ts`). */
export function isNeededFirst(service: Service | undefined): boolean {
  if (service === undefined || service.type !== 'ClusterIP' || service.externalIPs.length > 0) return false;
  return service.key === API_SERVER || service.ports.some(({ port }) => port === DNS_PORT);
}
