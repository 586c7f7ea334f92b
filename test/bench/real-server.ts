/**
 * A real kube-apiserver with its etcd instead of `server.ts`, inside a namespace: the arguments are a shape and the paths of the
 * programs, both as JSON. It has the objects of the shape, obeys the same commands, and listens on the loopback of the namespace.
 * `default/kubernetes` is the server's own; a change is said to be sent just before its write, which etcd has to finish first.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Child, startChild } from '../../src/host/child.ts';
import { realCommands } from '../../src/host/commands.ts';
import {
  type ClusterShape,
  churnStep,
  endpointsOf,
  lastAddress,
  type Moment,
  nodeObject,
  objectsOf,
  SLICE_LIMIT,
  sliceCount,
  sliceOf,
} from './cluster.ts';
import { obey } from './inside.ts';
import { KubeClient } from './kube-client.ts';
import { nanoseconds } from './monotonic.ts';
import type { RealServer } from './server-process.ts';
import type { Churn, ServerAnswer, ServerCommand, SliceChange } from './server-protocol.ts';

const PORT = 6443;
const TOKEN = 'of-the-benchmark';
/** Milliseconds. */
const PATIENCE = 120_000;
/** Writes at the same time. */
const WRITERS = 32;
const NEVER = new AbortController().signal;

const shape = JSON.parse(process.argv[2] ?? '') as ClusterShape;
const { kubeApiserver, etcd } = JSON.parse(process.argv[3] ?? '') as RealServer;
/** In memory where there is such a folder: etcd waits for the disk at each write, and tens of thousands of objects are made. */
const MEMORY = '/dev/shm';
const folder = await mkdtemp(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'kube-apiserver-'));
/** Those that run. */
const children = new Set<Child>();
const log: string[] = [];

function start(file: string, ...args: readonly string[]): void {
  const child = startChild({ file, args, onErrorLine: (line) => void log.push(line) });
  children.add(child);
  void child.ended.then((status) => {
    children.delete(child);
    log.push(`${file} ended with status ${status}`);
  });
}

/** At once: who waits for the end of this process waits two seconds, and what the servers hold is thrown away. */
async function end(): Promise<void> {
  for (const { pid } of children) if (pid !== undefined) process.kill(pid, 'SIGKILL');
  await Promise.all([...children].map(({ ended }) => ended));
  await rm(folder, { recursive: true, force: true });
}

async function startServers(): Promise<KubeClient> {
  const key = join(folder, 'service-accounts.key');
  await realCommands.run({ file: 'openssl', args: ['genrsa', '-out', key, '2048'] }, NEVER);
  const tokens = join(folder, 'tokens.csv');
  await writeFile(tokens, `${TOKEN},bench,bench,system:masters\n`);
  await mkdir(join(folder, 'certificates'));
  const client = 'http://127.0.0.1:2379';
  start(
    ...[etcd, '--data-dir', join(folder, 'etcd'), '--log-level', 'error'],
    ...['--listen-client-urls', client, '--advertise-client-urls', client],
    ...['--listen-peer-urls', 'http://127.0.0.1:2380', '--quota-backend-bytes', String(4 * 2 ** 30)],
  );
  start(
    ...[kubeApiserver, '--etcd-servers', client, '--service-cluster-ip-range', '10.96.0.0/12'],
    ...['--bind-address', '127.0.0.1', '--secure-port', String(PORT), '--cert-dir', join(folder, 'certificates')],
    ...['--token-auth-file', tokens, '--authorization-mode', 'RBAC'],
    ...['--service-account-key-file', key, '--service-account-signing-key-file', key],
    ...['--service-account-issuer', 'https://kubernetes.default', '--disable-admission-plugins', 'ServiceAccount'],
    ...[
      '--enable-priority-and-fairness=false',
      '--max-requests-inflight',
      '0',
      '--max-mutating-requests-inflight',
      '0',
    ],
  );
  return await ready();
}

async function ready(): Promise<KubeClient> {
  const certificate = join(folder, 'certificates', 'apiserver.crt');
  for (const late = performance.now() + PATIENCE; performance.now() < late; await pause(200)) {
    const authority = await readFile(certificate, 'utf8').catch(() => undefined);
    if (authority === undefined) continue;
    const client = new KubeClient({ port: PORT, token: TOKEN, authority });
    if ((await client.status('GET', '/readyz').catch(() => 0)) === 200) return client;
    client.close();
  }
  throw new Error(['kube-apiserver is not ready', ...log.slice(-10)].join('\n'));
}

