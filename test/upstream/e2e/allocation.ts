/**
 * What a kube-apiserver adds to a Service that is written: defaults, cluster IPs, node ports, and what a change of its type takes away
 * (pkg/registry/core/service in Kubernetes; KEP-1881, KEP-3668). It refuses node ports that are taken or out of range.
 */
import type { ApiObject } from '../../helpers/cluster/api/api-server.ts';

export type IpFamily = 'IPv4' | 'IPv6';
export type Protocol = 'TCP' | 'UDP' | 'SCTP';

export interface ServicePort {
  name?: string;
  port: number;
  targetPort?: number | string;
  protocol?: Protocol;
  nodePort?: number;
}

export interface ServiceSpec {
  type?: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
  selector?: Record<string, string>;
  ports?: ServicePort[];
  clusterIP?: string;
  clusterIPs?: string[];
  ipFamilies?: IpFamily[];
  ipFamilyPolicy?: 'SingleStack' | 'PreferDualStack' | 'RequireDualStack';
  externalName?: string;
  externalIPs?: string[];
  sessionAffinity?: 'None' | 'ClientIP';
  sessionAffinityConfig?: object;
  internalTrafficPolicy?: 'Cluster' | 'Local';
  externalTrafficPolicy?: 'Cluster' | 'Local';
  healthCheckNodePort?: number;
  allocateLoadBalancerNodePorts?: boolean;
  loadBalancerSourceRanges?: string[];
  publishNotReadyAddresses?: boolean;
}

export interface Service extends ApiObject {
  spec: ServiceSpec;
  status?: { loadBalancer?: { ingress?: { ip: string }[] } };
}

const NODE_PORTS = { first: 30_000, last: 32_767 };

/** Without these, an object of another type is no valid one. */
function withoutOthers(spec: ServiceSpec): ServiceSpec {
  const { type = 'ClusterIP' } = spec;
  const isOutside = type === 'NodePort' || type === 'LoadBalancer';
  const { clusterIP: _, clusterIPs: __, ipFamilies: ___, ipFamilyPolicy: ____, ...nameless } = spec;
  if (type === 'ExternalName') return { ...nameless, type };
  const { externalName: _____, ...rest } = spec;
  if (isOutside) return { ...rest, type };
  const { externalTrafficPolicy: ______, healthCheckNodePort: _______, ...inside } = rest;
  return { ...inside, type, ports: (inside.ports ?? []).map(({ nodePort: ________, ...port }) => port) };
}

export class Allocation {
  readonly #taken = new Set<string>();
  #next = 9;
  #nextPort = NODE_PORTS.first;

  /** The Service as it is stored. Throws where a kube-apiserver refuses it. `before`: as it was. */
  admit(written: Service, before?: Service): Service {
    const spec = withoutOthers(structuredClone(written.spec));
    if (before !== undefined) this.release(before);
    try {
      if (spec.type !== 'ExternalName') this.#complete(spec, before?.spec);
    } catch (error) {
      if (before !== undefined) for (const key of keysOf(before)) this.#taken.add(key);
      throw error;
    }
    const admitted = { ...written, spec };
    for (const key of keysOf(admitted)) this.#taken.add(key);
    return admitted;
  }

  /** What it had is free. */
  release(service: Service): void {
    for (const key of keysOf(service)) this.#taken.delete(key);
  }

  #complete(spec: ServiceSpec, before: ServiceSpec | undefined): void {
    spec.sessionAffinity ??= 'None';
    spec.internalTrafficPolicy ??= 'Cluster';
    this.#addresses(spec, before);
    for (const port of spec.ports ?? []) {
      port.protocol ??= 'TCP';
      port.targetPort ??= port.port;
    }
    if (spec.type === 'ClusterIP') return;
    spec.externalTrafficPolicy ??= 'Cluster';
    const had = before?.ports ?? [];
    for (const [index, port] of (spec.ports ?? []).entries()) {
      if (port.nodePort !== undefined) this.#check(port.nodePort, port.protocol);
      else if (spec.type === 'NodePort' || spec.allocateLoadBalancerNodePorts !== false)
        port.nodePort = had[index]?.protocol === port.protocol ? (had[index]?.nodePort ?? this.#port()) : this.#port();
    }
    if (spec.type === 'LoadBalancer' && spec.externalTrafficPolicy === 'Local')
      spec.healthCheckNodePort ??= this.#port();
    else delete spec.healthCheckNodePort;
  }

  #addresses(spec: ServiceSpec, before: ServiceSpec | undefined): void {
    const isDual = (spec.ipFamilyPolicy ?? 'SingleStack') !== 'SingleStack';
    const [first = 'IPv4'] = spec.ipFamilies ?? before?.ipFamilies ?? [spec.clusterIP?.includes(':') ? 'IPv6' : 'IPv4'];
    spec.ipFamilyPolicy ??= (spec.ipFamilies?.length ?? 1) > 1 ? 'RequireDualStack' : 'SingleStack';
    spec.ipFamilies = isDual || (spec.ipFamilies?.length ?? 1) > 1 ? [first, other(first)] : [first];
    if (spec.clusterIP === 'None') return;
    const has = spec.clusterIPs ?? before?.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP]);
    spec.clusterIPs = spec.ipFamilies.map((family, index) => has[index] ?? this.#address(family));
    spec.clusterIP = spec.clusterIPs[0] as string;
  }

  #address(family: IpFamily): string {
    const n = ++this.#next;
    return family === 'IPv4' ? `10.96.${n >> 8}.${n & 255}` : `fd00:96::${n.toString(16)}`;
  }

  #port(): number {
    while (this.#isTaken(this.#nextPort)) this.#nextPort++;
    return this.#nextPort++;
  }

  #isTaken(port: number): boolean {
    return ['TCP', 'UDP', 'SCTP'].some((protocol) => this.#taken.has(`${protocol} ${port}`));
  }

  #check(port: number, protocol: Protocol | undefined): void {
    const range = `${NODE_PORTS.first}-${NODE_PORTS.last}`;
    if (port < NODE_PORTS.first || port > NODE_PORTS.last)
      throw new Error(`spec.ports[0].nodePort: ${port}: provided port is not in the valid range ${range}`);
    if (this.#taken.has(`${protocol} ${port}`))
      throw new Error(`spec.ports[0].nodePort: ${port}: provided port is already allocated`);
  }
}

const other = (family: IpFamily): IpFamily => (family === 'IPv4' ? 'IPv6' : 'IPv4');

function keysOf({ spec }: Service): string[] {
  const ports = (spec.ports ?? []).flatMap(({ nodePort, protocol }) =>
    nodePort === undefined ? [] : [`${protocol} ${nodePort}`],
  );
  return spec.healthCheckNodePort === undefined ? ports : [...ports, `TCP ${spec.healthCheckNodePort}`];
}
