/** deploy/fleet: put together by kustomize, checked against the published schemas of Kubernetes, and for what it promises. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Command } from 'commander';
import { AGENT_AUDIENCE } from '../../src/agent/fleet-auth.ts';
import { withFlags } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';
import { fleetConfig } from '../../src/config/fleet-config.ts';
import { objectsOf } from '../helpers/cluster/documents/documents.ts';
import { isRightBySchemas, kustomize, NO_KUBECTL, type ObjectOf } from '../helpers/deploy/deployed.ts';
import { fileOf } from '../helpers/telemetry/monitoring.ts';

const PORT = 10_262;
const LABELS = { 'k8s-app': 'slicewire-fleet' };

interface Rule {
  readonly resources?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
  readonly verbs: readonly string[];
}

interface PortOf {
  readonly name?: string;
  readonly port?: number;
  readonly containerPort?: number;
  readonly targetPort?: string;
}

interface ServiceSpec {
  readonly clusterIP?: string;
  readonly sessionAffinity?: string;
  readonly publishNotReadyAddresses?: boolean;
  readonly selector: Readonly<Record<string, string>>;
  readonly ports: readonly PortOf[];
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string; readonly host?: string };
}

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly ports: readonly PortOf[];
  readonly securityContext: object;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly resources: { readonly limits: Readonly<Record<string, string>> };
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}

interface PodSpec {
  readonly hostNetwork?: boolean;
  readonly serviceAccountName: string;
  readonly securityContext: object;
  readonly terminationGracePeriodSeconds: number;
  readonly containers: readonly Container[];
  readonly volumes: readonly object[];
  readonly topologySpreadConstraints: readonly {
    readonly topologyKey: string;
    readonly whenUnsatisfiable: string;
    readonly labelSelector: { readonly matchLabels: object };
  }[];
}

interface Pods {
  readonly replicas: number;
  readonly selector: { readonly matchLabels: object };
  readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec };
}

const podsOf = (objects: readonly ObjectOf[]) =>
  (objects.find(({ kind }) => kind === 'Deployment' || kind === 'DaemonSet') ?? assert.fail()).spec as Pods;

describe('deploy/fleet', async () => {
  const objects = await kustomize('fleet');
  const agents = (await kustomize('base')) ?? [];
  const options = objects === undefined ? NO_KUBECTL : {};
  const all = objects ?? [];
  const one = (kind: string, name: string) =>
    all.find((object) => object.kind === kind && object.metadata.name === name) ?? assert.fail(`${kind} ${name}`);
  const serviceOf = (name: string) => one('Service', name).spec as ServiceSpec;
  const rulesOf = (name: string) =>
    (one('ClusterRole', name).rules as readonly Rule[]).map(
      ({ resources, nonResourceURLs, verbs }) => `${(resources ?? nonResourceURLs)?.join(' ')}: ${verbs.join(' ')}`,
    );

  it('is right by the published schemas', options, () => isRightBySchemas(all));

  it('has two replicas on different nodes, of which one stays when nodes are drained', options, () => {
    const { replicas, selector, template } = podsOf(all);
    assert.deepEqual([replicas, selector, template.metadata.labels], [2, { matchLabels: LABELS }, LABELS]);
    const { spec } = one('PodDisruptionBudget', 'slicewire-fleet');
    assert.deepEqual(spec, { maxUnavailable: 1, selector: { matchLabels: LABELS } });
    const [byNode = assert.fail()] = template.spec.topologySpreadConstraints;
    assert.deepEqual(
      [byNode.topologyKey, byNode.whenUnsatisfiable, byNode.labelSelector.matchLabels],
      ['kubernetes.io/hostname', 'DoNotSchedule', LABELS],
    );
    assert.deepEqual(podsOf(all).template.spec.containers[0]?.resources.limits, { memory: '768Mi' });
    // Those who wait have 10 s to end.
    assert.ok(template.spec.terminationGracePeriodSeconds > 10);
  });

  it('has no user, no capability, no file that it can write, and none of the network of its node', options, () => {
    const { securityContext, containers, hostNetwork } = podsOf(all).template.spec;
    assert.deepEqual(securityContext, {
      ...{ runAsNonRoot: true, runAsUser: 65_534, runAsGroup: 65_534 },
      seccompProfile: { type: 'RuntimeDefault' },
    });
    assert.deepEqual(containers[0]?.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    assert.deepEqual([hostNetwork ?? false, containers.length], [false, 1]);
  });

  it('runs the image of the agents, and is asked where it listens', options, () => {
    const [container = assert.fail()] = podsOf(all).template.spec.containers;
    const { args, ports, livenessProbe, readinessProbe, image } = container;
    const [command, ...flags] = args;
    const entry = COMMANDS.find(({ name }) => name === command) ?? assert.fail();
    const {
      listen,
      authentication,
      agents: asked,
    } = fleetConfig(withFlags(new Command(), entry).exitOverride().parse(flags, { from: 'user' }).opts());
    assert.deepEqual([command, listen.text, authentication], ['fleet', `0.0.0.0:${PORT}`, true]);
    assert.deepEqual(asked, { namespace: 'kube-system', name: 'slicewire-agents' });
    assert.equal(image, podsOf(agents).template.spec.containers[0]?.image);
    assert.deepEqual(
      ports.map(({ name, containerPort }) => [name, containerPort]),
      [['fleet', PORT]],
    );
    assert.deepEqual(
      [livenessProbe.httpGet, readinessProbe.httpGet],
      ['/livez', '/readyz'].map((path) => ({ path, port: 'fleet' })),
    );
    for (const name of ['slicewire-fleet', 'slicewire-fleet-hooks']) {
      const { selector, ports: served } = serviceOf(name);
      assert.deepEqual(selector, LABELS);
      assert.deepEqual(
        served.map(({ port, targetPort }) => [port, targetPort]),
        [[PORT, 'fleet']],
      );
    }
  });

  it(
    'sends all hooks of a Node to one replica, which counts them, and the next try of a command to any',
    options,
    () => {
      const affinities = ['slicewire-fleet-hooks', 'slicewire-fleet'].map((name) => serviceOf(name).sessionAffinity);
      assert.deepEqual(affinities, ['ClientIP', undefined]);
    },
  );

  it('finds each agent, ready or not, at the port where it answers', options, () => {
    const { clusterIP, publishNotReadyAddresses, selector, ports } = serviceOf('slicewire-agents');
    assert.deepEqual([clusterIP, publishNotReadyAddresses], ['None', true]);
    const { template } = podsOf(agents);
    assert.deepEqual(selector, template.metadata.labels);
    const [{ port, targetPort } = assert.fail()] = ports;
    const own = template.spec.containers[0]?.ports.find(({ name }) => name === targetPort);
    assert.deepEqual([own?.containerPort, ports.length], [port, 1]);
    assert.equal(one('Service', 'slicewire-agents').metadata.namespace, 'kube-system');
  });

  it('shows the agents a token that is made for them alone', options, () => {
    const { volumes, containers } = podsOf(all).template.spec;
    const [mount = assert.fail()] = containers[0]?.volumeMounts ?? [];
    assert.deepEqual(mount, { name: 'token', mountPath: '/var/run/secrets/slicewire', readOnly: true });
    const serviceAccountToken = { audience: AGENT_AUDIENCE, expirationSeconds: 3600, path: 'token' };
    assert.deepEqual(volumes, [{ name: 'token', projected: { sources: [{ serviceAccountToken }] } }]);
  });

  it('lets the fleet list, watch and review, and nothing else', options, () => {
    assert.deepEqual(rulesOf('slicewire-fleet'), [
      'services nodes: list watch',
      'endpointslices: list watch',
      'tokenreviews: create',
      'subjectaccessreviews: create',
    ]);
    const roles = all.filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role');
    assert.equal(roles.length, 3);
  });

  it('lets the fleet ask the agents, and every ServiceAccount ask whether a pod is drained', options, () => {
    assert.deepEqual(rulesOf('slicewire-programmed'), ['/programmed /programmed/live: get']);
    assert.deepEqual(rulesOf('slicewire-drained'), ['/drained: get']);
    const account = { kind: 'ServiceAccount', name: 'slicewire-fleet', namespace: 'kube-system' };
    const group = { kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'system:serviceaccounts' };
    for (const [name, subject] of [
      ['slicewire-fleet', account],
      ['slicewire-programmed', account],
      ['slicewire-drained', group],
    ] as const) {
      const { roleRef, subjects } = one('ClusterRoleBinding', name);
      assert.deepEqual(roleRef, { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name });
      assert.deepEqual(subjects, [subject]);
    }
    assert.equal(podsOf(all).template.spec.serviceAccountName, one('ServiceAccount', 'slicewire-fleet').metadata.name);
  });

  it('has an example of a NetworkPolicy, which means its pods and its port', options, () => {
    const [policy = assert.fail(), ...others] = objectsOf(
      fileOf('deploy/fleet/networkpolicy.example.yaml'),
    ) as ObjectOf[];
    isRightBySchemas([...all, policy]);
    const { podSelector, policyTypes, ingress } = policy.spec as {
      readonly podSelector: object;
      readonly policyTypes: readonly string[];
      readonly ingress: readonly { readonly ports: readonly { readonly port: number; readonly protocol: string }[] }[];
    };
    assert.deepEqual([others, podSelector, policyTypes], [[], { matchLabels: LABELS }, ['Ingress']]);
    for (const { ports } of ingress) assert.deepEqual(ports, [{ port: PORT, protocol: 'TCP' }]);
    assert.equal(policy.metadata.namespace, 'kube-system');
  });

  it('is scraped by Prometheus at the port that it has, with the name of its job', options, async () => {
    const monitored = (await kustomize('monitoring/overlays/fleet')) ?? [];
    const isMore = ({ kind }: ObjectOf) => kind === 'PodMonitor' || kind === 'PrometheusRule';
    assert.deepEqual(
      monitored.filter((object) => !isMore(object)),
      all,
    );
    const { metadata, spec } = monitored.find(({ kind }) => kind === 'PodMonitor') ?? assert.fail();
    const { selector, podMetricsEndpoints } = spec as {
      readonly selector: object;
      readonly podMetricsEndpoints: readonly {
        readonly port: string;
        readonly path: string;
        readonly relabelings: readonly { readonly targetLabel: string; readonly replacement?: string }[];
      }[];
    };
    assert.deepEqual([selector, metadata.namespace], [{ matchLabels: LABELS }, 'kube-system']);
    const [{ port, path, relabelings } = assert.fail()] = podMetricsEndpoints;
    assert.deepEqual([port, path, podMetricsEndpoints.length], ['fleet', '/metrics', 1]);
    const job = relabelings.find(({ targetLabel }) => targetLabel === 'job')?.replacement;
    assert.equal(job, 'slicewire-fleet');
  });
});
