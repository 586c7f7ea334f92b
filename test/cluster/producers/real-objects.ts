/** The form of a recorded case, and objects for it. */

export interface GoldenStep {
  readonly title: string;
  /** Objects to create, with their status. */
  readonly put?: readonly CaseObject[];
  /** Merge patches (RFC 7396) by `resource/name`. */
  readonly patch?: readonly (readonly [path: string, patch: object])[];
  /** The same, of the status. */
  readonly status?: readonly (readonly [path: string, patch: object])[];
  /** Objects to delete, as `resource/name`. A Pod then terminates: no kubelet ends it. */
  readonly remove?: readonly string[];
  /** Without the time that a Pod has to terminate. */
  readonly isDeletedAtOnce?: boolean;
}

export interface GoldenCase {
  /** Also of its namespace. */
  readonly name: string;
  readonly steps: readonly GoldenStep[];
  /**
   * kube-controller-manager takes some of its Endpoints or slices for wrong at each sync: reserved labels, and a cut list. It writes
   * them again as they are, and takes the time of the change away.
   */
  readonly isRewritten?: boolean;
}

export interface CaseObject {
  readonly kind: 'Node' | 'Pod' | 'Service' | 'Endpoints';
  readonly metadata: { readonly name: string } & Readonly<Record<string, unknown>>;
  readonly status?: object;
  readonly [field: string]: unknown;
}

/** Objects of a namespace as the API server has them. */
export interface Objects {
  readonly pods: readonly object[];
  readonly services: readonly object[];
  readonly endpoints: readonly object[];
  readonly endpointSlices: readonly object[];
}

/** What is recorded of a case. */
export interface Recorded {
  readonly about: string;
  readonly nodes: readonly object[];
  /** The whole state after each step: what people and the controllers wrote. */
  readonly steps: readonly ({ readonly title: string } & Objects)[];
}

/** A resource of the API that a case has, from its kind. */
export function resourceOf(kind: CaseObject['kind']): string {
  return kind === 'Endpoints' ? 'endpoints' : `${kind.toLowerCase()}s`;
}

export function nodeWith(
  name: string,
  { zone, ready = true }: { zone: string | undefined; ready?: boolean },
): CaseObject {
  return {
    kind: 'Node',
    metadata: { name, labels: zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone } },
    status: {
      allocatable: { cpu: '4' },
      capacity: { cpu: '4' },
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    },
  };
}

interface ContainerPort {
  readonly name: string;
  readonly containerPort: number;
  readonly protocol: string;
}

export function namedPort(name: string, containerPort: number, protocol = 'TCP'): ContainerPort {
  return { name, containerPort, protocol };
}

interface PodShape {
  /** The number of its address; 0: none. */
  readonly n: number;
  readonly node: string;
  /** 2: addresses of both families; 6: of IPv6 alone. */
  readonly families?: 2 | 4 | 6;
  readonly ready?: boolean;
  /** When its readiness changed. */
  readonly since?: string;
  readonly phase?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly ports?: readonly ContainerPort[];
  /** Of an init container that goes on. */
  readonly sidecarPorts?: readonly ContainerPort[];
  /** Of an init container that ends. */
  readonly initPorts?: readonly ContainerPort[];
  readonly spec?: object;
}

const LONG_AGO = '2020-01-01T00:00:00Z';

/** A Pod with the label app=web. */
export function podWith(name: string, shape: PodShape): CaseObject {
  const { n, node, families = 4, ready = true, since = LONG_AGO, phase = 'Running' } = shape;
  const ipv4 = `10.244.${Math.floor(n / 250)}.${(n % 250) + 1}`;
  const ipv6 = `fd00:244::${n.toString(16)}`;
  const podIPs = n === 0 ? [] : { 2: [ipv4, ipv6], 4: [ipv4], 6: [ipv6] }[families].map((ip) => ({ ip }));
  const container = (called: string, ports: readonly ContainerPort[], more: object = {}) => ({
    ...{ name: called, image: 'x', ports, ...more },
  });
  const { ports = [], sidecarPorts, initPorts, labels = { app: 'web' }, spec = {} } = shape;
  const initContainers = [
    ...(sidecarPorts === undefined ? [] : [container('sidecar', sidecarPorts, { restartPolicy: 'Always' })]),
    ...(initPorts === undefined ? [] : [container('init', initPorts)]),
  ];
  return {
    kind: 'Pod',
    metadata: { name, labels },
    spec: { nodeName: node, containers: [container('main', ports)], initContainers, ...spec },
    status: { phase, ...(podIPs[0] ? { podIP: podIPs[0].ip, podIPs } : {}), ...readySince(since, ready) },
  };
}

/** A status with its condition. */
export function readySince(lastTransitionTime: string, ready = true) {
  return { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime }] };
}

/** A Service of the Pods with app=web, port 80 to 8080. `selector: null` is none. */
export function serviceOf(name: string, spec: object, metadata: object = {}): CaseObject {
  return {
    kind: 'Service',
    metadata: { name, ...metadata },
    spec: { selector: { app: 'web' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }], ...spec },
  };
}

/** Endpoints that a person wrote. */
export function endpointsOf(name: string, subsets: readonly object[], metadata: object = {}): CaseObject {
  return { kind: 'Endpoints', metadata: { name, ...metadata }, subsets };
}
