/** Services that others need to come up at all: where rules are made for the first time, theirs are made before all others. */
import type { Service } from './objects.ts';

/** The API server's own Service. */
const API_SERVER = 'default/kubernetes';
const DNS_PORT = 53;

/** The API server's own Service, and DNS: by its port, for its name differs. Only with cluster IPs alone: an address from outside may turn out to be another's (`claims.ts`). */
export function isNeededFirst(service: Service | undefined): boolean {
  if (service === undefined || service.type !== 'ClusterIP' || service.externalIPs.length > 0) return false;
  return service.key === API_SERVER || service.ports.some(({ port }) => port === DNS_PORT);
}
