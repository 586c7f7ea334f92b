/** Objects of the stories: a Service `web` on port 80 before pods that serve on 8080. */

import { service, slice } from '../../helpers/cluster/objects.ts';
import type { BackendName, Origin, StoryCluster } from '../cluster.ts';
import type { Expected, OtherEnd, PacketFate, StoryPacket, StorySettings } from '../story.ts';

/** In IPVS mode of kube-proxy (docs/switching.md). */
export const LOCAL_WHOEVER_ASKS: OtherEnd = {
  does: 'serves an external address of policy Local from the endpoints of its node, whoever asks',
  modes: ['ipvs'],
};
export const REFUSES_INTERNAL_LOCAL: OtherEnd = {
  does: 'refuses connections to a cluster IP of policy Local without an endpoint on the node',
  modes: ['ipvs'],
};
/** Of kube-proxy (docs/semantics.md 7.7). */
export const OWN_NODE_ALONE: OtherEnd = {
  does: 'masquerades endpoints of its own node alone where they reach themselves',
  modes: ['nftables', 'ipvs'],
};

export const PORT = 80;
export const NODE_PORT = 30_080;
export const POD_PORT = 8080;
export const HEALTH_PORT = 32_000;
export type StoryProtocol = 'TCP' | 'UDP' | 'SCTP';

/** What becomes of a packet, to port 80 unless `more` says another. */
export function told(from: Origin, to: string, expected: Expected, more: Partial<StoryPacket> = {}): PacketFate {
  return { packet: { from, to, port: PORT, ...more }, expected };
}

/** The same for several senders. */
export function toldFrom(
  senders: readonly Origin[],
  to: string,
  expected: Expected,
  more: Partial<StoryPacket> = {},
): PacketFate[] {
  return senders.map((from) => told(from, to, expected, more));
}

export function web(
  cluster: StoryCluster,
  spec: Record<string, unknown> = {},
  status?: Record<string, unknown>,
): object {
  const base = { clusterIP: cluster.clusterIP(10), ports: [{ port: PORT }] };
  return service({ name: 'web', spec: { ...base, ...spec }, ...(status === undefined ? {} : { status }) });
}

export function nodePortWeb(cluster: StoryCluster, spec: Record<string, unknown> = {}): object {
  return web(cluster, { type: 'NodePort', ports: [{ port: PORT, nodePort: NODE_PORT }], ...spec });
}

export function vips(...addresses: string[]): Record<string, unknown> {
  return { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } };
}

/** A load-balancer Service with one address and no node port. */
export function balancerWeb(cluster: StoryCluster, spec: Record<string, unknown> = {}): object {
  return web(cluster, { type: 'LoadBalancer', ...spec }, vips(cluster.vip(1)));
}

export interface EndpointInput {
  readonly at: BackendName;
  readonly conditions?: Record<string, boolean>;
  readonly zone?: string;
  readonly hints?: Record<string, unknown>;
  /** Leave nodeName out. */
  readonly placeless?: boolean;
}

/** The slice of `web` with these endpoints: those of this node, and `other` of another. */
export function pods(cluster: StoryCluster, ...endpoints: (BackendName | EndpointInput)[]): object {
  return podsWith(cluster, {}, endpoints);
}

export function podsWith(
  cluster: StoryCluster,
  {
    service = 'web',
    name = 'web-1',
    protocol = 'TCP',
    portName = '',
    annotations = {},
  }: {
    service?: string;
    name?: string;
    protocol?: StoryProtocol;
    portName?: string;
    annotations?: Record<string, string>;
  },
  endpoints: readonly (BackendName | EndpointInput)[],
): object {
  return slice({
    name,
    service,
    addressType: cluster.family,
    ports: [{ name: portName, port: POD_PORT, protocol }],
    annotations,
    endpoints: endpoints.map((input) => {
      const { at, conditions, zone, hints, placeless }: EndpointInput =
        typeof input === 'string' ? { at: input } : input;
      return {
        addresses: [cluster.address(at)],
        ...(placeless === true ? {} : { nodeName: at === 'other' ? 'other-node' : 'node' }),
        ...(conditions === undefined ? {} : { conditions }),
        ...(zone === undefined ? {} : { zone }),
        ...(hints === undefined ? {} : { hints }),
      };
    }),
  });
}

/** An endpoint for these zones, or nodes. */
export function hinted(
  at: BackendName,
  hints: { zones?: readonly string[]; nodes?: readonly string[] },
): EndpointInput {
  const names = (list: readonly string[] = []) => list.map((name) => ({ name }));
  return { at, hints: { forZones: names(hints.zones), forNodes: names(hints.nodes) } };
}

export const DRAINING: Record<string, boolean> = { ready: false, serving: true, terminating: true };
export const UNREADY: Record<string, boolean> = { ready: false, serving: false, terminating: false };

/** Endpoint `at` in this condition. */
export function as(at: BackendName, conditions: Record<string, boolean>): EndpointInput {
  return { at, conditions };
}

/** `--cluster-cidr` of the lab. */
export function clusterCidr(cluster: StoryCluster): StorySettings {
  return { localDetector: { kind: 'cidr', cidr: cluster.clusterCidr } };
}
