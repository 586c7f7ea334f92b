/**
 * Records what a real kube-apiserver answers to lists and streaming lists, in JSON and in protobuf, into test/data/apiserver/1.36:
 *
 *   node test/cluster/api/record-transcripts.ts [--kubeconfig FILE] [--refusing FILE]
 *
 * Both kubeconfigs are JSON with a token (as test/bench/real-server.ts writes them): of a server, and of one with
 * `--feature-gates=WatchList=false`. It makes the namespace `recorded` there and removes it. Of headers it keeps the content type.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { PROTOBUF } from '../../../src/cluster/api/protobuf/kind.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';

const FOLDER = new URL('../../data/apiserver/1.36/', import.meta.url);
const SPACE = '/api/v1/namespaces/recorded';
const SLICES = '/apis/discovery.k8s.io/v1/namespaces/recorded/endpointslices';
/** Seconds. */
const WATCH = 3;
const STREAM = `watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=${WATCH}`;

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
}

type Ask = (method: string, path: string, accept?: string, body?: object) => Promise<Answer>;

/** Requests to the server of a kubeconfig. */
function asking(kubeconfig: string): Ask {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8'));
  const { server, 'certificate-authority-data': authority } = clusters[0].cluster;
  const ca = Buffer.from(authority, 'base64');
  return async (method, path, accept = 'application/json', body) => {
    const headers = { accept, authorization: `Bearer ${users[0].user.token}`, 'content-type': 'application/json' };
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const sent = request(server + path, { method, ca, headers }, (answer) => {
      const type = answer.headers['content-type'] ?? '';
      buffer(answer).then((bytes) => resolve({ status: answer.statusCode ?? 0, type, body: bytes }), reject);
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
    return await promise;
  };
}

/** Protobuf is kept in base64. */
function keep(name: string, path: string, { status, type, body }: Answer): void {
  const text = body.toString(type.startsWith(PROTOBUF) ? 'base64' : 'utf8');
  const record = { request: { method: 'GET', path }, status, headers: { 'content-type': type }, body: text };
  writeFileSync(new URL(`${name}.json`, FOLDER), `${JSON.stringify(record, null, 2)}\n`);
}

async function made(ask: Ask, method: string, path: string, object?: object): Promise<void> {
  const { status, body } = await ask(method, path, undefined, object);
  if (status >= 300 && status !== 409) throw new Error(`${method} ${path}: ${status} ${body}`);
}

function web(name: string, port: number): object {
  return service({ name, namespace: 'recorded', spec: { selector: { app: name }, ports: [{ port }] } });
}

async function makeObjects(ask: Ask): Promise<void> {
  const metadata = { name: 'recorded' };
  await made(ask, 'POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  for (const name of ['a', 'b', 'c']) await made(ask, 'POST', `${SPACE}/services`, web(name, 80));
  const endpoints = [{ addresses: ['10.0.0.1'], nodeName: 'node-a', conditions: { ready: true } }];
  const made2 = slice({ name: 'a-1', service: 'a', namespace: 'recorded', endpoints });
  await made(ask, 'POST', SLICES, made2);
}

/** The same stream in both forms, with a change and a deletion behind the list. */
async function recordStreams(ask: Ask, name: string, path: string, change: () => Promise<void>): Promise<void> {
  const asked = `${path}?${STREAM}`;
  const both = Promise.all([ask('GET', asked), ask('GET', asked, `${PROTOBUF};stream=watch`)]);
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await change();
  const [json, protobuf] = await both;
  keep(`stream-${name}.as-json`, asked, json);
  keep(`stream-${name}`, asked, protobuf);
}

async function recordAll(ask: Ask): Promise<void> {
  await makeObjects(ask);
  for (const [name, path] of [
    ['services', `${SPACE}/services`],
    ['endpointslices', SLICES],
  ] as const) {
    keep(`list-${name}.as-json`, path, await ask('GET', path));
    keep(`list-${name}`, path, await ask('GET', path, PROTOBUF));
  }
  const gone = '/apis/networking.k8s.io/v1alpha1/servicecidrs';
  keep('no-such-version', gone, await ask('GET', gone));
  await recordStreams(ask, 'services', `${SPACE}/services`, async () => {
    await made(ask, 'POST', `${SPACE}/services`, web('d', 80));
    await made(ask, 'DELETE', `${SPACE}/services/b`);
  });
  await recordStreams(ask, 'endpointslices', SLICES, () => made(ask, 'DELETE', `${SLICES}/a-1`));
  await made(ask, 'DELETE', '/api/v1/namespaces/recorded');
}

const { values } = parseArgs({ options: { kubeconfig: { type: 'string' }, refusing: { type: 'string' } } });
const { kubeconfig, refusing } = values;
if (kubeconfig !== undefined) await recordAll(asking(kubeconfig));
if (refusing !== undefined) {
  const refused = `/api/v1/services?${STREAM}`;
  keep('stream-refused', refused, await asking(refusing)('GET', refused));
  keep('protobuf-stream-refused', refused, await asking(refusing)('GET', refused, `${PROTOBUF};stream=watch`));
}
