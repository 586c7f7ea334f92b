/** Answers of the API server in protobuf. */

import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { decodePod, PODS } from '../../../src/cluster/api/decode/producing.ts';
import { decodeService, SERVICES } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice, SLICES } from '../../../src/cluster/api/decode/slice.ts';
import { type KindReader, readStatusMessage } from '../../../src/cluster/api/protobuf/kind.ts';
import { ProtobufUnreadable } from '../../../src/cluster/api/protobuf/wire.ts';
import { listBytes } from '../../helpers/cluster/api/api-protobuf.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { objectTexts, recordedBody } from '../corpus/read.ts';
import { mutateProtobuf } from '../mutate/protobuf.ts';
import { soundEvent } from '../sound/objects.ts';
import { shown, sure, type Target } from '../target.ts';

/** Of one object each: the recorded lists are long. */
function smallLists(): Buffer[] {
  const objects = objectTexts().map((text): ApiObject & { kind: string } => JSON.parse(text.toString()));
  return objects
    .filter(({ kind }) => ['Service', 'EndpointSlice', 'Pod'].includes(kind))
    .map((object) => {
      const apiVersion = object.kind === 'EndpointSlice' ? 'discovery.k8s.io/v1' : 'v1';
      const list = { kind: `${object.kind}List`, apiVersion, metadata: { resourceVersion: '7', continue: 'more' } };
      return Buffer.concat(listBytes(list, [object]));
    });
}

const READERS = [
  { reader: SERVICES, decode: decodeService },
  { reader: SLICES, decode: decodeSlice },
] as const;

/** A kind that is not wanted is refused, so that each input is read by all. */
function readAll(input: Buffer): void {
  for (const { reader, decode } of READERS) {
    const list = unlessUnreadable(() => wholeList(reader, input));
    if (list === undefined) continue;
    sure(typeof list.metadata.resourceVersion === 'string', () => `resourceVersion: ${shown(list.metadata)}`);
    for (const item of list.items) soundEvent(decode(item, objectKey(item) ?? 'default/nameless'));
  }
  const pods = unlessUnreadable(() => wholeList(PODS, input));
  for (const item of pods?.items ?? []) {
    const { value } = decodePod(item, 'default/pod', { isHandWritten: false });
    sure(value === undefined || Array.isArray(value.addresses), () => `Pod: ${shown(value)}`);
  }
  const status = unlessUnreadable(() => readStatusMessage(input));
  if (status === undefined) return;
  for (const text of [status.message, status.reason, ...status.details.causes.map(({ reason }) => reason)])
    sure(text === undefined || typeof text === 'string', () => `a text of the Status is ${shown(text)}`);
}

function wholeList({ list }: KindReader, input: Buffer) {
  const { metadata, items } = list(input);
  return { metadata, items: [...items] };
}

function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ProtobufUnreadable) return undefined;
    throw error;
  }
}

export const protobuf: Target = {
  name: 'protobuf',
  declared: [],
  seeds: [...smallLists(), recordedBody('protobuf/list-services-page1'), recordedBody('protobuf/not-found')],
  mutate: mutateProtobuf,
  run: readAll,
};
