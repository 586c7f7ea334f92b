/** The manifests of deploy/: put together by kustomize, checked against the published schemas of Kubernetes, and for what they promise. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { loadAll } from 'js-yaml';
import { DaemonSet } from 'kubernetes-models/apps/v1/DaemonSet';
import { ClusterRole } from 'kubernetes-models/rbac.authorization.k8s.io/v1/ClusterRole';
import { ClusterRoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1/ClusterRoleBinding';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount';
import { configFromFlags } from '../../src/config/config.ts';
import { flagsFromFile } from '../../src/config/config-file.ts';
import { realCommands } from '../../src/host/commands.ts';
import { Metrics, type MetricsOptions } from '../../src/telemetry/metrics.ts';
import { NEVER } from '../helpers/rig.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

type ObjectOf = { readonly kind: string; readonly metadata: { readonly name: string } } & Readonly<
  Record<string, unknown>
>;
/** Each checks itself against the schema. */
const KINDS: Readonly<Record<string, new (data: never) => { validate(): void }>> = {
  DaemonSet,
  ClusterRole,
  ClusterRoleBinding,
  ConfigMap,
  ServiceAccount,
};

async function kustomize(overlay: string): Promise<ObjectOf[] | undefined> {
  const args = ['kustomize', here(`../../deploy/overlays/${overlay}`)];
  const result = await realCommands.run({ file: 'kubectl', args }, NEVER).catch(() => undefined);
  if (result === undefined) return undefined;
  assert.equal(result.exitCode, 0, result.stderr);
  return loadAll(result.stdout) as ObjectOf[];
}

interface Container {
  readonly args: readonly string[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

interface PodSpec {
  readonly hostNetwork: boolean;
  readonly priorityClassName: string;
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[];
}

function podOf(objects: readonly ObjectOf[]): PodSpec {
  const set = objects.find(({ kind }) => kind === 'DaemonSet') ?? assert.fail();
  return (set.spec as { template: { spec: PodSpec } }).template.spec;
}

for (const [overlay, mode, capabilities] of [
  ['iptables', 'iptables', ['NET_ADMIN']],
  ['ipvs', 'ipvs', ['NET_ADMIN', 'NET_RAW']],
  ['kubeadm', undefined, ['NET_ADMIN', 'NET_RAW']],
] as const) {
  describe(`deploy/overlays/${overlay}`, async () => {
    const objects = await kustomize(overlay);
    const options = objects === undefined ? { skip: 'kubectl, which has kustomize, is not on this machine' } : {};
    const all = objects ?? [];

    it('is right by the published schemas', options, () => {
      assert.ok(all.length >= 4);
      for (const { kind, ...object } of all) {
        const Kind = KINDS[kind] ?? assert.fail(`no schema for ${kind}`);
        new Kind({ kind, ...object } as never).validate();
        assert.throws(
          () => new Kind({ ...object, kind, metadata: 5 } as never).validate(),
          `the schema of ${kind} refuses nothing`,
        );
      }
    });

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
      const { flags, lenient, idle } = flagsFromFile(data['config.conf'] ?? '', {});
      assert.deepEqual([configFromFlags(flags).mode, lenient, idle], [mode, [], []]);
      assert.ok('kubeconfig.conf' in data);
    });

    it('lets the agent do what it does with the API, and nothing else', options, () => {
      const role = all.find(({ kind }) => kind === 'ClusterRole') ?? assert.fail();
      const rules = role.rules as readonly { resources: string[]; verbs: string[] }[];
      assert.deepEqual(
        rules.flatMap(({ resources, verbs }) => resources.map((resource) => `${resource}: ${verbs.join(' ')}`)),
        ['services: list watch', 'nodes: list watch', 'endpointslices: list watch', 'events: create'],
      );
    });
  });
}

describe('deploy/grafana', () => {
  it('asks for metrics that there are', async () => {
    const dashboard = readFileSync(here('../../deploy/grafana/slicewire.json'), 'utf8');
    const read = new Proxy({}, { get: () => () => [{ labels: {}, value: 1 }] }) as MetricsOptions['read'];
    const text = await new Metrics({ mode: 'iptables', families: ['IPv4'], version: '1', read }).text();
    const asked = new Set(dashboard.match(/\b(kubeproxy|slicewire|process)_[a-z_]+/g));
    assert.ok(asked.size > 10);
    for (const name of asked) {
      const base = name.replace(/_(bucket|count|sum)$/, '');
      assert.ok(text.includes(`# TYPE ${base} `), `${name} is no metric`);
    }
    const { panels } = JSON.parse(dashboard) as { panels: { title: string; targets?: unknown[] }[] };
    assert.ok(panels.every(({ title, targets }) => title !== '' && (targets?.length ?? 0) > 0));
  });
});
