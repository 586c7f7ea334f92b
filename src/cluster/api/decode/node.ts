/** A v1 Node → the addresses, zone and pod ranges that a proxy reads. */
import { type Address, parseAddress } from '../../../base/address.ts';
import { compact } from '../../../proxy/model/compact.ts';
import type { SourceEvent } from '../../../proxy/model/events.ts';
import { ZONE_LABEL } from '../../../proxy/model/labels.ts';
import type { NodeView } from '../../../proxy/model/objects.ts';
import { FaultList, parse, readCidrs } from './checks.ts';
import { type ApiNode, nodeSchema } from './schema.ts';

/** A v1 Node. */
export function decodeNode(object: unknown, name: string): SourceEvent {
  const faults = new FaultList('Node', name, object);
  const parsed = parse(nodeSchema, object, faults);
  const node = parsed === undefined ? undefined : toNode(parsed, name, faults);
  return { kind: 'node', key: name, node, faults: compact(faults.list) };
}

/** Taint of a Node that the cluster autoscaler is about to delete (KEP-3836). */
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
  const texts = api.spec?.podCIDRs ?? (api.spec?.podCIDR === undefined ? [] : [api.spec.podCIDR]);
  const podCIDRs = readCidrs(texts, 'spec.podCIDRs', faults);
  const { labels, deletionTimestamp } = api.metadata;
  const isBeingDeleted = (api.spec?.taints ?? []).some(({ key }) => key === DELETION_TAINT);
  const isEligible = (deletionTimestamp ?? '') === '' && !isBeingDeleted;
  return { name, zone: labels?.[ZONE_LABEL] ?? '', addresses, podCIDRs, isEligible };
}
