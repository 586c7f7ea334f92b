/** A v1 Node → the fields that a proxy reads, and those that `slicewire fleet` reads. */
import { type Address, type Cidr, parseAddress } from '../../../base/address.ts';
import type { SourceEvent } from '../../../proxy/model/events.ts';
import { TAKEOVER_ANNOTATION, ZONE_LABEL } from '../../../proxy/model/labels.ts';
import { compact, type NodeView } from '../../../proxy/model/objects.ts';
import { type Decoded, FaultList, parse, readCidrs } from './checks.ts';
import { type ApiNode, fleetNodeSchema, nodeSchema } from './schema.ts';

export function decodeNode(object: unknown, name: string): SourceEvent {
  const faults = new FaultList('Node', name, object);
  const parsed = parse(nodeSchema, object, faults);
  const node = parsed === undefined ? undefined : toNode(parsed, name, faults);
  return { kind: 'node', key: name, node, faults: compact(faults.list) };
}

/** The cluster autoscaler taints a Node that it is about to delete (KEP-3836). */
const DELETION_TAINT = 'ToBeDeletedByClusterAutoscaler';

function toNode(api: ApiNode, name: string, faults: FaultList): NodeView {
  const addresses: Address[] = [];
  for (const type of ['InternalIP', 'ExternalIP']) {
    for (const [i, entry] of (api.status?.addresses ?? []).entries()) {
      if (entry.type !== type) continue;
      const address = parseAddress(entry.address);
      if (address === undefined) faults.leaveOut(`status.addresses[${i}]`, entry.address, 'must be an IP address');
      else addresses.push(address);
    }
  }
  const podCIDRs = readPodCidrs(api.spec, faults);
  const { labels, annotations, deletionTimestamp } = api.metadata;
  const takeover = annotations?.[TAKEOVER_ANNOTATION];
  const isBeingDeleted = (api.spec?.taints ?? []).some(({ key }) => key === DELETION_TAINT);
  const isEligible = (deletionTimestamp ?? '') === '' && !isBeingDeleted;
  const zone = labels?.[ZONE_LABEL] ?? '';
  return { name, zone, addresses, podCIDRs, isEligible, ...(takeover === undefined ? {} : { takeover }) };
}

/** A Node whose agent the fleet waits for. */
export interface FleetNodeObject {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
  /** Its condition Ready is True. */
  readonly isReady: boolean;
  /** Time of the last change of `isReady`, in milliseconds since 1970; 0 when unknown. */
  readonly readySince: number;
}

export function decodeFleetNode(object: unknown, name: string): Decoded<FleetNodeObject> {
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
  const podCIDRs = readPodCidrs(api.spec, faults);
  const ready = api.status?.conditions?.find(({ type }) => type === 'Ready');
  const readySince = Date.parse(ready?.lastTransitionTime ?? '') || 0;
  return { value: { addresses, podCIDRs, isReady: ready?.status === 'True', readySince }, faults: faults.list };
}

function readPodCidrs(spec: ApiNode['spec'], faults: FaultList): Cidr[] {
  const texts = spec?.podCIDRs ?? (spec?.podCIDR === undefined ? [] : [spec.podCIDR]);
  return readCidrs(texts, 'spec.podCIDRs', faults);
}
