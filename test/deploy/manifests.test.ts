/** The manifests of deploy/: put together by kustomize, checked against the published schemas of Kubernetes, and for what they promise. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Command } from 'commander';
import { goArguments, withFlags } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';
import { type ApiClient, ApiError } from '../../src/cluster/api/client.ts';
import { decodeSelectingService } from '../../src/cluster/api/decode/producing.ts';
import type { EndpointsObject, SliceObject } from '../../src/cluster/producers/api-objects.ts';
import { reconcileMirror } from '../../src/cluster/producers/mirror.ts';
import { reconcileSlices } from '../../src/cluster/producers/slices.ts';
import { TopologyBook } from '../../src/cluster/producers/topology.ts';
import { type ControllerConfig, controllerConfig } from '../../src/config/controller-config.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { ClusterCache } from '../../src/controller/cluster-cache.ts';
import { ClusterFeed } from '../../src/controller/cluster-feed.ts';
import { Expectations } from '../../src/controller/expectations.ts';
import { LeaderElector } from '../../src/controller/leader.ts';
import { deleteEndpoints, mustBeGone, SliceWriter, writeEndpoints } from '../../src/controller/object-writer.ts';
import { RECORD_FOLDER } from '../../src/kernel/record-file.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { flagsFromText } from '../helpers/cluster/documents/documents.ts';
import { service } from '../helpers/cluster/objects.ts';
import { isRightBySchemas, kustomize, NO_KUBECTL, type ObjectOf } from '../helpers/deploy/deployed.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds?: number;
  readonly failureThreshold?: number;
}

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly resources: { readonly limits: Readonly<Record<string, string>> };
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly startupProbe?: Probe;
}

interface Volume {
  readonly name: string;
  readonly hostPath?: { readonly path: string; readonly type?: string };
  readonly configMap?: { readonly name: string; readonly items?: readonly { readonly key: string }[] };
}

interface PodSpec {
  readonly hostNetwork: boolean;
  readonly priorityClassName: string;
  readonly serviceAccountName: string;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly Volume[];
}

function podOf(objects: readonly ObjectOf[]): PodSpec {
  const set = objects.find(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment') ?? assert.fail();
  return (set.spec as { template: { spec: PodSpec } }).template.spec;
}

for (const [overlay, mode, capabilities] of [
  ['iptables', 'iptables', ['NET_ADMIN']],
  ['ipvs', 'ipvs', ['NET_ADMIN', 'NET_RAW']],
  ['nftables', 'nftables', ['NET_ADMIN', 'NET_RAW']],
  ['kubeadm', undefined, ['NET_ADMIN', 'NET_RAW']],
] as const) {
  describe(`deploy/overlays/${overlay}`, async () => {
    const objects = await kustomize(`overlays/${overlay}`);
    const options = objects === undefined ? NO_KUBECTL : {};
    const all = objects ?? [];

    it('is right by the published schemas', options, () => isRightBySchemas(all));

    it(
      `gives the agent ${capabilities.join(' and ')}, a root file system that it cannot write, and no way to more`,
      options,
      () => {
        const { containers, initContainers, hostNetwork, priorityClassName } = podOf(all);
        const [agent] = containers;
        assert.deepEqual(agent?.securityContext, {
          runAsUser: 0,
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'], add: [...capabilities] },
          seccompProfile: { type: 'RuntimeDefault' },
        });
        assert.ok(initContainers[0]?.args.includes('--init-only'));
        assert.deepEqual([hostNetwork, priorityClassName, containers.length], [true, 'system-node-critical', 1]);
      },
    );

    it('bounds memory, and not the processor that a first sync needs', options, () => {
      const { containers, initContainers } = podOf(all);
      const limits = [...containers, ...initContainers].map(({ resources }) => resources.limits);
      assert.deepEqual(limits, [{ memory: '1Gi' }, { memory: '256Mi' }]);
    });

    it("keeps what one agent leaves for the next in the node's folder, for the agent alone", options, () => {
      const { containers, initContainers, volumes } = podOf(all);
      const mounts = (of: readonly Container[]) =>
        of.flatMap(({ volumeMounts }) => volumeMounts).filter(({ mountPath }) => mountPath === RECORD_FOLDER);
      const [mount = assert.fail()] = mounts(containers);
      assert.deepEqual(mounts(initContainers), []);
      const { hostPath } = volumes.find(({ name }) => name === mount.name) ?? assert.fail();
      assert.deepEqual(hostPath, { path: RECORD_FOLDER, type: 'DirectoryOrCreate' });
    });

    it('names a configuration that the agent understands, where it is mounted', options, () => {
      const { containers, initContainers, volumes } = podOf(all);
      const map = volumes.find(({ name }) => name === 'config')?.configMap?.name;
      for (const { args, volumeMounts } of [...containers, ...initContainers]) {
        const mount = volumeMounts.filter(({ name }) => name === 'config');
        assert.equal(mount.length, 1);
        assert.ok(args.includes(`--config=${mount[0]?.mountPath}/config.conf`));
      }
      if (mode === undefined) {
        assert.equal(map, 'kube-proxy');
        return;
      }
      const config = all.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === map) ?? assert.fail();
      const data = config.data as Readonly<Record<string, string>>;
      const { flags, lenient, idle } = flagsFromText(data['config.conf'] ?? '', {});
      assert.deepEqual([configFromFlags(flags).mode, lenient, idle], [mode, [], []]);
      assert.ok('kubeconfig.conf' in data);
    });

    it(
      'asks each question of the agent where it answers it, and rolls out no faster than agents get ready',
      options,
      () => {
        const [agent = assert.fail()] = podOf(all).containers;
        const { livenessProbe, readinessProbe, startupProbe = assert.fail(), ports } = agent;
        const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet);
        assert.deepEqual(
          paths,
          ['/livez', '/livez', '/readyz'].map((path) => ({ path, port: 'healthz' })),
        );
        assert.deepEqual(
          ports.map(({ name, containerPort }) => [name, containerPort]),
          [['healthz', 10_256]],
        );
        // A busy node has its time to load the program.
        assert.ok((startupProbe.periodSeconds ?? 10) * (startupProbe.failureThreshold ?? 3) >= 120);
        const set = all.find(({ kind }) => kind === 'DaemonSet') ?? assert.fail();
        const { minReadySeconds } = set.spec as { minReadySeconds?: number };
        assert.ok(minReadySeconds !== undefined && minReadySeconds >= (readinessProbe.periodSeconds ?? 10));
      },
    );

    it('lets the agent do what it does with the API, and nothing else', options, () => {
      const role = all.find(({ kind }) => kind === 'ClusterRole') ?? assert.fail();
      const rules = role.rules as readonly { resources: string[]; verbs: string[] }[];
      assert.deepEqual(
        rules.flatMap(({ resources, verbs }) => resources.map((resource) => `${resource}: ${verbs.join(' ')}`)),
        [
          ...['services', 'nodes', 'endpointslices', 'servicecidrs'].map((kind) => `${kind}: list watch`),
          ...['events', 'tokenreviews', 'subjectaccessreviews'].map((kind) => `${kind}: create`),
        ],
      );
    });
  });
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** `discovery.k8s.io/endpointslices: create`, sorted; a rule for one name has it: `leases/slicewire-controller`. */
function rightsOf(objects: readonly ObjectOf[], kind: 'ClusterRole' | 'Role'): string[] {
  const { rules } = objects.find((object) => object.kind === kind) ?? assert.fail();
  return (rules as readonly Rule[])
    .flatMap(({ apiGroups, resources, resourceNames = [''], verbs }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) =>
          resourceNames.flatMap((name) => verbs.map((verb) => rightText({ group, resource, name, verb }))),
        ),
      ),
    )
    .sort();
}

