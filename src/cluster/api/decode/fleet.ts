/** What the fleet reads of objects beside what a proxy reads: Pods of endpoints, addresses of agents, conditions of Nodes. */
import { type Address, type Cidr, familyOf, parseAddress } from '../../../base/address.ts';
import type { Fault, Slice } from '../../../proxy/model/objects.ts';
import { FaultList, isPortNumber, parse, readCidrs } from './checks.ts';
import { fleetNodeSchema, sliceSchema } from './schema.ts';
import { decodeSlice } from './slice.ts';

/** A slice with the Pods of its endpoints. */
export interface NamedSlice {
  readonly slice: Slice;
  /** `namespace/name` of the Pod of each endpoint, in their order; "" for none. */
  readonly pods: readonly string[];
}

interface DecodedForFleet<T> {
  /** undefined: no proxy serves it, or it is set aside. */
  readonly value: T | undefined;
  readonly faults: readonly Fault[];
}

/** A discovery.k8s.io/v1 EndpointSlice as a proxy reads it, by the same checks, and its Pods. */
export function decodeNamedSlice(object: unknown, key: string): DecodedForFleet<NamedSlice> {
  const { slice, faults } = decodeSlice(object, key);
  if (slice === undefined) return { value: undefined, faults };
  // It has been checked: it is a slice. Endpoints that were left out have no address of its family.
  const { endpoints } = object as { readonly endpoints?: readonly WithTarget[] | null };
  const kept = (endpoints ?? []).filter(({ addresses }) => {
    const address = parseAddress(addresses?.[0] ?? '');
    return address !== undefined && familyOf(address) === slice.family;
  });
  return { value: { slice, pods: kept.map(podOf) }, faults };
}

interface WithTarget {
  readonly addresses?: readonly string[] | null;
  readonly targetRef?: { readonly kind?: unknown; readonly namespace?: unknown; readonly name?: unknown } | null;
}

function podOf({ targetRef }: WithTarget): string {
  const { kind, namespace, name } = targetRef ?? {};
  return kind === 'Pod' && typeof namespace === 'string' && typeof name === 'string' ? `${namespace}/${name}` : '';
}

/** Where the pod of an agent listens. */
export interface AgentEndpoint {
  readonly node: string;
  readonly address: Address;
  readonly port: number;
  readonly terminating: boolean;
}

/** A slice of the headless Service of the agents: its endpoints with a node, at the port `healthz`, or at the only one. */
export function decodeAgents(object: unknown, key: string): DecodedForFleet<readonly AgentEndpoint[]> {
  const faults = new FaultList('EndpointSlice', key, object);
  const api = parse(sliceSchema, object, faults);
  if (api === undefined) return { value: undefined, faults: faults.list };
  const ports = api.ports ?? [];
  const port = (ports.find(({ name }) => name === 'healthz') ?? ports[0])?.port ?? 0;
  const endpoints = api.endpoints ?? [];
  if (endpoints.length > 0 && !isPortNumber(port)) {
    const problem = 'must have the port of the agents, named healthz';
    return { value: faults.setAside('ports', `${ports.length} ports`, problem), faults: faults.list };
  }
  const found: AgentEndpoint[] = [];
  for (const [i, { addresses, nodeName, conditions }] of endpoints.entries()) {
    const text = addresses?.[0];
    const address = parseAddress(text ?? '');
    const node = nodeName ?? '';
    if (address === undefined) faults.leaveOut(`endpoints[${i}].addresses[0]`, text, 'must be an IP address');
    else if (node === '') faults.leaveOut(`endpoints[${i}].nodeName`, '', 'must be the name of the Node of the agent');
    else found.push({ node, address, port, terminating: conditions?.terminating ?? false });
  }
  return { value: found, faults: faults.list };
}

/** A Node, for those who wait for its agent. */
export interface FleetNodeObject {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
  /** Its condition Ready is True. */
  readonly isReady: boolean;
  /** Since when it is so or not, in milliseconds since 1970; 0: not known. */
  readonly readySince: number;
}

/** A v1 Node. */
export function decodeFleetNode(object: unknown, name: string): DecodedForFleet<FleetNodeObject> {
  const faults = new FaultList('Node', name, object);
  const api = parse(fleetNodeSchema, object, faults);
  if (api === undefined) return { value: undefined, faults: faults.list };
  const addresses: Address[] = [];
  for (const [i, { type, address: text }] of (api.status?.addresses ?? []).entries()) {
    if (type !== 'InternalIP' && type !== 'ExternalIP') continue;
    const address = parseAddress(text);
    if (address === undefined) faults.leaveOut(`status.addresses[${i}]`, text, 'must be an IP address');
    else addresses.push(address);
  }
  const texts = api.spec?.podCIDRs ?? (api.spec?.podCIDR === undefined ? [] : [api.spec.podCIDR]);
  const podCIDRs = readCidrs(texts, 'spec.podCIDRs', faults);
  const ready = api.status?.conditions?.find(({ type }) => type === 'Ready');
  const readySince = Date.parse(ready?.lastTransitionTime ?? '') || 0;
  return { value: { addresses, podCIDRs, isReady: ready?.status === 'True', readySince }, faults: faults.list };
}
