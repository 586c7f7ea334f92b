/**
 * Made-up clusters, the same at each run: Services with cluster IPs spread over 10.96.0.0/12, pods of 100 nodes in
 * 10.128.0.0/9, slices of at most 100 endpoints. Objects are as long as a real API server's, since each byte is parsed.
 *
 * Services 0 and 1 are `default/kubernetes` and `kube-system/kube-dns`, with three and two endpoints in every shape; the
 * others have as many as the shape says. Addresses 10.128.0.0/28 are nobody's.
 */
import { fromBinary } from '../../src/base/address.ts';
import { managedFields } from './managed-fields.ts';

export interface ClusterShape {
  readonly services: number;
  /** Of each Service but the first two. */
  readonly endpoints: number;
  /** Share of Services with a node port, 0 to 1; at most 2,768 of them. */
  readonly nodePorts?: number;
  /** Share of Services with session affinity, 0 to 1. */
  readonly affinity?: number;
  /** Share of endpoints that are not ready, 0 to 1; the last of a Service always is. */
  readonly unready?: number;
  /** Whether some of the last Services are out of the ordinary (`variantAt`). */
  readonly hasVariants?: boolean;
}

/** Services out of the ordinary: with a node port and a load balancer's address, with ClientIP affinity, of UDP. */
export const VARIANTS = ['reached', 'sticky', 'udp'] as const;
export type Variant = (typeof VARIANTS)[number];

/** The number of such a Service: they come before the last one, which is plain. */
export function variantAt({ services }: ClusterShape, variant: Variant): number {
  return services - 2 - VARIANTS.indexOf(variant);
}

function variantOf(shape: ClusterShape, n: number): Variant | undefined {
  return shape.hasVariants === true ? VARIANTS[shape.services - 2 - n] : undefined;
}

/** The node port and the address of the load balancer of the Service that is reached from outside. */
export const VARIANT_NODE_PORT = 32_767;
export const LOAD_BALANCER = '203.0.113.10';

/** Which endpoints a Service has. */
export interface Moment {
  /** How often the last endpoint was replaced; each time by an address that nobody else ever has. */
  readonly turn?: number;
  /** When that happened, as the slices' annotation tells it. */
  readonly changedAt?: string;
}

interface Endpoint {
  readonly addresses: readonly string[];
  readonly nodeName: string;
  readonly [field: string]: unknown;
}

/** Of the benchmarks that do not say. */
export const ENDPOINTS = 5;
export const SLICE_LIMIT = 100;
/** The first Service that is not the system's. */
export const FIRST = 2;
/** Where the endpoints listen. */
export const TARGET_PORT = 8080;
const NODES = 100;
const ZONES = ['zone-a', 'zone-b', 'zone-c'];
/** Steps over the addresses of Services that meet each of them once: their number is a prime. */
const SPREAD = 611_953;
const ADDRESSES = 2 ** 20 - 3;
const POD_NETWORK = 0x0a80_0000;
const PODS = 2 ** 23;
/** Pods of the first two Services are below it. */
const FIRST_POD = 256;
const NODE_PORT = 30_000;
const NODE_PORTS = 2768;
const CREATED = '2026-11-21T00:27:50Z';
const TRIGGER = 'endpoints.kubernetes.io/last-change-trigger-time';
/** Letters of generated names (k8s.io/apimachinery/pkg/util/rand): no vowels, nothing that looks like something else. */
const LETTERS = 'bcdfghjklmnpqrstvwxz2456789';

interface Port {
  readonly name: string;
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  readonly targetPort: number;
}

interface Kind {
  readonly namespace: string;
  readonly name: string;
  readonly ports: readonly Port[];
  readonly endpoints: number;
}

function dotted(bits: number): string {
  return fromBinary(bits.toString(2).padStart(32, '0'));
}

/** Of 10.96.0.0/12, without the first and the last address, which an API server gives to no Service. */
export function clusterIP(n: number): string {
  return dotted(0x0a600001 + ((n * SPREAD) % ADDRESSES));
}