/** As kubectl would send it: what the server fills in is not in it. */
function sent(object: object): object {
  const { metadata, ...rest } = object as { metadata: Record<string, unknown> };
  const { uid: _, creationTimestamp: __, managedFields: ___, generation: ____, ...kept } = metadata;
  return { ...rest, metadata: kept };
}

interface Named {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
}

/** Path of the collection that an object belongs to. */
function pathOf(object: object): string {
  const { kind, metadata } = object as Named;
  const group = kind === 'EndpointSlice' ? '/apis/discovery.k8s.io/v1' : '/api/v1';
  return `${group}/namespaces/${metadata.namespace}/${kind === 'EndpointSlice' ? 'endpointslices' : 'services'}`;
}

async function makeObjects(client: KubeClient): Promise<void> {
  const all = Array.from({ length: Math.max(0, shape.services - 1) }, (_, i) => i + 1);
  const spaces = new Set(all.flatMap((n) => objectsOf(shape, n).map((one) => (one as Named).metadata.namespace)));
  for (const name of spaces) {
    if (name === 'kube-system') continue;
    await client.write('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }
  const node = sent(nodeObject());
  await client.write('POST', '/api/v1/nodes', node);
  await client.write('PUT', '/api/v1/nodes/node-0/status', node);
  const left = all.values();
  const write = async () => {
    for (const n of left) {
      for (const object of objectsOf(shape, n)) await client.write('POST', pathOf(object), sent(object));
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
}

const client = await startServers().catch(async (error: unknown) => {
  await end();
  throw error;
});
await makeObjects(client).catch(async (error: unknown) => {
  await end();
  throw error;
});
const kubeconfig = join(folder, 'kubeconfig');
await writeFile(kubeconfig, JSON.stringify(await configOf()));
/** How often all endpoints of a Service were replaced. */
const generations = new Map<number, number>();

/** JSON is YAML. */
async function configOf(): Promise<object> {
  const authority = await readFile(join(folder, 'certificates', 'apiserver.crt'), 'base64');
  const server = `https://127.0.0.1:${PORT}`;
  return {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'bench' },
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    clusters: [{ name: 'bench', cluster: { server, 'certificate-authority-data': authority } }],
    users: [{ name: 'bench', user: { token: TOKEN } }],
  };
}

async function putSlice(n: number, at: number, moment: Moment): Promise<SliceChange> {
  const slice = sent(sliceOf(shape, n, at, { ...moment, changedAt: new Date().toISOString() }));
  const isLast = at === sliceCount(shape, n) - 1;
  const address = isLast
    ? lastAddress(shape, n, moment)
    : (endpointsOf(shape, n, moment)[(at + 1) * SLICE_LIMIT - 1]?.addresses[0] ?? '');
  const since = nanoseconds();
  await client.write('PUT', `${pathOf(slice)}/${(slice as Named).metadata.name}`, slice);
  return { n, address, at: since };
}

async function put(n: number, turn: number): Promise<SliceChange> {
  return await putSlice(n, sliceCount(shape, n) - 1, { turn, generation: generations.get(n) ?? 0 });
}

async function roll(n: number, generation: number): Promise<SliceChange[]> {
  generations.set(n, generation);
  const all = Array.from({ length: sliceCount(shape, n) }, (_, at) => putSlice(n, at, { generation }));
  return await Promise.all(all);
}

/** Each change has its moment: none waits for the write of the one before. */
async function churn({ perSecond, seconds, turn }: Churn): Promise<SliceChange[]> {
  const changes: Promise<SliceChange>[] = [];
  const since = performance.now();
  for (let i = 0; i < perSecond * seconds; i++) {
    const early = since + (i * 1000) / perSecond - performance.now();
    if (early > 0) await pause(early);
    const step = churnStep(shape, i, turn);
    changes.push(put(step.n, step.turn));
  }
  return await Promise.all(changes);
}

async function carryOut(command: ServerCommand): Promise<readonly SliceChange[]> {
  switch (command.kind) {
    case 'ready':
      return [];
    case 'put':
      return [await put(command.n, command.turn)];
    case 'roll':
      return await roll(command.n, command.generation);
    case 'churn':
      return await churn(command);
  }
}

/** Asked for only where somebody waits for them: the answer costs the server time. */
async function watches({ kind }: ServerCommand): Promise<number> {
  return kind === 'ready' ? await client.watches() : 0;
}

obey<ServerCommand, ServerAnswer>(
  async (command) => ({ changes: await carryOut(command), kubeconfig, watches: await watches(command) }),
  end,
);
