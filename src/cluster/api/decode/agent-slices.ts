/** EndpointSlices as `slicewire fleet` reads them: with the Pods of the endpoints, and those of the agents with their addresses. */
import { type Address, familyOf, parseAddress } from '../../../base/address.ts';
import type { Slice } from '../../../proxy/model/objects.ts';
import { kindReader } from '../protobuf/kind.ts';
import { append, type WireReader } from '../protobuf/wire.ts';
import { type Decoded, FaultList, isPortNumber, parse } from './checks.ts';
import { sliceSchema } from './schema.ts';
import { decodeSlice, EndpointMessage, endpointField, SliceMessage, sliceField } from './slice.ts';

/** A slice with the Pods of its endpoints. */
export interface NamedSlice {
  readonly slice: Slice;
  /** `namespace/name` of the Pod of each endpoint, in their order; "" for none. */
  readonly pods: readonly string[];
}

/** A discovery.k8s.io/v1 EndpointSlice as a proxy reads it, by the same checks, and its Pods. */
export function decodeNamedSlice(object: unknown, key: string): Decoded<NamedSlice> {
  const { slice, faults } = decodeSlice(object, key);
  if (slice === undefined) return { value: undefined, faults };
  // decodeSlice has checked the shape. Endpoints that it left out have no address of the slice's family.
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

/** The address at which the pod of an agent listens. */
export interface AgentEndpoint {
  readonly node: string;
  readonly address: Address;
  readonly port: number;
  readonly terminating: boolean;
}

/** A slice of the headless Service of the agents: its endpoints with a node, at the port `healthz`, or at the first port. */
export function decodeAgents(object: unknown, key: string): Decoded<readonly AgentEndpoint[]> {
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

// The same in protobuf (`generated.proto` of k8s.io/api discovery/v1 and core/v1). A proxy does not need the Pods, and skips them.

class ObjectReference {
  kind = '';
  namespace = '';
  name = '';
}

function referenceField(tag: number, reference: ObjectReference, from: WireReader): void {
  if (tag === 1) reference.kind = from.common();
  else if (tag === 2) reference.namespace = from.common();
  else if (tag === 3) reference.name = from.text();
}

class NamedEndpoint extends EndpointMessage {
  targetRef: ObjectReference | undefined = undefined;
}

function namedField(tag: number, endpoint: NamedEndpoint, from: WireReader): void {
  if (tag === 4) endpoint.targetRef = from.into(new ObjectReference(), referenceField);
  else endpointField(tag, endpoint, from);
}

function namedSliceField(tag: number, slice: SliceMessage, from: WireReader): void {
  if (tag === 2) slice.endpoints = append(slice.endpoints, from.into(new NamedEndpoint(), namedField));
  else sliceField(tag, slice, from);
}

export const NAMED_SLICES = kindReader('EndpointSlice', (from, end) =>
  from.into(new SliceMessage(), namedSliceField, end),
);
