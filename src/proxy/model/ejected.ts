/** Endpoints that get no new connections because their Node does not answer (docs/semantics.md 3.6, k8s#101101). Pure. */
import type { PortEndpoint } from './endpoints.ts';
import type { Endpoint } from './objects.ts';
import { isReady } from './selection-reasons.ts';

const NONE: ReadonlySet<Endpoint> = new Set();

/**
 * The endpoints of a Service port and family that are held back. `endpoints` are sorted by `ip:port`, so that every node holds the same
 * ones. At most half of the ready endpoints are held, so never the last one, and none where no other Node has a ready one.
 */
export function ejected(
  endpoints: readonly PortEndpoint[],
  suspects: readonly string[] | undefined,
): ReadonlySet<Endpoint> {
  if (suspects === undefined || suspects.length === 0) return NONE;
  const ready = endpoints.filter(({ endpoint }) => isReady(endpoint));
  const doubtful = ready.filter(({ endpoint }) => suspects.includes(endpoint.nodeName));
  if (doubtful.length === 0 || doubtful.length === ready.length) return NONE;
  return new Set(doubtful.slice(0, Math.floor(ready.length / 2)).map(({ endpoint }) => endpoint));
}
