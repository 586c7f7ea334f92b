/**
 * Records what a real kube-controller-manager writes for the cases of `real-cases.ts`, and compares slicewire's controllers with it on
 * the same API server: `node test/cluster/producers/real-controller.ts --kube-apiserver PATH --etcd PATH --kube-controller-manager PATH`.
 * `--record FOLDER` writes the files that `golden-cases.test.ts` reads (test/data/golden/1.36). It ends with status 1 when they differ.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { sameData } from '../../../src/base/equal.ts';
import { runController } from '../../../src/cli/controller.ts';
import { controllerConfig } from '../../../src/config/controller-config.ts';
import type { Child } from '../../../src/kernel/commands.ts';
import { logInto } from '../../../src/telemetry/log.ts';
import { until } from '../../helpers/base/until.ts';
import type { KubeClient } from '../../helpers/cluster/api/kube-client.ts';
import { freePort, RealApiServer } from '../../helpers/cluster/api/real-api-server.ts';
import { byService, type Times, type Written } from './golden.ts';
import { CASES, NODES } from './real-cases.ts';
import { type CaseObject, type GoldenStep, type Objects, type Recorded, resourceOf } from './real-objects.ts';

/** Milliseconds that a controller may take to start. */
const PATIENCE = 60_000;
/** Changes of the Pods of a step are one change. */
const BATCH = '1s';
/** Milliseconds without a write after which the controllers have nothing left to do. */
const QUIET = 3000;
/** Files above this size are written compressed; bytes. */
const READABLE = 200_000;
const CONTROLLERS = 'endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller';

const { values } = parseArgs({
  options: {
    'kube-apiserver': { type: 'string' },
    etcd: { type: 'string' },
    'kube-controller-manager': { type: 'string' },
    record: { type: 'string' },
  },
});
const { 'kube-apiserver': kubeApiserver, etcd, 'kube-controller-manager': manager, record } = values;
if (kubeApiserver === undefined || etcd === undefined || manager === undefined) {
  process.stderr.write('--kube-apiserver, --etcd and --kube-controller-manager each need the path of a program\n');
  process.exit(2);
}

interface Metadata {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly resourceVersion: string;
}

type Item = { readonly metadata: Metadata } & Readonly<Record<string, unknown>>;

class Cluster {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  async create(): Promise<void> {
    for (const node of NODES) await this.#put('/api/v1', node);
    for (const { name } of CASES) await this.#client.write('POST', '/api/v1/namespaces', { metadata: { name } });
  }

