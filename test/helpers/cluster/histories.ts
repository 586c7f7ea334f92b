/** Random histories of real objects: every field that has a meaning, right values and wrong ones, for property tests. */
import fc from 'fast-check';
import { service, slice } from './objects.ts';

export const NAMES = ['a', 'b', 'c', 'd'] as const;
const PORTS = [80, 81, 82] as const;

/** One value of a few, or none. */
function some<T>(...values: readonly T[]): fc.Arbitrary<T | undefined> {
  return fc.option(fc.constantFrom(...values), { nil: undefined });
}

const aService = fc.record({
  name: fc.constantFrom(...NAMES),
  type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer', 'ExternalName', 'Bogus'),
  families: fc.constantFrom('IPv4', 'IPv6', 'both', 'both', 'none'),
  ip: fc.integer({ min: 1, max: 3 }),
  ports: fc.uniqueArray(
    fc.record({ port: fc.constantFrom(...PORTS), protocol: fc.constantFrom('TCP', 'UDP', 'SCTP') }),
    {
      minLength: 1,
      maxLength: 2,
      selector: ({ port }) => port,
    },
  ),
  nodePort: fc.constantFrom(0, 30_080, 30_081),
  internal: fc.constantFrom('Cluster', 'Local', 'Bogus'),
  external: fc.constantFrom('Cluster', 'Local'),
  timeout: some(60, 10_800, -1),
  externalIPs: fc.subarray(['192.0.2.1', '10.96.0.2', 'fd00:192::1', 'bogus']),
  vips: fc.subarray(['198.51.100.1', '198.51.100.2', 'fd00:198::1']),
  ipMode: some('VIP', 'Proxy'),
  ranges: fc.subarray(['10.0.0.0/8', '192.168.77.0/24', 'fd00::/16', '0.0.0.0/0', 'bogus']),
  healthPort: fc.constantFrom(0, 32_000),
  foreign: fc.constantFrom(false, false, false, false, true),
  balance: fc.constantFrom(undefined, undefined, undefined, undefined, 'hash', 'hash-port', 'bogus'),
  rate: fc.constantFrom(undefined, undefined, undefined, '100/s', '7/s burst 50', 'bogus'),
  most: fc.constantFrom(undefined, undefined, undefined, '1000', '20', 'bogus'),
  slowStart: fc.constantFrom(undefined, undefined, undefined, '3s', '10s'),
  mostOfClient: fc.constantFrom(undefined, undefined, undefined, '10', '0'),
});
export type ServiceValue = typeof aService extends fc.Arbitrary<infer T> ? T : never;

const aSlice = fc.record({
  service: fc.constantFrom(...NAMES),
  part: fc.constantFrom('1', '2'),
  family: fc.constantFrom('IPv4', 'IPv6'),
  weight: fc.constantFrom(
    undefined,
    undefined,
    undefined,
    '0',
    '20',
    '{"10.244.1.1": 7, "fd00:244:1::2": 900}',
    'bogus',
  ),
  backup: fc.constantFrom(undefined, undefined, undefined, undefined, 'true', 'bogus'),
  endpoints: fc.array(
    fc.record({
      host: fc.integer({ min: 1, max: 6 }),
      node: some('node', 'other'),
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      zone: some('a', 'b'),
      hinted: some('node', 'other'),
    }),
    { maxLength: 4 },
  ),
});
export type SliceValue = typeof aSlice extends fc.Arbitrary<infer T> ? T : never;

export type Step =
  | { readonly kind: 'put'; readonly id: string; readonly object: object }
  | { readonly kind: 'remove'; readonly id: string }
  /** The Node has this zone from now on; undefined: none. */
  | { readonly kind: 'zone'; readonly zone: string | undefined }
  | { readonly kind: 'sync' };

