/** The table «Limits» in docs/operations.md has the numbers of the program, and each limit of what is decoded has an error. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import * as askAgent from '../../src/agent/questions/ask-agent.ts';
import { MOST_WAITING } from '../../src/agent/questions/one-at-a-time.ts';
import { LONGEST_RECORDING } from '../../src/agent/questions/parameters.ts';
import { MOST_RECORDINGS } from '../../src/agent/questions/queries.ts';
import { MOST_OF_PORT, MOST_CONNECTIONS as MOST_RELAYED } from '../../src/agent/relay/accounts.ts';
import { MOST_TRIES } from '../../src/agent/relay/connection.ts';
import { LONGEST_ANSWER, LONGEST_STATUS } from '../../src/cluster/api/client.ts';
import { LONGEST, MOST_FAULTS } from '../../src/cluster/api/decode/faults.ts';
import { isObjectName, isPortName } from '../../src/cluster/api/decode/fields.ts';
import { decodeService, MOST_FRONTENDS } from '../../src/cluster/api/decode/service.ts';
import { decodeSlice, MOST_ENDPOINTS, MOST_PAIRS } from '../../src/cluster/api/decode/slice.ts';
import { BrokenStream, LONGEST_LINE, linesOf } from '../../src/cluster/api/lines.ts';
import { MOST_PAGES } from '../../src/cluster/api/listing.ts';
import { LONGEST_FRAME } from '../../src/cluster/api/protobuf/frames.ts';
import { MOST_LINKS } from '../../src/cluster/documents/bounded-file.ts';
import * as documents from '../../src/cluster/documents/documents.ts';
import { MOST_STUCK, PATIENCE } from '../../src/cluster/documents/files.ts';
import { MOST_VALUES } from '../../src/cluster/documents/objects.ts';
import * as oneFile from '../../src/cluster/documents/one-file.ts';
import { MOST_MEMORY } from '../../src/cluster/documents/thread.ts';
import * as yaml from '../../src/cluster/documents/yaml.ts';
import * as manifests from '../../src/cluster/source/manifests/manifest-files.ts';
import * as verification from '../../src/inspect/explain/verification.ts';
import { MOST_LINES, MOST_PACKED, MOST_UNPACKED } from '../../src/inspect/history/frames.ts';
import * as reading from '../../src/inspect/history/reading.ts';
import * as nftables from '../../src/kernel/nftables-netlink.ts';
import { type Fault, faultText } from '../../src/proxy/model/objects.ts';
import { MAX_MAXELEM } from '../../src/proxy/modes/virtual-servers/sets.ts';
import {
  CONNECTIONS_PER_CLIENT,
  CONNECTIONS_PER_TRUSTED_CLIENT,
  MAX_CONNECTIONS,
  MAX_UNSENT,
  REQUEST_RATE,
} from '../../src/serve/clients.ts';
import { MAX_BODY_BYTES, MAX_EARLY_BYTES } from '../../src/serve/connection.ts';
import { MAX_HEAD_BYTES, REQUEST_TIMEOUT } from '../../src/serve/http.ts';
import { MOST_SECONDS } from '../../src/serve/metrics-server.ts';

/** By the beginning of the row. */
const LIMITS: readonly (readonly [string, number])[] = [
  ['bytes of a manifest', manifests.MOST_BYTES],
  ['bytes of a configuration', oneFile.MOST_BYTES],
  ['documents in a file', documents.MOST_DOCUMENTS],
  ['levels of a document', documents.DEEPEST],
  ['levels of a document', yaml.DEEPEST],
  ['tokens (words and signs)', yaml.MOST_TOKENS],
  ['values in one object', MOST_VALUES],
  ['characters that aliases', yaml.MOST_ADDED],
  ['seconds to read a file', PATIENCE.reading / 1000],
  ['seconds to parse', PATIENCE.parsing / 1000],
  ['megabytes of the thread', MOST_MEMORY],
  ['files that do not answer', MOST_STUCK],
  ['symbolic links', MOST_LINKS],
  ['characters of a name', longest((text) => isObjectName(text))],
  ["characters of a port's name", longest((text) => isPortName(text))],
  ["characters of a Service's name", longest((text) => sliceOf({ service: text }).slice !== undefined)],
  ['frontends of a Service', MOST_FRONTENDS],
  ['endpoints of an EndpointSlice', MOST_ENDPOINTS],
  ['pairs of an endpoint', MOST_PAIRS],
  ['faults that are reported', MOST_FAULTS],
  ['characters of a value', LONGEST],
  ['characters of a line', LONGEST_LINE],
  ['bytes of an event of a watch', LONGEST_FRAME],
  ['bytes of an answer of the API server', LONGEST_ANSWER],
  ['bytes of an answer that refuses', LONGEST_STATUS],
  ['pages of a list', MOST_PAGES],
  ['connections of one address', CONNECTIONS_PER_CLIENT],
  ['connections of an address that is trusted', CONNECTIONS_PER_TRUSTED_CLIENT],
  ['connections to all servers', MAX_CONNECTIONS],
  ['requests of one address', REQUEST_RATE.burst],
  ['bytes that a client sends', MAX_EARLY_BYTES],
  ['bytes of answers that wait', MAX_UNSENT],
  ['bytes of the head', MAX_HEAD_BYTES],
  ['bytes of the body', MAX_BODY_BYTES],
  ['seconds for a request', REQUEST_TIMEOUT / 1000],
  ['questions of one kind', MOST_WAITING],
  ['connections of the relay to one', MOST_OF_PORT],
  ['connections of the relay to all', MOST_RELAYED],
  ['endpoints that the relay', MOST_TRIES],
  ['recordings over HTTP', MOST_RECORDINGS],
  ['hours of a recording', LONGEST_RECORDING / 3_600_000],
  ['seconds of a profile', MOST_SECONDS],
  ['bytes of an answer that a command', askAgent.MOST],
  ['differences in an answer', verification.MOST],
  ['bytes of a frame of a recording, packed', MOST_PACKED],
  ['bytes of a frame of a recording, unpacked', MOST_UNPACKED],
  ['lines of a frame', MOST_LINES],
  ['bytes of a history', reading.MOST],
  ['entries of a set', MAX_MAXELEM],
  ['bytes of a transaction', nftables.LONGEST],
];

