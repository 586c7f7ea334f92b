/** Lists and watches in JSON: the first line of an input is the answer to the list, the rest is the watch. Answers that refuse, too. */

import { type ApiClient, ApiError, parseEvent, readStatus } from '../../../src/cluster/api/client.ts';
import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { BrokenStream, linesOf } from '../../../src/cluster/api/framing.ts';
import { Reflector, type ReflectorSink } from '../../../src/cluster/api/reflector.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { objectTexts, recordedBody } from '../corpus/read.ts';
import { mutateBytes } from '../mutate/bytes.ts';
import { mutateJson } from '../mutate/json.ts';
import type { Random } from '../random.ts';
import { soundPrototypes } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';
import { decodeAnything } from './json.ts';

const OBJECTS = objectTexts().slice(0, 8);
const EVENTS = OBJECTS.flatMap((object, i) => {
  const type = ['ADDED', 'MODIFIED', 'DELETED'][i % 3];
  return [Buffer.from(JSON.stringify({ type, object: JSON.parse(object.toString()) }))];
});
const OTHERS = [
  { type: 'BOOKMARK', object: { kind: 'Service', apiVersion: 'v1', metadata: { resourceVersion: '99999' } } },
  { type: 'ERROR', object: { kind: 'Status', message: 'too old', reason: 'Expired', code: 410 } },
].map((event) => Buffer.from(JSON.stringify(event)));
const LIST = {
  kind: 'ServiceList',
  metadata: { resourceVersion: '7', continue: '' },
  items: OBJECTS.slice(0, 2).map((object): unknown => JSON.parse(object.toString())),
};
const LISTS = [LIST, { ...LIST, items: null }].map((list) => Buffer.from(JSON.stringify(list)));
const STATUSES = ['not-found', 'watch-too-old', 'unauthorized'].map(recordedBody);

/** A list or a Status, and up to four events. */
function mutate(random: Random, seeds: readonly Buffer[]): Buffer {
  const whole = (texts: readonly Buffer[]) => (random.once(3) ? mutateJson(random, texts) : random.pick(texts));
  const first = random.once(4) ? STATUSES : LISTS;
  const events = Array.from({ length: random.below(5) }, () => whole(random.once(3) ? OTHERS : EVENTS));
  const lines = [whole(first), ...events].map((line) => Buffer.concat([line, Buffer.from('\n')]));
  const text = Buffer.concat(lines);
  return random.once(8) ? mutateBytes(random, text, seeds) : text;
}

async function* piecesOf(text: string): AsyncGenerator<string> {
  const size = 1 + (text.length % 700);
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
}

/** An error of the program's own making has a class of its own, and a sentence. */
function soundFailure(error: Error): void {
  const isOwn = error instanceof ApiError || error instanceof BrokenStream;
  sure(isOwn, () => `failure: ${error.stack}`);
  sure(error.message.length < 3000 || error.message.includes('\n') === false, () => 'failure: a long text');
}

async function follow(list: string, watch: string): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  let isListed = false;
  let watches = 0;
  const client: ApiClient = {
    server: 'https://api',
    write: () => Promise.reject(new ApiError('no writes', 0)),
    get() {
      // A second list: everything was read.
      if (isListed) stop.abort();
      isListed = true;
      try {
        return Promise.resolve(JSON.parse(list));
      } catch {
        return Promise.reject(new ApiError('not JSON', 0));
      }
    },
    async *watch() {
      // Each watch would be the same again, for ever.
      watches += 1;
      if (watches > 2) stop.abort();
      for await (const line of linesOf(piecesOf(watch), 100_000)) yield parseEvent(line, 'api');
      stop.abort();
    },
  };
  const failures: Error[] = [];
  const sink: ReflectorSink = {
    set(key, object) {
      if (objectKey(object) === key) decodeAnything(object);
    },
    gone: (key) => sure(typeof key === 'string', () => 'gone: the key is no text'),
    synced: () => undefined,
    reached: (version) => sure(typeof version === 'string', () => 'reached: the version is no text'),
    heard: () => undefined,
    opened: () => undefined,
    failed(error, count) {
      failures.push(error);
      if (count > 2) stop.abort();
    },
    recovered: () => undefined,
    restored: () => undefined,
  };
  const clock = new FakeClock({ hurried: true });
  const resource = { path: '/api/v1/services' };
  await new Reflector({ resource, client, clock, sink, random: () => 0.5, pageSize: 250 }).run(signal);
  for (const failure of failures) soundFailure(failure);
}

export const watch: Target = {
  name: 'watch',
  declared: [],
  seeds: [...LISTS, ...STATUSES].map((list) =>
    Buffer.concat([list, Buffer.from('\n'), ...EVENTS.slice(0, 1), ...OTHERS]),
  ),
  mutate,
  async run(input) {
    const text = input.toString();
    const end = text.indexOf('\n');
    const [list, rest] = end < 0 ? [text, ''] : [text.slice(0, end), text.slice(end + 1)];
    const { message, reasons } = readStatus(Buffer.from(list), false);
    sure(message === undefined || typeof message === 'string', () => 'the message of the Status is no text');
    for (const reason of reasons) sure(typeof reason === 'string', () => 'a reason of the Status is no text');
    await follow(list, rest);
    soundPrototypes();
  },
};
