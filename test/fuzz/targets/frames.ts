/** Watches of the API server in protobuf: frames in pieces of any size, and the events in them. */
import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { decodeService, SERVICES } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice, SLICES } from '../../../src/cluster/api/decode/slice.ts';
import { BrokenStream, framesOf } from '../../../src/cluster/api/framing.ts';
import { StatusMessage } from '../../../src/cluster/api/protobuf/kind.ts';
import { ProtobufUnreadable } from '../../../src/cluster/api/protobuf/wire.ts';
import { statusBody } from '../../helpers/cluster/api/api-answers.ts';
import { frameOf, objectBytes } from '../../helpers/cluster/api/api-protobuf.ts';
import type { ApiObject } from '../../helpers/cluster/api/api-store.ts';
import { objectTexts, recordedBody } from '../corpus/read.ts';
import { MAX_INPUT, mutateBytes } from '../mutate/bytes.ts';
import { mutateProtobuf } from '../mutate/protobuf.ts';
import type { Random } from '../random.ts';
import { soundEvent } from '../sound/objects.ts';
import { shown, sure, type Target } from '../target.ts';

/** Objects in their envelopes. */
const OBJECTS = [
  ...objectTexts()
    .map((text): ApiObject => JSON.parse(text.toString()))
    .filter(({ kind }) => kind === 'Service' || kind === 'EndpointSlice'),
  statusBody(410, { message: 'too old' }),
  { kind: 'EndpointSlice', apiVersion: 'discovery.k8s.io/v1', metadata: { resourceVersion: '7' }, addressType: '' },
].map((object) => Buffer.concat(objectBytes({ metadata: {}, ...object })));
const TYPES = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR', 'NEWS'];

/** Up to four events. */
function mutate(random: Random, seeds: readonly Buffer[]): Buffer {
  const frames = Array.from({ length: 1 + random.below(4) }, () => {
    const object = random.once(3) ? mutateProtobuf(random, OBJECTS) : random.pick(OBJECTS);
    const frame = frameOf(random.pick(TYPES), object);
    return random.once(10) ? mutateProtobuf(random, [frame]) : frame;
  });
  const whole = Buffer.concat(frames).subarray(0, MAX_INPUT);
  return random.once(6) ? mutateBytes(random, whole, seeds) : whole;
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  const size = 1 + (bytes.length % 700);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const READERS = [
  { reader: SERVICES, decode: decodeService },
  { reader: SLICES, decode: decodeSlice },
] as const;

function readAll(frame: Buffer): void {
  for (const { reader, decode } of READERS) {
    try {
      const { type, object } = reader.event(frame);
      sure(typeof type === 'string', () => `the type is ${shown(type)}`);
      if (object instanceof StatusMessage) {
        const { message, code } = object;
        sure(message === undefined || typeof message === 'string', () => `the message is ${shown(message)}`);
        sure(code === undefined || Number.isInteger(code), () => `the code is ${shown(code)}`);
      } else soundEvent(decode(object, objectKey(object) ?? 'default/nameless'));
    } catch (error) {
      if (!(error instanceof ProtobufUnreadable)) throw error;
    }
  }
}

export const frames: Target = {
  name: 'frames',
  declared: [],
  seeds: [...OBJECTS.map((object) => frameOf('ADDED', object)), recordedBody('protobuf/watch-endpointslices')],
  mutate,
  async run(input) {
    let length = 0;
    try {
      for await (const frame of framesOf(piecesOf(input), 100_000)) {
        length += 4 + frame.length;
        readAll(frame);
      }
    } catch (error) {
      if (error instanceof BrokenStream) return;
      throw error;
    }
    sure(length === input.length, () => `${length} of ${input.length} bytes were read`);
  },
};
