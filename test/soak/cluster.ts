/**
 * The cluster of a soak. Most of its Services change all the time and have endpoints that do not exist. The probes ask the
 * others: stable ones, which nothing touches, and one whose endpoints move.
 */
import { LAB, podAddress } from '../../src/cli/lab/lab.ts';
import type { ClusterShape } from '../bench/cluster.ts';
import { service, slice } from '../helpers/cluster/objects.ts';

/** Where endpoints listen, for TCP and UDP. */
export const ENDPOINT_PORT = 8080;
export const SERVICE_PORT = 80;
export const NODE_PORT = 32_080;
export const NODE = 'node-0';
export const CLUSTER_CIDR = `${LAB.clusterCidr.v4},${LAB.clusterCidr.v6}`;
/** Where a packet to a Service's address goes that nothing translates. */
export const SERVICE_RANGES = { v4: '10.96.0.0/12', v6: 'fd00:96::/112' };

/** The n-th pod of the other node (from 0): any address of its range answers. */
const remote = (n: number) => ({ v4: `10.244.2.${11 + n}`, v6: `fd00:244:2::${11 + n}` });
const LOCAL = [podAddress(2), podAddress(3)];
const MIXED = [...LOCAL, remote(0), remote(1)];

export interface Target {
  readonly name: string;
  readonly protocol: 'TCP' | 'UDP';
  readonly address: string;
  readonly port: number;
  /** Addresses that may answer. Undefined: those of the moving Service at that time. */
  readonly endpoints: readonly string[] | undefined;
  /** UDP: the client keeps this port, and so its flow. */
  readonly fromPort?: number;
  /** TCP: all questions go over one connection. */
  readonly keepsConnection?: boolean;
}

interface StableService {
  readonly name: string;
  readonly v4: string;
  readonly v6?: string;
  readonly pods: readonly { readonly v4: string; readonly v6: string }[];
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly nodePort?: number;
}

const STICKY = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } };
const STABLE: readonly StableService[] = [
  { name: 'mixed', v4: '10.111.0.1', v6: 'fd00:96::1', pods: MIXED },
  { name: 'remote', v4: '10.111.0.2', pods: [remote(0)] },
  { name: 'local', v4: '10.111.0.3', pods: LOCAL },
  { name: 'sticky', v4: '10.111.0.4', pods: MIXED, spec: STICKY },
  { name: 'node-port', v4: '10.111.0.5', pods: MIXED, spec: { type: 'NodePort' }, nodePort: NODE_PORT },
];
const MOVING = { name: 'moving', v4: '10.111.0.6' };
/** The first of the pods that the moving Service has in turn, how many there are, and how many it has at a time. */
const MOVING_FIRST = 100;
const MOVING_PODS = 60;
const MOVING_AT_ONCE = 3;
export const STABLE_COUNT = STABLE.length + 1;

/** Of the Services that change. */
export function shapeOf(services: number): ClusterShape {
  return { services: services - STABLE_COUNT, endpoints: 5, nodePorts: 0.05, affinity: 0.02, unready: 0.05 };
}

/** Ports of both protocols have one number. */
function ports(port: number, nodePort?: number): object[] {
  const more = nodePort === undefined ? {} : { nodePort };
  return ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), protocol, port, ...more }));
}

const endpointPorts = ports(ENDPOINT_PORT);

function objectsOf({ name, v4, v6, pods, spec = {}, nodePort }: StableService): object[] {
  const clusterIPs = v6 === undefined ? [v4] : [v4, v6];
  const ipFamilies = v6 === undefined ? ['IPv4'] : ['IPv4', 'IPv6'];
  const base = { clusterIP: v4, clusterIPs, ipFamilies, ipFamilyPolicy: 'PreferDualStack' };
  const servicePorts = ports(SERVICE_PORT, nodePort).map((port) => ({ ...port, targetPort: ENDPOINT_PORT }));
  const common = { service: name, namespace: 'stable', ports: endpointPorts };
  const slices = [slice({ ...common, name: `${name}-v4`, endpoints: pods.map((pod) => pod.v4) })];
  if (v6 !== undefined) slices.push(slice({ ...common, name: `${name}-v6`, endpoints: pods.map((pod) => pod.v6) }));
  return [service({ name, namespace: 'stable', spec: { ...base, ports: servicePorts, ...spec } }), ...slices];
}

export function stableObjects(): object[] {
  return [...STABLE.flatMap(objectsOf), ...objectsOf({ ...MOVING, pods: [] }).slice(0, 1)];
}

/** Endpoints of the moving Service after so many moves: each move replaces the oldest. An address comes again after 60 moves. */
export function movingEndpoints(moves: number): string[] {
  return Array.from({ length: MOVING_AT_ONCE }, (_, i) => remote(MOVING_FIRST + ((moves + i) % MOVING_PODS)).v4);
}

export function movingSlice(moves: number, changedAt: string): object {
  const endpoints = movingEndpoints(moves);
  const made = slice({ name: 'moving-v4', service: 'moving', namespace: 'stable', ports: endpointPorts, endpoints });
  const { metadata, ...rest } = made as { metadata: object };
  const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': changedAt };
  return { ...rest, metadata: { ...metadata, annotations } };
}

/** Addresses at which the other node's pods listen for UDP, each with a socket of its own. */
export function remoteAddresses(): string[] {
  const moving = Array.from({ length: MOVING_PODS }, (_, i) => remote(MOVING_FIRST + i).v4);
  return [...[0, 1].flatMap((n) => [remote(n).v4, remote(n).v6]), ...moving];
}

/** Questions from a pod of the node. */
export function podTargets(): Target[] {
  const both = (name: string, address: string, endpoints: readonly string[] | undefined): Target[] =>
    (['TCP', 'UDP'] as const).map((protocol) => ({ name, protocol, address, port: SERVICE_PORT, endpoints }));
  const kept = (name: string, address: string, endpoints: readonly string[] | undefined, fromPort: number): Target => {
    return { name, protocol: 'UDP', address, port: SERVICE_PORT, endpoints, fromPort };
  };
  const v4 = MIXED.map((pod) => pod.v4);
  return [
    ...STABLE.flatMap(({ name, v4: address, pods }) =>
      both(
        name,
        address,
        pods.map((pod) => pod.v4),
      ),
    ),
    ...STABLE.flatMap(({ name, v6, pods }) => {
      return v6 === undefined ? [] : both(`${name}, IPv6`, v6, pods.map((pod) => pod.v6)); // biome-ignore format: one line
    }),
    ...both(MOVING.name, MOVING.v4, undefined),
    kept('mixed, kept port', '10.111.0.1', v4, 40_001),
    kept('moving, kept port', MOVING.v4, undefined, 40_002),
    {
      name: 'mixed, one connection',
      protocol: 'TCP',
      address: '10.111.0.1',
      port: SERVICE_PORT,
      endpoints: v4,
      keepsConnection: true,
    },
  ];
}

/** Questions from outside the cluster, to the node port. */
export function clientTargets(): Target[] {
  const common = { name: 'node port', address: LAB.node.v4, port: NODE_PORT, endpoints: MIXED.map((pod) => pod.v4) };
  const oneConnection: Target = {
    ...common,
    name: 'node port, one connection',
    protocol: 'TCP',
    keepsConnection: true,
  };
  return [...(['TCP', 'UDP'] as const).map((protocol) => ({ ...common, protocol })), oneConnection];
}
