/** The table «Limits» in docs/reference/limits.md has the numbers of the program, and each limit of what is decoded has an error. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { MAX_WAITING_QUESTIONS } from '../../src/agent/questions/one-at-a-time.ts';
import { MAX_RECORDING_MS } from '../../src/agent/questions/parameters.ts';
import { MAX_RECORDINGS } from '../../src/agent/questions/queries.ts';
import { MAX_CONNECTIONS_PER_PORT, MAX_CONNECTIONS as MAX_RELAYED } from '../../src/agent/relay/relay.ts';
import { MAX_TRIES } from '../../src/agent/relay/relayed-connection.ts';
import * as askAgent from '../../src/cli/ask-agent.ts';
import { MAX_ANSWER_BYTES, MAX_STATUS_BYTES } from '../../src/cluster/api/client.ts';
import { isObjectName, isPortName, MAX_SHOWN_LENGTH } from '../../src/cluster/api/decode/checks.ts';
import { decodeService, MAX_FRONTENDS } from '../../src/cluster/api/decode/service.ts';
import { decodeSlice, MAX_ENDPOINTS } from '../../src/cluster/api/decode/slice.ts';
import { BrokenStream, linesOf, MAX_FRAME, MAX_LINE } from '../../src/cluster/api/framing.ts';
import { MAX_PAGES } from '../../src/cluster/api/paged-list.ts';
import { MAX_LINKS } from '../../src/cluster/documents/bounded-file.ts';
import * as documents from '../../src/cluster/documents/documents.ts';
import { MAX_VALUES } from '../../src/cluster/documents/documents.ts';
import * as oneFile from '../../src/cluster/documents/files.ts';
import { MAX_MEMORY_MB, MAX_STUCK, THREAD_TIMEOUTS_MS } from '../../src/cluster/documents/files.ts';
import * as yaml from '../../src/cluster/documents/yaml.ts';
import * as manifests from '../../src/cluster/source/manifests/file-intake.ts';
import * as verification from '../../src/inspect/explain/verify.ts';
import { MAX_FRAME_BYTES, MAX_LINES, MAX_UNPACKED } from '../../src/inspect/history/frames.ts';
import * as reading from '../../src/inspect/history/reading.ts';
import * as nftables from '../../src/kernel/nftables-netlink.ts';
import { MAX_PAIRS } from '../../src/proxy/model/endpoints.ts';
import { MOST } from '../../src/proxy/model/limits.ts';
import { type Fault, faultText, MAX_FAULTS } from '../../src/proxy/model/objects.ts';
import { MAX_COUNTED } from '../../src/proxy/modes/families.ts';
import { MAX_MAXELEM } from '../../src/proxy/modes/virtual-servers/sets.ts';
import {
  CONNECTIONS_PER_CLIENT,
  CONNECTIONS_PER_TRUSTED_CLIENT,
  MAX_CONNECTIONS,
  MAX_UNSENT,
  REQUEST_RATE,
} from '../../src/serve/clients.ts';
import { REQUEST_TIMEOUT_MS } from '../../src/serve/http.ts';
import { MAX_BODY_BYTES, MAX_EARLY_BYTES, MAX_HEAD_BYTES } from '../../src/serve/http-connection.ts';
import { MAX_SECONDS } from '../../src/serve/metrics-server.ts';
import { OBJECTS } from '../messages/objects.ts';
import { problemIn } from '../messages/row.ts';

/** By the beginning of the row. */
const LIMITS: readonly (readonly [string, number])[] = [
  ['bytes of a manifest', manifests.MAX_BYTES],
  ['bytes of a configuration', oneFile.MAX_BYTES],
  ['documents in a file', documents.MAX_DOCUMENTS],
  ['levels of a document', documents.MAX_JSON_DEPTH],
  ['levels of a document', yaml.MAX_YAML_DEPTH],
  ['tokens (words and signs)', yaml.MAX_TOKENS],
  ['values in one object', MAX_VALUES],
  ['characters that aliases', yaml.MAX_ADDED],
  ['seconds to read a file', THREAD_TIMEOUTS_MS.reading / 1000],
  ['seconds to parse', THREAD_TIMEOUTS_MS.parsing / 1000],
  ['megabytes of the thread', MAX_MEMORY_MB],
  ['files that do not answer', MAX_STUCK],
  ['symbolic links', MAX_LINKS],
  ['characters of a name', longest((text) => isObjectName(text))],
  ['new connections a second', MOST['new-connections']],
  ['open connections that', MOST['max-connections']],
  ['ports of Services whose', MAX_COUNTED],
  ["characters of a port's name", longest((text) => isPortName(text))],
  ["characters of a Service's name", longest((text) => sliceOf({ service: text }).slice !== undefined)],
  ['frontends of a Service', MAX_FRONTENDS],
  ['endpoints of an EndpointSlice', MAX_ENDPOINTS],
  ['pairs of an endpoint', MAX_PAIRS],
  ['faults that are reported', MAX_FAULTS],
  ['characters of a value', MAX_SHOWN_LENGTH],
  ['characters of a line', MAX_LINE],
  ['bytes of an event of a watch', MAX_FRAME],
  ['bytes of an answer of the API server', MAX_ANSWER_BYTES],
  ['bytes of an answer that refuses', MAX_STATUS_BYTES],
  ['pages of a list', MAX_PAGES],
  ['connections of one address', CONNECTIONS_PER_CLIENT],
  ['connections of an address that is trusted', CONNECTIONS_PER_TRUSTED_CLIENT],
  ['connections to all servers', MAX_CONNECTIONS],
  ['requests of one address', REQUEST_RATE.burst],
  ['bytes that a client sends', MAX_EARLY_BYTES],
  ['bytes of answers that wait', MAX_UNSENT],
  ['bytes of the head', MAX_HEAD_BYTES],
  ['bytes of the body', MAX_BODY_BYTES],
  ['seconds for a request', REQUEST_TIMEOUT_MS / 1000],
  ['questions of one kind', MAX_WAITING_QUESTIONS],
  ['connections of the relay to one', MAX_CONNECTIONS_PER_PORT],
  ['connections of the relay to all', MAX_RELAYED],
  ['endpoints that the relay', MAX_TRIES],
  ['recordings over HTTP', MAX_RECORDINGS],
  ['hours of a recording', MAX_RECORDING_MS / 3_600_000],
  ['seconds of a profile', MAX_SECONDS],
  ['bytes of an answer that a command', askAgent.MAX_ANSWER_BYTES],
  ['differences in an answer', verification.MAX_DIFFERENCES],
  ['bytes of a frame of a recording, packed', MAX_FRAME_BYTES],
  ['bytes of a frame of a recording, unpacked', MAX_UNPACKED],
  ['lines of a frame', MAX_LINES],
  ['bytes of a history', reading.MAX_HISTORY_BYTES],
  ['entries of a set', MAX_MAXELEM],
  ['bytes of a transaction', nftables.MAX_TRANSACTION_BYTES],
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
  it('are those of the table in docs/reference/limits.md', () => {
    const manual = readFileSync(new URL('../../docs/reference/limits.md', import.meta.url), 'utf8');
    const chapter = /^# Limits\n([\s\S]*?)^## /m.exec(manual)?.[1] ?? '';
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
    assert.deepEqual(told(sliceOf({ endpoints: MAX_ENDPOINTS + 1 }).faults), [
      `EndpointSlice shop/web-1: endpoints: 20001 endpoints: ${problemIn(OBJECTS, 'EndpointSlice shop/web-x: endpoints: 20001 endpoints')} (object set aside)`,
    ]);
    assert.deepEqual(told(sliceOf({ endpoints: 1001, ports: 1000 }).faults), [
      'EndpointSlice shop/web-1: ports: 1000 ports: at 1001 endpoints make 1001000 pairs; 1000000 is the limit (object set aside)',
    ]);
    assert.equal(sliceOf({ endpoints: 1000, ports: 1000 }).slice?.endpoints.length, 1000);
  });

  it('of very many faults the last one counts the others, with the worst effect', () => {
    const externalIPs = Array.from({ length: 500 }, (_, i) => `wrong ${i}`);
    const { faults } = serviceOf({ ports: [{ port: 80 }], externalIPs });
    assert.equal(faults.length, MAX_FAULTS);
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