/** The most letters that a name may have. */
function longest(isRight: (text: string) => boolean): number {
  let length = 1;
  while (isRight('a'.repeat(length + 1))) length += 1;
  return length;
}

interface SliceInput {
  readonly service?: string;
  readonly endpoints?: number;
  readonly ports?: number;
}

function sliceOf({ service = 'web', endpoints = 1, ports = 1 }: SliceInput) {
  const object = {
    metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    ports: Array.from({ length: ports }, (_, i) => ({ name: `p${i}`, port: 80 })),
    endpoints: Array.from({ length: endpoints }, () => ({ addresses: ['10.244.1.11'] })),
  };
  const event = decodeSlice(object, 'shop/web-1');
  assert.ok(event.kind === 'slice');
  return event;
}

function serviceOf(more: object) {
  const object = { metadata: { name: 'web', namespace: 'shop' }, spec: { clusterIP: '10.96.0.10', ...more } };
  const event = decodeService(object, 'shop/web');
  assert.ok(event.kind === 'service');
  return event;
}

const told = (faults: readonly Fault[]) => faults.map(faultText);

describe('limits', () => {
  it('are those of the table in docs/operations.md', () => {
    const manual = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
    const chapter = /^## Limits\n([\s\S]*?)^## /m.exec(manual)?.[1] ?? '';
    const rows = [...chapter.matchAll(/^\| (.+?) \| ([\d,]+) \| /gm)].map(([, of = '', number = '']) => ({
      of,
      number,
    }));
    for (const [beginning, number] of LIMITS) {
      const row = rows.find(({ of }) => of.startsWith(beginning));
      assert.equal(row?.number, number.toLocaleString('en'), beginning);
    }
    for (const { of } of rows)
      assert.ok(
        LIMITS.some(([beginning]) => of.startsWith(beginning)),
        `${of} is not checked`,
      );
    assert.ok(rows.length > 35, `${rows.length} rows were found`);
  });

  it('a Service whose ports and addresses multiply is set aside with one fault', () => {
    const ports = Array.from({ length: 1000 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
    const externalIPs = Array.from({ length: 100 }, (_, i) => `192.0.2.${i}`);
    const { service, faults } = serviceOf({ ports, externalIPs });
    assert.equal(service, undefined);
    assert.deepEqual(told(faults), [
      'Service shop/web: spec.ports: 1000 ports: at all addresses of the Service, with its source ranges, make 101000 frontends; 100000 is the limit (object set aside)',
    ]);
    assert.equal(serviceOf({ ports, externalIPs: externalIPs.slice(1) }).service?.ports.length, 1000);
  });

  it('a slice with too many endpoints, or pairs of endpoints and ports, is set aside with one fault', () => {
    assert.deepEqual(told(sliceOf({ endpoints: MOST_ENDPOINTS + 1 }).faults), [
      'EndpointSlice shop/web-1: endpoints: 20001 endpoints: must be at most 20000; Kubernetes allows 1000 (object set aside)',
    ]);
    assert.deepEqual(told(sliceOf({ endpoints: 1001, ports: 1000 }).faults), [
      'EndpointSlice shop/web-1: ports: 1000 ports: at 1001 endpoints make 1001000 pairs; 1000000 is the limit (object set aside)',
    ]);
    assert.equal(sliceOf({ endpoints: 1000, ports: 1000 }).slice?.endpoints.length, 1000);
  });

  it('of very many faults the last one counts the others, with the worst effect', () => {
    const externalIPs = Array.from({ length: 500 }, (_, i) => `wrong ${i}`);
    const { faults } = serviceOf({ ports: [{ port: 80 }], externalIPs });
    assert.equal(faults.length, MOST_FAULTS);
    assert.equal(told(faults).at(-1), 'Service shop/web: 401 more of its fields cannot be used (part left out)');
    const ports = Array.from({ length: 500 }, () => ({ port: 70_000 }));
    assert.equal(serviceOf({ ports, type: 'Wrong' }).service, undefined);
  });

  it('a long value and a long text of an object are shortened', () => {
    const { faults } = serviceOf({ ports: [{ port: 80 }], clusterIPs: ['10.0.0.1'], ipFamilies: ['x'.repeat(1e6)] });
    assert.ok(faults.every((fault) => faultText(fault).length < 1000));
  });

  it('a line of a watch that is too long ends the watch; a long one that is not is read whole', async () => {
    const read = async (pieces: readonly string[]) => {
      async function* sent() {
        yield* pieces;
      }
      return await Array.fromAsync(linesOf(sent(), 10));
    };
    assert.deepEqual(await read(['abc', 'def', 'ghij\n', '\nk', '\n']), ['abcdefghij', 'k']);
    await assert.rejects(read(['abc', 'def', 'ghijk']), /sent an event of more than 10 characters/);
    await assert.rejects(read(['0123456789x\n']), BrokenStream);
    await assert.rejects(read(['ab\ncd']), /was cut off in the middle of an event/);
  });
});