/** One step: `id` is `Service default/a` or `EndpointSlice default/a-1-IPv4`. */
export const aStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: aService.map((value): Step => put(`Service default/${value.name}`, serviceObject(value))) },
  {
    weight: 6,
    arbitrary: aSlice.map((value): Step => put(`EndpointSlice default/${sliceName(value)}`, sliceObject(value))),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(...NAMES).map((name): Step => ({ kind: 'remove', id: `Service default/${name}` })),
  },
  {
    weight: 1,
    arbitrary: aSlice.map((value): Step => ({ kind: 'remove', id: `EndpointSlice default/${sliceName(value)}` })),
  },
  { weight: 1, arbitrary: some('a', 'b').map((zone): Step => ({ kind: 'zone', zone })) },
  { weight: 2, arbitrary: fc.constant<Step>({ kind: 'sync' }) },
);

function put(id: string, object: object): Step {
  return { kind: 'put', id, object };
}

function clusterIPs({ families, ip }: ServiceValue): string[] {
  if (families === 'none') return ['None'];
  const both = [`10.96.0.${ip}`, `fd00:96::${ip}`];
  return families === 'both' ? both : both.slice(families === 'IPv4' ? 0 : 1, families === 'IPv4' ? 1 : 2);
}

function serviceObject(value: ServiceValue): object {
  const { name, type, ports, nodePort, timeout, foreign, vips, ipMode, balance, rate, most, mostOfClient } = value;
  const { slowStart } = value;
  const addresses = clusterIPs(value);
  return service({
    name,
    ...annotationsOf({
      'slicewire.dev/balance': balance,
      'slicewire.dev/new-connections': rate,
      'slicewire.dev/max-connections': most,
      'slicewire.dev/max-connections-per-client': mostOfClient,
      'slicewire.dev/slow-start': slowStart,
    }),
    ...(foreign ? { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } } : {}),
    spec: {
      type,
      clusterIP: addresses[0],
      clusterIPs: addresses,
      ports: ports.map(({ port, protocol }, i) => ({
        name: `p${port}`,
        port,
        protocol,
        ...(nodePort === 0 || i > 0 ? {} : { nodePort }),
      })),
      internalTrafficPolicy: value.internal,
      externalTrafficPolicy: value.external,
      externalIPs: value.externalIPs,
      loadBalancerSourceRanges: value.ranges,
      healthCheckNodePort: value.healthPort,
      ...(timeout === undefined
        ? {}
        : { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: timeout } } }),
    },
    status: { loadBalancer: { ingress: vips.map((ip) => ({ ip, ...(ipMode === undefined ? {} : { ipMode }) })) } },
  });
}

function annotationsOf(values: Readonly<Record<string, string | undefined>>): { annotations?: Record<string, string> } {
  const set = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return set.length === 0 ? {} : { annotations: Object.fromEntries(set) };
}

function sliceName({ service: of, part, family }: SliceValue): string {
  return `${of}-${part}-${family.toLowerCase()}`;
}

function sliceObject(value: SliceValue): object {
  const address = (host: number) => (value.family === 'IPv4' ? `10.244.1.${host}` : `fd00:244:1::${host}`);
  const names = (name: string | undefined) => (name === undefined ? [] : [{ name }]);
  return slice({
    name: sliceName(value),
    service: value.service,
    addressType: value.family as 'IPv4',
    ...annotationsOf({ 'slicewire.dev/weight': value.weight, 'slicewire.dev/backup': value.backup }),
    ports: PORTS.flatMap((port) =>
      ['TCP', 'UDP', 'SCTP'].map((protocol) => ({ name: `p${port}`, port: 8000 + port, protocol })),
    ),
    endpoints: value.endpoints.map(({ host, node, zone, hinted, ready, serving, terminating }) => ({
      addresses: [address(host)],
      conditions: { ready, serving, terminating },
      ...(node === undefined ? {} : { nodeName: node }),
      hints: { forZones: names(zone), forNodes: names(hinted) },
    })),
  });
}
