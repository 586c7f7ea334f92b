/** API objects for tests, with what a test does not care about filled in. */

export interface ServiceInput {
  readonly name: string;
  readonly namespace?: string;
  readonly spec: Record<string, unknown>;
  readonly status?: Record<string, unknown>;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly createdAt?: string;
}

export function service({
  name,
  namespace = 'default',
  spec,
  status,
  labels,
  annotations,
  createdAt,
}: ServiceInput): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace,
      ...(labels ? { labels } : {}),
      ...(annotations ? { annotations } : {}),
      ...(createdAt ? { creationTimestamp: createdAt } : {}),
    },
    spec,
    ...(status ? { status } : {}),
  };
}

export interface SliceInput {
  readonly name: string;
  readonly service: string;
  readonly namespace?: string;
  readonly addressType?: 'IPv4' | 'IPv6';
  readonly ports?: readonly object[];
  readonly endpoints: readonly (string | object)[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Endpoints are addresses or whole endpoint objects. */
export function slice(input: SliceInput): object {
  const {
    name,
    namespace = 'default',
    addressType,
    ports = [{ name: '', port: 8080 }],
    endpoints,
    annotations,
  } = input;
  const whole = endpoints.map((endpoint) => (typeof endpoint === 'string' ? { addresses: [endpoint] } : endpoint));
  const first = (whole[0] as { addresses?: string[] } | undefined)?.addresses?.[0];
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name,
      namespace,
      labels: { 'kubernetes.io/service-name': input.service },
      ...(annotations ? { annotations } : {}),
    },
    addressType: addressType ?? (first?.includes(':') === true ? 'IPv6' : 'IPv4'),
    ports,
    endpoints: whole,
  };
}

/** The Node of the agent, called `node`, in a zone or in none. */
export function nodeOf(zone: string | undefined): object {
  const labels = zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone };
  return { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node', labels } };
}

/** The ranges of cluster IPs, as an API server makes them for itself. */
export function serviceCidr(...cidrs: string[]): object {
  return { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: { name: 'kubernetes' }, spec: { cidrs } };
}