/** A number of 32 bits that looks like chance, the same for the same numbers (murmur3's last step). */
function hash(...values: readonly number[]): number {
  let bits = 0x9e37_79b9;
  for (const value of values) {
    bits = Math.imul(bits ^ value, 0x85eb_ca6b);
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
    bits ^= bits >>> 16;
  }
  return bits >>> 0;
}

function uid(...of: readonly number[]): string {
  const digits = [0, 1, 2, 3]
    .map((part) =>
      hash(part, ...of)
        .toString(16)
        .padStart(8, '0'),
    )
    .join('');
  const parts = [digits.slice(0, 8), digits.slice(8, 12), `4${digits.slice(13, 16)}`, `a${digits.slice(17, 20)}`];
  return [...parts, digits.slice(20)].join('-');
}

/** The end of a generated name. */
function suffix(length: number, ...of: readonly number[]): string {
  const bits = hash(...of);
  return Array.from({ length }, (_, i) => LETTERS[Math.floor(bits / LETTERS.length ** i) % LETTERS.length]).join('');
}

/** Whether the n-th is of a share: every so many-th, the first ones late. */
function isOf(share: number, n: number): boolean {
  return Math.floor((n + 1) * share) > Math.floor(n * share);
}

const TCP = { protocol: 'TCP' } as const;

/** Throws RangeError when there is no such Service. */
function kindOf(shape: ClusterShape, n: number): Kind {
  if (n >= shape.services) throw new RangeError(`there are ${shape.services} Services, and no ${n}-th from 0`);
  if (n === 0) {
    const ports = [{ name: 'https', ...TCP, port: 443, targetPort: 6443 }];
    return { namespace: 'default', name: 'kubernetes', ports, endpoints: 3 };
  }
  if (n === 1) {
    const dns = { port: 53, targetPort: 53 };
    const ports = [
      { name: 'dns', protocol: 'UDP' as const, ...dns },
      { name: 'dns-tcp', ...TCP, ...dns },
    ];
    return { namespace: 'kube-system', name: 'kube-dns', ports, endpoints: 2 };
  }
  const protocol = variantOf(shape, n) === 'udp' ? 'UDP' : 'TCP';
  const ports = [{ name: 'http', protocol, port: 80, targetPort: TARGET_PORT } as const];
  return { namespace: `team-${n % 40}`, name: `svc-${n}`, ports, endpoints: shape.endpoints };
}

/** `namespace/name` of the n-th Service. */
export function serviceKey(shape: ClusterShape, n: number): string {
  const { namespace, name } = kindOf(shape, n);
  return `${namespace}/${name}`;
}

/** Throws RangeError where the addresses end. */
function podNumber(shape: ClusterShape, n: number, i: number, { turn = 0 }: Moment): number {
  const { services, endpoints } = shape;
  const isLast = i === kindOf(shape, n).endpoints - 1;
  if (isLast && turn > 0) {
    const start = FIRST_POD + services * endpoints;
    return existing(start + (turn - 1) * services + n);
  }
  return n < FIRST ? 16 * (n + 1) + i : existing(FIRST_POD + n * endpoints + i);
}

function existing(pod: number): number {
  if (pod >= PODS) throw new RangeError('the pods of this cluster have no addresses left: fewer turns');
  return pod;
}

function endpointOf(shape: ClusterShape, n: number, i: number, moment: Moment): Endpoint {
  const { namespace, name, endpoints } = kindOf(shape, n);
  const pod = podNumber(shape, n, i, moment);
  const node = hash(pod) % NODES;
  // The others are unready the more often.
  const unready = ((shape.unready ?? 0) * endpoints) / (endpoints - 1);
  const ready = i === endpoints - 1 || hash(n, i, 7) >= unready * 2 ** 32;
  return {
    addresses: [dotted(POD_NETWORK + pod)],
    conditions: { ready, serving: ready, terminating: false },
    nodeName: `node-${node}`,
    targetRef: {
      kind: 'Pod',
      namespace,
      name: `${name}-${suffix(5, n, 0)}${suffix(5, n)}-${suffix(5, pod, 1)}`,
      uid: uid(pod, 2),
    },
    zone: ZONES[node % ZONES.length],
  };
}