function rightText({ group, resource, name, verb }: Record<'group' | 'resource' | 'name' | 'verb', string>): string {
  return `${group && `${group}/`}${resource}${name && `/${name}`}: ${verb}`;
}

/** Answers as an empty cluster does, and notes which rights each request needs. */
class AskedRights implements ApiClient {
  readonly server = 'https://control-plane.example:6443';
  readonly cluster = new Set<string>();
  /** By name where the request has one: of leases. */
  readonly namespaced = new Set<string>();
  #lease: unknown;

  async get(path: string): Promise<unknown> {
    if (!path.includes('/namespaces/')) {
      this.#ask(path, 'list');
      return { items: [], metadata: { resourceVersion: '1' } };
    }
    this.#ask(path, 'get');
    if (!path.includes('/leases/')) return {};
    if (this.#lease === undefined) throw new ApiError('there is none', 404);
    return this.#lease;
  }

  async write({ method, path, body }: Parameters<ApiClient['write']>[0]): Promise<unknown> {
    this.#ask(path, ({ POST: 'create', PUT: 'update', DELETE: 'delete' } as const)[method]);
    if (path.includes('/leases')) this.#lease = body;
    const { metadata } = (body ?? {}) as Partial<SliceObject>;
    for (const { kind, blockOwnerDeletion } of metadata?.ownerReferences ?? []) {
      const owners: Record<string, string> = { Service: 'services', Endpoints: 'endpoints' };
      if (blockOwnerDeletion) this.cluster.add(`${owners[kind]}/finalizers: update`);
    }
    return { metadata: { resourceVersion: '2' }, ...body };
  }

  async *watch(path: string, _: unknown, signal: AbortSignal): AsyncGenerator<object> {
    this.#ask(path, 'watch');
    await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  }

  #ask(path: string, verb: string): void {
    const [, group = '', resource = '', name = ''] =
      /^\/(?:api|apis\/([^/]+))\/v1(?:\/namespaces\/[^/]+)?\/([^/]+)(?:\/([^/]+))?$/.exec(path) ?? assert.fail(path);
    if (resource === 'leases') this.namespaced.add(rightText({ group, resource, name, verb }));
    else this.cluster.add(rightText({ group, resource, name: '', verb }));
  }
}

