/**
 * States of one or two Services, as numbers that are drawn or counted, and their objects. Both Services may ask for the same addresses and
 * node ports, and have the same endpoints.
 */
import type { Address } from '../../../src/base/address.ts';
import type { Random } from '../../helpers/base/random.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';

/** The choices that make a state of a Service, each with its values. */
const CHOICES = {
  type: ['none', 'ClusterIP', 'NodePort', 'LoadBalancer'],
  external: ['none', 'shared'],
  balancer: ['own', 'shared'],
  nodePorts: ['first', 'second'],
  ports: ['one', 'two', 'other'],
  target: [8080, 8081],
  families: ['IPv4', 'IPv6', 'dual'],
  externalPolicy: ['Cluster', 'Local'],
  internalPolicy: ['Cluster', 'Local'],
  affinity: ['None', 'ClientIP'],
  ranges: ['none', 'some'],
  // At most two of the pool: whether each is ready or terminating.
  endpoints: ['', 'l', 'r', 'L', 'R', 'lm', 'lr', 'rs', 'lR', 'Lr', 'LR', 'm', 's'],
} as const;

type Choices = typeof CHOICES;
export type ServiceState = { readonly [K in keyof Choices]: Choices[K][number] };
export type State = readonly [ServiceState, ServiceState];

const KEYS = Object.keys(CHOICES) as (keyof Choices)[];
export const ABSENT: ServiceState = Object.fromEntries(KEYS.map((key) => [key, CHOICES[key][0]])) as never;

/** By letter; a capital one is terminating, and still serves. The first two are on the node. */
const HOSTS: Readonly<Record<string, { readonly host: number; readonly node: string }>> = {
  l: { host: 1, node: 'node' },
  m: { host: 2, node: 'node' },
  r: { host: 3, node: 'elsewhere' },
  s: { host: 4, node: 'elsewhere' },
};

export function randomService(random: Random): ServiceState {
  return Object.fromEntries(KEYS.map((key) => [key, random.pick(CHOICES[key] as readonly unknown[])])) as never;
}

/** Another state of a Service: half of the time one or two choices differ, so that pairs which are near are met. */
export function nextService(random: Random, before: ServiceState): ServiceState {
  if (random.chance(0.3)) return randomService(random);
  const next: Record<string, unknown> = { ...before };
  const count = random.between(1, 2);
  for (let i = 0; i < count; i++) {
    const key = random.pick(KEYS);
    next[key] = random.pick(CHOICES[key] as readonly unknown[]);
  }
  return next as never;
}

/** The choices that decide which sender may reach which endpoints: `allWays` meets all their combinations. */
const CORE = ['type', 'external', 'externalPolicy', 'internalPolicy', 'ranges', 'endpoints'] as const;
type CoreState = Pick<ServiceState, (typeof CORE)[number]>;

/** All states that differ in what they mean. */
export function coreStates(): CoreState[] {
  let states: Record<string, unknown>[] = [{}];
  for (const key of CORE) states = states.flatMap((one) => CHOICES[key].map((value) => ({ ...one, [key]: value })));
  const whole = states.map((one): ServiceState => ({ ...ABSENT, ...one }));
  return [...new Map(whole.filter(isMeaningful).map((one) => [serviceText(one, 0), one])).values()];
}

/** Without choices that have no effect. */
function isMeaningful({ type, external, externalPolicy, ranges }: ServiceState): boolean {
  const isExternal = type === 'NodePort' || type === 'LoadBalancer' || external === 'shared';
  return (isExternal || externalPolicy === 'Cluster') && (type === 'LoadBalancer' || ranges === 'none');
}

/** A state whose other choices are drawn. */
export function withOthers(random: Random, core: CoreState): ServiceState {
  return { ...randomService(random), ...Object.fromEntries(CORE.map((key) => [key, core[key]])) };
}

/** The choices that mean something, as words: the same text is the same state. */
export function stateText(state: State): string {
  return state.map((one, i) => serviceText(one, i)).join('; ');
}

function serviceText(state: ServiceState, index: number): string {
  const name = SERVICES[index]?.name ?? '';
  if (state.type === 'none') return `${name}: none`;
  const words = KEYS.filter((key) => key === 'type' || key === 'endpoints' || state[key] !== ABSENT[key]);
  return `${name}: ${words.map((key) => `${key}=${state[key]}`).join(' ')}`;
}

const SERVICES = [
  {
    name: 'a',
    cluster: ['10.96.0.10', 'fd00:96::10'],
    balancer: ['198.51.100.1', '2001:db8:1::1'],
    createdAt: '2026-01-01T00:00:00Z',
  },
  {
    name: 'b',
    cluster: ['10.96.0.11', 'fd00:96::11'],
    balancer: ['198.51.100.2', '2001:db8:1::2'],
    createdAt: '2026-01-02T00:00:00Z',
  },
] as const;
const SHARED_BALANCER = ['198.51.100.3', '2001:db8:1::3'];
const SHARED_EXTERNAL = ['203.0.113.50', '2001:db8:2::50'];
const NODE_PORTS = { first: 30_080, second: 30_090 };
const FAMILY_INDICES = { IPv4: [0], IPv6: [1], dual: [0, 1] } as const;

