/** A slice that is to be made, under a name of the API server's making. */
import type { Family } from '../model/address.ts';
import type { Labels } from '../model/labels.ts';
import type { SliceEndpoint, SliceObject, SlicePortObject } from './objects.ts';

/** Whose slice it is: with it, it goes. */
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