/** Follow the cluster until all watches stand. */
async function askAsControllers(client: AskedRights): Promise<void> {
  const stop = new AbortController();
  const log = { info() {}, v2() {}, warn() {} };
  const cache = new ClusterCache();
  const feed = new ClusterFeed({ cache, client, clock: new FakeClock(), log, onFault: () => assert.fail() });
  const followed = feed.follow(() => setImmediate(() => stop.abort()), stop.signal);
  await followed.catch((error) => assert.ok(stop.signal.aborted, error));
}

/** Get the lease, lose it, get it again, and give it back. */
async function askAsElector(client: AskedRights, settings: NonNullable<ControllerConfig['leader']>): Promise<void> {
  const stop = new AbortController();
  const onFailure = (error: Error) => assert.fail(error);
  const elector = new LeaderElector({
    ...{ settings, client, clock: new FakeClock(), random: Math.random },
    ...{ onLeader: () => undefined, onFailure },
  });
  let times = 0;
  const lead = async () => {
    times += 1;
    if (times === 2) stop.abort();
  };
  await elector.run(lead, stop.signal).catch((error) => assert.ok(stop.signal.aborted, error));
}

/** Write and delete what the three controllers write and delete. */
async function askAsWriter(client: AskedRights): Promise<void> {
  const own = decodeSelectingService(service({ name: 'own', spec: { selector: { app: 'own' } } }), 'default/own').value;
  const other = decodeSelectingService(service({ name: 'other', spec: {} }), 'default/other').value;
  assert.ok(own && other);
  const endpoints: EndpointsObject = {
    ...{ apiVersion: 'v1', kind: 'Endpoints' },
    metadata: { name: 'other', namespace: 'default' },
    subsets: [{ addresses: [{ ip: '192.0.2.1' }] }],
  };
  const topology = new TopologyBook();
  const nothing = { existing: [], pods: [], node: () => undefined };
  const ofPods = reconcileSlices({ service: own, ...nothing, topology, mostPerSlice: 100 });
  const mirrored = reconcileMirror({ service: other, endpoints, existing: [], mostPerSubset: 1000 });
  const expectations = new Expectations();
  const writer = new SliceWriter({
    client,
    expectations,
    shown: () => '',
    isTaken: () => false,
    onWrite: () => undefined,
  });
  for (const { create } of [ofPods.changes, mirrored.changes]) {
    assert.ok(create.length > 0);
    const changes = { create, update: create, remove: create };
    await writer.write({ service: 'default/own', changes, triggeredAt: 0, signal: NEVER });
  }
  await writeEndpoints(client, endpoints, NEVER);
  await writeEndpoints(client, { ...endpoints, metadata: { ...endpoints.metadata, resourceVersion: '2' } }, NEVER);
  await deleteEndpoints(client, endpoints, NEVER);
  await assert.rejects(mustBeGone(client, 'services', 'default/other', NEVER));
  await assert.rejects(mustBeGone(client, 'endpoints', 'default/other', NEVER));
}