/** The frontends that any state may have. */
export const FRONTENDS = (() => {
  const ports = [80, 81, 82];
  const addresses = [
    ...SERVICES.flatMap(({ cluster, balancer }) => [...cluster, ...balancer]),
    ...SHARED_BALANCER,
    ...SHARED_EXTERNAL,
  ] as Address[];
  const nodePorts = Object.values(NODE_PORTS).flatMap((first) => [first, first + 1, first + 2]);
  return { ports, addresses, nodePorts };
})();

export interface StateObjects {
  readonly put: readonly object[];
  /** Names of Services and of slices that are not there. */
  readonly absent: { readonly services: readonly string[]; readonly slices: readonly string[] };
}

export function objectsOf(state: State): StateObjects {
  const put: object[] = [];
  const absent = { services: [] as string[], slices: [] as string[] };
  for (const [i, one] of state.entries()) {
    const { name } = SERVICES[i] ?? { name: '' };
    if (one.type === 'none') absent.services.push(name);
    else put.push(serviceObject(one, i));
    for (const family of [0, 1] as const) {
      const has = one.type !== 'none' && (FAMILY_INDICES[one.families] as readonly number[]).includes(family);
      if (has) put.push(sliceObject(one, name, family));
      else absent.slices.push(`${name}-${family}`);
    }
  }
  return { put, absent };
}

function serviceObject(state: ServiceState, index: number): object {
  const { type, families, ports, nodePorts, affinity, target } = state;
  const { name, cluster, balancer, createdAt } = SERVICES[index] ?? SERVICES[0];
  const of = (addresses: readonly string[]) => FAMILY_INDICES[families].map((family) => addresses[family] ?? '');
  const numbers = { one: [80], two: [80, 81], other: [82] }[ports];
  const isExternal = type !== 'ClusterIP' || state.external === 'shared';
  const addresses = of(state.balancer === 'shared' ? SHARED_BALANCER : balancer);
  return service({
    name,
    createdAt,
    spec: {
      type,
      clusterIP: of(cluster)[0],
      clusterIPs: of(cluster),
      ipFamilies: families === 'dual' ? ['IPv4', 'IPv6'] : [families],
      ports: numbers.map((port, i) => ({
        ...{ name: `p${port}`, port, protocol: 'TCP', targetPort: target },
        ...(type === 'ClusterIP' ? {} : { nodePort: NODE_PORTS[nodePorts] + (port === 82 ? 2 : i) }),
      })),
      internalTrafficPolicy: state.internalPolicy,
      ...(isExternal ? { externalTrafficPolicy: state.externalPolicy } : {}),
      ...(state.external === 'shared' ? { externalIPs: of(SHARED_EXTERNAL) } : {}),
      sessionAffinity: affinity,
      ...(affinity === 'ClientIP' ? { sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } } : {}),
      ...(type === 'LoadBalancer' && state.ranges === 'some'
        ? { loadBalancerSourceRanges: ['203.0.113.0/24', '2001:db8::/48'] }
        : {}),
    },
    ...(type === 'LoadBalancer' ? { status: { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } } } : {}),
  });
}

function sliceObject({ endpoints, target }: ServiceState, name: string, family: 0 | 1): object {
  return slice({
    name: `${name}-${family}`,
    service: name,
    addressType: family === 0 ? 'IPv4' : 'IPv6',
    ports: [80, 81, 82].map((port) => ({ name: `p${port}`, port: target })),
    endpoints: [...endpoints].map((letter) => {
      const { host, node } = hostOf(letter);
      const isReady = letter === letter.toLowerCase();
      return {
        addresses: [family === 0 ? `10.244.1.${host}` : `fd00:244:1::${host}`],
        nodeName: node,
        conditions: { ready: isReady, serving: true, terminating: !isReady },
      };
    }),
  });
}

/** The endpoints of a Service, as `10.244.1.1:8080`. */
export function backendsOf({ type, endpoints, target }: ServiceState): string[] {
  if (type === 'none') return [];
  return [...endpoints].flatMap((letter) => {
    const { host } = hostOf(letter);
    return [`10.244.1.${host}:${target}`, `[fd00:244:1::${host}]:${target}`];
  });
}

/** The present endpoints of Services that had frontends of policy Local. */
export function formerBackends(before: State, after: State): string[] {
  return before.flatMap(({ type, externalPolicy }, i) =>
    type === 'none' || externalPolicy !== 'Local' ? [] : backendsOf(after[i] ?? ABSENT),
  );
}

function hostOf(letter: string): { readonly host: number; readonly node: string } {
  return HOSTS[letter.toLowerCase()] ?? { host: 0, node: '' };
}