/** Endpoints of the n-th Service. */
export function endpointsOf(shape: ClusterShape, n: number, moment: Moment = {}): Endpoint[] {
  return Array.from({ length: kindOf(shape, n).endpoints }, (_, i) => endpointOf(shape, n, i, moment));
}

/** Address of the last endpoint of the n-th Service: the one that a turn replaces. */
export function lastAddress(shape: ClusterShape, n: number, moment: Moment = {}): string {
  const { endpoints } = kindOf(shape, n);
  return dotted(POD_NETWORK + podNumber(shape, n, endpoints - 1, moment));
}

/** The `at`-th slice of the n-th Service, of at most SLICE_LIMIT endpoints. */
export function sliceOf(shape: ClusterShape, n: number, at: number, moment: Moment = {}): object {
  const { namespace, name, ports, endpoints } = kindOf(shape, n);
  const serviceUid = uid(n, 3);
  const labels = {
    'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
    'kubernetes.io/service-name': name,
  };
  const owner = {
    apiVersion: 'v1',
    kind: 'Service',
    name,
    uid: serviceUid,
    controller: true,
    blockOwnerDeletion: true,
  };
  const length = Math.min(SLICE_LIMIT, endpoints - at * SLICE_LIMIT);
  return {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: {
      name: `${name}-${suffix(5, n, at, 4)}`,
      generateName: `${name}-`,
      namespace,
      uid: uid(n, at, 5),
      generation: 1 + (moment.turn ?? 0),
      creationTimestamp: CREATED,
      labels,
      annotations: { [TRIGGER]: moment.changedAt ?? CREATED },
      ownerReferences: [owner],
      managedFields: managedFields.slice(serviceUid, CREATED),
    },
    addressType: 'IPv4',
    endpoints: Array.from({ length }, (_, i) => endpointOf(shape, n, at * SLICE_LIMIT + i, moment)),
    ports: ports.map(({ name: port, protocol, targetPort }) => ({ name: port, protocol, port: targetPort })),
  };
}

export function sliceCount(shape: ClusterShape, n: number): number {
  return Math.ceil(kindOf(shape, n).endpoints / SLICE_LIMIT);
}

/** Throws RangeError for shares that cannot be had. */
function nodePortOf(shape: ClusterShape, n: number): object {
  const { services, nodePorts = 0 } = shape;
  if (variantOf(shape, n) === 'reached')
    return { type: 'LoadBalancer', nodePort: VARIANT_NODE_PORT, externalTrafficPolicy: 'Cluster' };
  if (Math.floor(services * nodePorts) > NODE_PORTS) throw new RangeError(`node ports end at ${NODE_PORTS}`);
  if (n < FIRST || !isOf(nodePorts, n)) return { type: 'ClusterIP' };
  return { type: 'NodePort', nodePort: NODE_PORT + Math.floor(n * nodePorts), externalTrafficPolicy: 'Cluster' };
}

export function serviceOf(shape: ClusterShape, n: number): object {
  const { namespace, name, ports } = kindOf(shape, n);
  const { nodePort, ...type } = nodePortOf(shape, n) as { nodePort?: number };
  // Half a share further, so that it is not the Services with node ports that have it.
  const isOfShare = n >= FIRST && isOf(shape.affinity ?? 0, n + Math.floor(0.5 / (shape.affinity ?? 1)));
  const variant = variantOf(shape, n);
  const affinity = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } };
  return {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: {
      name,
      namespace,
      uid: uid(n, 3),
      creationTimestamp: CREATED,
      labels: { 'app.kubernetes.io/name': name, 'app.kubernetes.io/managed-by': 'Helm' },
      annotations: { 'meta.helm.sh/release-name': name, 'meta.helm.sh/release-namespace': namespace },
      managedFields: managedFields.service(ports, CREATED),
    },
    spec: {
      ports: ports.map((port) => ({ ...port, ...(nodePort === undefined ? {} : { nodePort }) })),
      selector: { 'app.kubernetes.io/name': name },
      clusterIP: clusterIP(n),
      clusterIPs: [clusterIP(n)],
      ...type,
      ...(isOfShare || variant === 'sticky' ? affinity : { sessionAffinity: 'None' }),
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: variant === 'reached' ? { ingress: [{ ip: LOAD_BALANCER }] } : {} },
  };
}