describe('deploy/controller', async () => {
  const objects = await kustomize('controller');
  const options = objects === undefined ? NO_KUBECTL : {};
  const all = objects ?? [];

  /** What the program makes of its command line. */
  function configured(): ControllerConfig {
    const [command, ...args] = podOf(all).containers[0]?.args ?? [];
    assert.equal(command, 'controller');
    const entry = COMMANDS.find(({ name }) => name === 'controller') ?? assert.fail();
    const parsed = withFlags(new Command(), entry).exitOverride().parse(goArguments(args), { from: 'user' });
    assert.deepEqual(parsed.args, []);
    return controllerConfig(parsed.opts());
  }

  it('is right by the published schemas', options, () => isRightBySchemas(all));

  it('keeps one of the replicas when nodes are drained, and bounds their memory', options, () => {
    const { spec } = all.find(({ kind }) => kind === 'PodDisruptionBudget') ?? assert.fail();
    const labels = { 'k8s-app': 'slicewire-controller' };
    assert.deepEqual(spec, { maxUnavailable: 1, selector: { matchLabels: labels } });
    const set = all.find(({ kind }) => kind === 'Deployment') ?? assert.fail();
    const { replicas, selector } = set.spec as { replicas: number; selector: object };
    assert.deepEqual([replicas, selector], [2, { matchLabels: labels }]);
    assert.deepEqual(podOf(all).containers[0]?.resources.limits, { memory: '768Mi' });
  });

  it('gives the controllers no user, no capability, and no file that they can write', options, () => {
    const { containers, hostNetwork, priorityClassName, securityContext } = podOf(all);
    assert.deepEqual(securityContext, {
      ...{ runAsNonRoot: true, runAsUser: 65_534, runAsGroup: 65_534 },
      seccompProfile: { type: 'RuntimeDefault' },
    });
    assert.deepEqual(containers[0]?.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    assert.deepEqual([hostNetwork, priorityClassName, containers.length], [true, 'system-cluster-critical', 1]);
  });

  it(
    'runs the image of the agents with flags that the program knows, and is asked where it listens',
    options,
    async () => {
      const [container] = podOf(all).containers;
      const { listen, leader } = configured();
      const { ports, livenessProbe, readinessProbe, image } = container ?? assert.fail();
      // No wider than who asks: the kubelet, from the node itself.
      assert.equal(listen.address, '127.0.0.1');
      assert.deepEqual(
        ports.map(({ name, containerPort }) => [name, containerPort]),
        [['healthz', listen.port]],
      );
      assert.deepEqual(livenessProbe.httpGet, { host: listen.address, path: '/livez', port: 'healthz' });
      assert.deepEqual(readinessProbe.httpGet, { host: listen.address, path: '/readyz', port: 'healthz' });
      // Of two replicas one writes.
      assert.ok(leader);
      assert.equal(image, podOf((await kustomize('base')) ?? []).containers[0]?.image);
    },
  );

  it('reaches the API server as the agents do, by the file of their ConfigMap', options, async () => {
    const { containers, volumes } = podOf(all);
    const [{ mountPath } = assert.fail()] = containers[0]?.volumeMounts ?? [];
    const map = volumes[0]?.configMap;
    const [{ key } = assert.fail()] = map?.items ?? [];
    assert.equal(configured().kubeconfig, `${mountPath}/${key}`);
    const ofAgents = ((await kustomize('base')) ?? []).find(({ kind }) => kind === 'ConfigMap');
    assert.equal(ofAgents?.metadata.name, map?.name);
    assert.ok(Object.hasOwn(ofAgents?.data ?? {}, key));
  });

  it('lets the controllers do what they do with the API, and nothing else', options, async () => {
    const asked = new AskedRights();
    const { leader = assert.fail() } = configured();
    await askAsControllers(asked);
    await askAsElector(asked, leader);
    await askAsWriter(asked);
    const openShift = ['endpoints/restricted: create', 'discovery.k8s.io/endpointslices/restricted: create'];
    const events = 'events.k8s.io/events: create';
    assert.deepEqual(rightsOf(all, 'ClusterRole'), [...asked.cluster, ...openShift, events].sort());
    assert.deepEqual(rightsOf(all, 'Role'), [...asked.namespaced].sort());
    const role = all.find(({ kind }) => kind === 'Role');
    assert.equal(role?.metadata.namespace, leader.namespace);
  });

  it('gives these rights to the account that it runs as', options, () => {
    const name = podOf(all).serviceAccountName;
    const account = all.find(({ kind }) => kind === 'ServiceAccount');
    assert.equal(account?.metadata.name, name);
    for (const [binding, role] of [
      ['ClusterRoleBinding', 'ClusterRole'],
      ['RoleBinding', 'Role'],
    ]) {
      const found = all.find(({ kind }) => kind === binding);
      const roleName = all.find(({ kind }) => kind === role)?.metadata.name;
      assert.deepEqual(found?.roleRef, { apiGroup: 'rbac.authorization.k8s.io', kind: role, name: roleName });
      assert.deepEqual(found?.subjects, [{ kind: 'ServiceAccount', name, namespace: 'kube-system' }]);
    }
  });
});
