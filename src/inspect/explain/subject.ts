/** A destination by the model: a frontend of a ServicePort, and the list of endpoints that applies to the sender. Pure. */
import type { Service, ServicePortSpec, TrafficPolicy } from '../../proxy/model/objects.ts';
import type { Backend, Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import { relayable } from '../../proxy/model/special-address.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import { type PacketQuery, type PacketSender, takesNodePorts } from './packet-query.ts';

export interface Subject {
  readonly port: ServicePort;
  readonly frontend: Frontend;
  readonly service: Service;
  readonly spec: ServicePortSpec;
  /** The policy whose list of endpoints applies to this sender (docs/semantics.md 4.1). */
  readonly list: TrafficPolicy;
  /** The agent's relay serves the node port at this address, and not the kernel (docs/semantics.md 6.17). */
  readonly isRelayed: boolean;
}

/** undefined when no Service has the destination. A frontend with an address comes before a node port. */
export function subjectOf({ from, to }: PacketQuery, facts: ExplainFacts, family: FamilyFacts): Subject | undefined {
  const { address, port, protocol } = to;
  const at = { family: to.family, protocol, address, port };
  const found = facts.model.frontend(at);
  if (found !== undefined) return subject(found, (each) => each.address === address && each.port === port, from, facts);
  const isRelayed = from.what === 'node' && protocol === 'TCP' && facts.relay.addresses.includes(address);
  if (!isRelayed && !takesNodePorts(address, family)) return undefined;
  const byNode = facts.model.frontend({ ...at, address: undefined });
  const isNodePort = (each: Frontend) => each.address === undefined && each.port === port;
  const node = byNode && subject(byNode, isNodePort, from, facts);
  // The relay keeps to the external policy for programs of the node, too (KEP-6032).
  return node && isRelayed ? { ...node, list: node.frontend.policy, isRelayed } : node;
}

function subject(
  port: ServicePort,
  isIt: (frontend: Frontend) => boolean,
  from: PacketSender,
  facts: ExplainFacts,
): Subject | undefined {
  const frontend = port.frontends.find(isIt);
  const service = facts.objects.service(port.service);
  const spec = service?.ports.find((each) => idOf(service, each) === port.id && each.protocol === port.protocol);
  if (frontend === undefined || service === undefined || spec === undefined) return undefined;
  return {
    port,
    frontend,
    service,
    spec,
    list: listFor(frontend, from),
    isRelayed: false,
  };
}

/** `namespace/name[:port]` */
export function idOf({ key }: Service, { name }: ServicePortSpec): string {
  return name === '' ? key : `${key}:${name}`;
}

/** Policy Local is about traffic from outside: Pods of this node and the node itself use all endpoints (docs/semantics.md 4.1). */
function listFor({ role, policy }: Frontend, from: PacketSender): TrafficPolicy {
  if (role === 'cluster-ip' || policy === 'Cluster') return policy;
  return from.what !== 'node' && !from.isLocalPod ? 'Local' : 'Cluster';
}

/** The endpoints that get this sender's new connections, by the model. */
export function backendsOf({ port, list, isRelayed }: Subject): readonly Backend[] {
  const endpoints = list === 'Local' ? port.local : port.cluster;
  return isRelayed ? relayable(endpoints) : endpoints;
}

/** The words for the role of a frontend, with the field that has the address. */
export const ROLES: Readonly<Record<Frontend['role'], { readonly name: string; readonly field: string }>> = {
  'cluster-ip': { name: 'cluster IP', field: 'spec.clusterIPs' },
  'external-ip': { name: 'external IP', field: 'spec.externalIPs' },
  'load-balancer': { name: "load balancer's address", field: 'status.loadBalancer.ingress' },
  'node-port': { name: 'node port', field: 'spec.ports[].nodePort' },
};
