/** Objects of the API in JSON: every kind that the agent and the controller read. */

import { type Decoded, objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { decodeNode } from '../../../src/cluster/api/decode/node.ts';
import {
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeSliceObject,
  decodeZonedNode,
} from '../../../src/cluster/api/decode/producing.ts';
import { decodeService, decodeServiceCidr } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import { objectTexts } from '../corpus/read.ts';
import { mutateJson } from '../mutate/json.ts';
import {
  soundEndpoints,
  soundEvent,
  soundFaults,
  soundPod,
  soundSelecting,
  soundSliceObject,
  soundZonedNode,
} from '../sound/objects.ts';
import { soundPrototypes } from '../sound/text.ts';
import type { Target } from '../target.ts';

function soundDecoded<T>({ value, faults }: Decoded<T>, sound: (value: T) => void): void {
  soundFaults(faults);
  if (value !== undefined) sound(value);
}

type Decode = (object: unknown, key: string) => void;

const service: Decode = (object, key) => {
  soundEvent(decodeService(object, key));
  soundDecoded(decodeSelectingService(object, key), soundSelecting);
};
const slice: Decode = (object, key) => {
  soundEvent(decodeSlice(object, key));
  soundDecoded(decodeSliceObject(object, key), soundSliceObject);
};
const node: Decode = (object) => {
  soundEvent(decodeNode(object, 'node-1'));
  soundDecoded(decodeZonedNode(object, 'node-1'), soundZonedNode);
};
const pod: Decode = (object, key) => {
  soundDecoded(decodePod(object, key, { isHandWritten: key.length % 2 === 0 }), soundPod);
};
const cidr: Decode = (object) => soundEvent(decodeServiceCidr(object, 'kubernetes'));
const endpoints: Decode = (object, key) => soundDecoded(decodeEndpointsObject(object, key), soundEndpoints);

const DECODERS = new Map<unknown, Decode>([
  ['Service', service],
  ['EndpointSlice', slice],
  ['Node', node],
  ['Pod', pod],
  ['ServiceCIDR', cidr],
  ['Endpoints', endpoints],
]);

/** Decodes an object by its kind; one of an unknown kind as every kind. */
export function decodeAnything(object: unknown): void {
  const { kind } = (object ?? {}) as { readonly kind?: unknown };
  // The sources pass on only objects with a valid name; the others are decoded all the same.
  const key = objectKey(object) ?? 'default/nameless';
  const decode = DECODERS.get(kind);
  if (decode !== undefined) decode(object, key);
  else for (const one of DECODERS.values()) one(object, key);
  soundPrototypes();
}

export const json: Target = {
  name: 'json',
  declared: [],
  seeds: objectTexts(),
  mutate: mutateJson,
  run(input) {
    let object: unknown;
    try {
      object = JSON.parse(input.toString());
    } catch {
      return;
    }
    decodeAnything(object);
  },
};
