/** EndpointSlices in protobuf with the Pods of their endpoints, which a proxy does not need (`generated.proto` of k8s.io/api discovery/v1). */
import { append } from '../append.ts';
import { kindReader } from './kind.ts';
import { EndpointMessage, endpointField, SliceMessage, sliceField } from './slice.ts';
import type { WireReader } from './wire.ts';

/** ObjectReference of k8s.io/api core/v1. */
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
