/** A new slice. The API server generates its name. */
import type { Family } from '../../base/address.ts';
import type { Labels } from '../../proxy/model/labels.ts';
import type { SliceEndpoint, SliceObject, SlicePortObject } from './api-objects.ts';

/** The owner of a slice; the garbage collector deletes the slice with it. */
export interface SliceOwner {
  readonly kind: 'Service' | 'Endpoints';
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export interface SliceContent {
  readonly family: Family;
  readonly ports: readonly SlicePortObject[];
  readonly endpoints: readonly SliceEndpoint[];
}

/** A slice to create. */
export function sliceOf(
  { kind, namespace, name, uid }: SliceOwner,
  metadata: { readonly labels: Labels; readonly annotations?: Labels },
  { family, ports, endpoints }: SliceContent,
): SliceObject {
  const owner = { apiVersion: 'v1', kind, name, uid, controller: true, blockOwnerDeletion: true };
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { generateName: `${name}-`, namespace, ...metadata, ownerReferences: [owner] },
    addressType: family,
    endpoints,
    ports,
  };
}