/** The i-th Pod of the n-th Service, as long as a real one; another `turn` is another Pod of the same name. */
export function podOf(shape: ClusterShape, n: number, i: number, turn: number): object {
  const { namespace, name } = kindOf(shape, n);
  const pod = FIRST_POD + n * shape.endpoints + i;
  const address = dotted(POD_NETWORK + (turn === 0 ? pod : PODS / 2 + turn));
  const condition = (type: string) => ({ type, status: 'True', lastProbeTime: null, lastTransitionTime: CREATED });
  return {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: {
      name: `${name}-${suffix(5, n)}-${i}`,
      namespace,
      uid: uid(pod, 8, turn),
      creationTimestamp: CREATED,
      labels: { 'app.kubernetes.io/name': name, 'pod-template-hash': suffix(9, n) },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: `${name}-${suffix(9, n)}`,
          uid: uid(n, 9),
          controller: true,
        },
      ],
      managedFields: managedFields.slice(uid(n, 9), CREATED),
    },
    spec: {
      nodeName: 'node-0',
      serviceAccountName: 'default',
      restartPolicy: 'Always',
      containers: [
        {
          name: 'main',
          image: `registry.example/${name}:1.0`,
          ports: [{ name: 'http', containerPort: TARGET_PORT, protocol: 'TCP' }],
          resources: { requests: { cpu: '100m', memory: '128Mi' } },
          env: Array.from({ length: 10 }, (_, k) => ({ name: `SETTING_${k}`, value: `value ${k}` })),
          volumeMounts: [{ name: 'token', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
        },
      ],
      tolerations: [
        { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
      ],
    },
    status: {
      phase: 'Running',
      podIP: address,
      podIPs: [{ ip: address }],
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(condition),
      containerStatuses: [{ name: 'main', ready: true, restartCount: 0, image: `registry.example/${name}:1.0` }],
    },
  };
}

/** The n-th Service and its slices; `turn` replaces the last endpoint. */
export function objectsOf(shape: ClusterShape, n: number, turn = 0): object[] {
  const slices = Array.from({ length: sliceCount(shape, n) }, (_, at) => sliceOf(shape, n, at, { turn }));
  return [serviceOf(shape, n), ...slices];
}

/**
 * The i-th of many changes, each of one endpoint: Services take turns, those that follow each other are far apart. `turn`
 * is that of the first round.
 */
export function churnStep({ services }: ClusterShape, i: number, turn: number): { n: number; turn: number } {
  const many = services - FIRST;
  // Within a round each Service once: steps of a prime, over a number that is no multiple of it.
  const step = many % 37 === 0 ? 41 : 37;
  return { n: FIRST + (((i % many) * step) % many), turn: turn + Math.floor(i / many) };
}

/** The Node of the agent, `node-0`. */
export function nodeObject(): object {
  const labels = {
    'kubernetes.io/arch': 'amd64',
    'kubernetes.io/hostname': 'node-0',
    'kubernetes.io/os': 'linux',
    'topology.kubernetes.io/zone': ZONES[0],
  };
  return {
    kind: 'Node',
    apiVersion: 'v1',
    metadata: { name: 'node-0', uid: uid(6), creationTimestamp: CREATED, labels },
    spec: { podCIDR: '10.128.0.0/24', podCIDRs: ['10.128.0.0/24'], providerID: 'made-up://node-0' },
    status: {
      addresses: [
        { type: 'InternalIP', address: '192.168.77.2' },
        { type: 'Hostname', address: 'node-0' },
      ],
      conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }],
    },
  };
}