  /** The n-th step of every case. */
  async step(n: number): Promise<void> {
    await Promise.all(CASES.map(async ({ name, steps }) => await this.#change(name, steps[n] ?? { title: '' })));
  }

  async state(namespace: string): Promise<Objects> {
    const core = `/api/v1/namespaces/${namespace}`;
    const [pods, services, endpoints, endpointSlices] = await Promise.all([
      this.list(`${core}/pods`),
      this.list(`${core}/services`),
      this.list(`${core}/endpoints`),
      this.list(`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`),
    ]);
    return { pods, services, endpoints, endpointSlices };
  }

  async list(path: string): Promise<Item[]> {
    const { items } = (await this.#client.read(path)) as { items: Item[] };
    return items.map(cleaned);
  }

  /** Resolves when a controller began to write Endpoints. */
  async begun(): Promise<void> {
    const isBegun = async () => (await this.list('/api/v1/endpoints')).some(isOfController);
    await until('Endpoints of a controller', isBegun, PATIENCE);
  }

  /** Resolves when nobody wrote slices or Endpoints for a while. */
  async quiet(): Promise<void> {
    let [before, since] = ['', performance.now()];
    while (performance.now() - since < QUIET) {
      await pause(200);
      const lists = [await this.list('/apis/discovery.k8s.io/v1/endpointslices'), await this.list('/api/v1/endpoints')];
      const now = JSON.stringify(lists.flat().map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
      if (now !== before) [before, since] = [now, performance.now()];
    }
  }

  /** Deletes what controllers wrote, in all cases. */
  async forget(): Promise<void> {
    for (const { name } of CASES) {
      const { endpoints, endpointSlices } = (await this.state(name)) as unknown as Record<string, Item[]>;
      for (const { metadata } of endpointSlices ?? []) {
        await this.#client.write(
          'DELETE',
          `/apis/discovery.k8s.io/v1/namespaces/${name}/endpointslices/${metadata.name}`,
        );
      }
      for (const { metadata } of (endpoints ?? []).filter(isOfController)) {
        await this.#client.write('DELETE', `/api/v1/namespaces/${name}/endpoints/${metadata.name}`);
      }
    }
  }

  async #change(namespace: string, { put = [], patch = [], status = [], remove = [], isDeletedAtOnce }: GoldenStep) {
    const base = `/api/v1/namespaces/${namespace}`;
    for (const object of put) await this.#put(base, object);
    for (const [path, body] of patch) await this.#client.write('PATCH', `${base}/${path}`, body);
    for (const [path, body] of status) await this.#client.write('PATCH', `${base}/${path}/status`, { status: body });
    const how = isDeletedAtOnce ? '?gracePeriodSeconds=0' : '';
    for (const path of remove) await this.#client.write('DELETE', `${base}/${path}${how}`);
  }

  async #put(base: string, { status, ...object }: CaseObject): Promise<void> {
    const path = `${base}/${resourceOf(object.kind)}`;
    await this.#client.write('POST', path, object);
    if (status) await this.#client.write('PATCH', `${path}/${object.metadata.name}/status`, { status });
  }
}

/** Endpoints that the controller of Endpoints wrote. */
function isOfController({ metadata }: Item): boolean {
  return metadata.labels?.['endpoints.kubernetes.io/managed-by'] === 'endpoint-controller';
}

/** Without what nobody reads. */
function cleaned(item: Item): Item {
  const { metadata, spec, status, ...rest } = item as Item & { spec?: object; status?: object };
  const { managedFields: _, ...kept } = metadata as Metadata & { managedFields?: unknown };
  const pick = (from: object, ...names: readonly string[]) =>
    Object.fromEntries(Object.entries(from).filter(([name]) => names.includes(name)));
  if (spec === undefined || !('containers' in spec))
    return { metadata: kept, ...rest, ...(spec ? { spec, status } : {}) };
  return {
    metadata: kept,
    spec: pick(spec, 'nodeName', 'hostname', 'subdomain', 'containers', 'initContainers'),
    status: pick(status ?? {}, 'phase', 'podIP', 'podIPs', 'conditions'),
  };
}

async function writeRecord(folder: string, name: string, recorded: Recorded): Promise<void> {
  const text = `${JSON.stringify(recorded, undefined, 2)}\n`;
  if (text.length > READABLE)
    await writeFile(join(folder, `${name}.json.gz`), gzipSync(JSON.stringify(recorded), { level: 9 }));
  else await writeFile(join(folder, `${name}.json`), text);
}

/** The state of each case. */
async function states(cluster: Cluster): Promise<Map<string, Objects>> {
  return new Map(await Promise.all(CASES.map(async ({ name }) => [name, await cluster.state(name)] as const)));
}

/** Starts slicewire's controllers; resolves when they have nothing left to do, and have ended. */
async function runOurs(cluster: Cluster, kubeconfig: string): Promise<void> {
  const abort = new AbortController();
  const config = controllerConfig({ kubeconfig, leaderElect: 'false', bindAddress: `127.0.0.1:${await freePort()}` });
  const running = runController(config, logInto(process.stdout, 'warn'), abort.signal);
  await cluster.quiet();
  abort.abort(new Error('stopped'));
  await running;
}

let differences = 0;

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** The lines that differ: `-` the real controllers' ones, `+` ours. */
function difference(theirs: unknown, ours: unknown): string {
  const lines = (value: unknown) => (JSON.stringify(value, undefined, 2) ?? '').split('\n');
  const [before, after] = [new Set(lines(theirs)), new Set(lines(ours))];
  const only = (sign: string, these: Set<string>, others: Set<string>) =>
    [...these.difference(others)].map((line) => `\n  ${sign} ${line.trim()}`);
  return [...only('-', before, after), ...only('+', after, before)].join('');
}

interface Compared {
  readonly what: string;
  readonly theirs: ReadonlyMap<string, Objects>;
  readonly ours: ReadonlyMap<string, Objects>;
  readonly times: Times;
}

function compare({ what, theirs, ours, times }: Compared): void {
  for (const [name, before] of theirs) {
    const [wanted, found] = [byService(before as Written, times), byService(ours.get(name) as Written, times)];
    for (const key of new Set([...wanted.keys(), ...found.keys()])) {
      if (sameData(wanted.get(key), found.get(key))) continue;
      differences += 1;
      print(`${what}: ${name}: ${key}${difference(wanted.get(key), found.get(key))}`);
    }
  }
}

const server = await RealApiServer.start({ kubeApiserver, etcd });

async function startTheirs(): Promise<Child> {
  return server.run(
    ...[manager as string, '--kubeconfig', server.kubeconfig, '--controllers', CONTROLLERS, '--leader-elect=false'],
    ...[
      '--bind-address',
      '127.0.0.1',
      '--secure-port',
      String(await freePort()),
      '--cert-dir',
      join(server.folder, 'kcm'),
    ],
    ...['--kube-api-qps', '1000', '--kube-api-burst', '1000', '--concurrent-service-endpoint-syncs', '10'],
    ...['--endpointslice-updates-batch-period', BATCH, '--endpoint-updates-batch-period', BATCH],
  );
}

try {
  const cluster = new Cluster(server.client);
  await cluster.create();
  await cluster.step(0);
  let theirController = await startTheirs();
  const recorded = new Map(CASES.map(({ name }) => [name, [] as ({ title: string } & Objects)[]]));
  for (let n = 0; n < Math.max(...CASES.map(({ steps }) => steps.length)); n++) {
    if (n > 0) await cluster.step(n);
    else await cluster.begun();
    await cluster.quiet();
    for (const { name, steps } of CASES) {
      const step = steps[n];
      if (step) recorded.get(name)?.push({ title: step.title, ...(await cluster.state(name)) });
    }
  }
  await theirController.stop();
  const { gitVersion } = (await server.client.read('/version')) as { gitVersion: string };
  const nodes = await cluster.list('/api/v1/nodes');
  const about = `Objects before kube-apiserver and kube-controller-manager ${gitVersion}: the whole namespace after each step.`;
  if (record !== undefined) {
    await mkdir(record, { recursive: true });
    for (const [name, steps] of recorded) await writeRecord(record, name, { about, nodes, steps });
  }
  const theirs = await states(cluster);
  await runOurs(cluster, server.kubeconfig);
  compare({ what: 'taken over', theirs, ours: await states(cluster), times: 'exact' });
  await cluster.forget();
  theirController = await startTheirs();
  await cluster.begun();
  await cluster.quiet();
  await theirController.stop();
  const anew = await states(cluster);
  await cluster.forget();
  await runOurs(cluster, server.kubeconfig);
  compare({ what: 'written anew', theirs: anew, ours: await states(cluster), times: 'ignored' });
  print(`${CASES.length} cases against ${gitVersion}, ${differences} differences`);
} finally {
  await server.stop();
}
process.exitCode = differences > 0 ? 1 : 0;
