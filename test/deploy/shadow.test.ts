/** deploy/shadow and the chart with shadow.enabled: right by the schemas, and without any right to write. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Command } from 'commander';
import { goArguments, withFlags } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';
import { configsFromFlags } from '../../src/config/from-flags.ts';
import { shadowFlags } from '../../src/shadow/shadow-flags.ts';
import { options, refused, rendered } from '../helpers/deploy/chart.ts';
import { isRightBySchemas, kustomize, NO_KUBECTL, type ObjectOf } from '../helpers/deploy/deployed.ts';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number; readonly host?: string };
}

interface PodSpec {
  readonly hostNetwork: boolean;
  readonly affinity: {
    readonly nodeAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: { readonly nodeSelectorTerms: readonly object[] };
    };
  };
  readonly initContainers?: readonly object[];
  readonly containers: readonly {
    readonly args: readonly string[];
    readonly startupProbe: Probe;
    readonly livenessProbe: Probe;
    readonly readinessProbe: Probe;
    readonly securityContext: { readonly capabilities: object; readonly readOnlyRootFilesystem: boolean };
    readonly volumeMounts: readonly { readonly name: string; readonly readOnly?: boolean }[];
  }[];
}

interface Rule {
  readonly verbs: readonly string[];
  readonly resources: readonly string[];
}

function isShadow(all: readonly ObjectOf[]): void {
  isRightBySchemas(all);
  const sets = all.filter(({ kind }) => kind === 'DaemonSet');
  assert.deepEqual(
    sets.map(({ metadata }) => metadata.name),
    ['slicewire-shadow'],
    'no agent runs beside kube-proxy',
  );
  // An agent may be in the cluster, too: on other nodes, with objects of its own.
  assert.deepEqual([...new Set(all.map(({ metadata }) => metadata.name))], ['slicewire-shadow']);
  const { template } = (sets[0] ?? assert.fail()).spec as { template: { spec: PodSpec } };
  const { hostNetwork, initContainers, containers, affinity } = template.spec;
  const avoided = { key: 'service-proxy', operator: 'NotIn', values: ['slicewire'] };
  const terms = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms;
  assert.deepEqual(terms, [{ matchExpressions: [avoided] }]);
  assert.deepEqual([hostNetwork, initContainers, containers.length], [true, undefined, 1]);
  const [{ args, securityContext, volumeMounts, ...probes } = assert.fail()] = containers;
  const [command, ...given] = args;
  const entry = COMMANDS.find(({ name }) => name === command) ?? assert.fail(`${command} is no command`);
  assert.equal(entry.name, 'shadow');
  const parsed = withFlags(new Command(), entry).exitOverride().parse(goArguments(given), { from: 'user' });
  const [{ serve }] = configsFromFlags({ manifests: '/nowhere', ...shadowFlags(parsed.opts()) }, {});
  for (const [probe, path] of [
    [probes.startupProbe, '/livez'],
    [probes.livenessProbe, '/livez'],
    [probes.readinessProbe, '/readyz'],
  ] as const)
    assert.deepEqual(probe.httpGet, { host: serve.metrics.address, path, port: serve.metrics.port });
  assert.deepEqual(securityContext.capabilities, { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] });
  assert.equal(securityContext.readOnlyRootFilesystem, true);
  assert.deepEqual(
    volumeMounts.filter(({ readOnly }) => readOnly !== true).map(({ name }) => name),
    ['lock'],
  );
  const roles = all.filter(({ kind }) => kind === 'ClusterRole');
  const verbs = roles.flatMap(({ rules }) => (rules as readonly Rule[]).flatMap((rule) => rule.verbs));
  assert.deepEqual([roles.length, [...new Set(verbs)].sort()], [1, ['list', 'watch']], 'it reads alone');
}

describe('deploy/shadow', () => {
  it('watches, and has no right to write', async (context) => {
    const all = await kustomize('shadow');
    if (all === undefined) return context.skip(NO_KUBECTL.skip);
    isShadow(all);
  });

  it('is what the chart makes with shadow.enabled', options, async () => {
    isShadow(await rendered(['shadow.enabled=true', 'existingConfigMap.name=kube-proxy']));
    isShadow(await rendered(['shadow.enabled=true', 'apiServer=https://10.0.0.1:6443']));
  });
});

describe('deploy/chart with shadow.enabled', () => {
  const base = ['shadow.enabled=true', 'existingConfigMap.name=kube-proxy'];
  for (const [value, said] of [
    ['fleet.enabled=true', /fleet\.enabled has no use with shadow\.enabled/],
    ['controller.enabled=true', /controller\.enabled does not go with shadow\.enabled/],
    ['monitoring.dashboard.enabled=true', /monitoring\.dashboard\.enabled does not go with shadow\.enabled/],
    ['monitoring.enabled=true', /monitoring\.enabled has no use with shadow\.enabled/],
    ['shadow.extraArgs={--metrics-bind-address=0.0.0.0:1}', /shadow\.extraArgs has --metrics-bind-address/],
  ] as const)
    it(`refuses ${value}`, options, async () => assert.match(await refused(...base, value), said));
});

describe('systemd/slicewire-shadow.service', () => {
  const unit = readFileSync(new URL('../../systemd/slicewire-shadow.service', import.meta.url), 'utf8');
  const agent = readFileSync(new URL('../../systemd/slicewire.service', import.meta.url), 'utf8');
  const lines = (text: string, of: RegExp) => text.split('\n').filter((line) => of.test(line));

  it('bounds the shadow as the agent, and lets it write no setting of the kernel', () => {
    const bounds = /^(Protect|Private|Restrict|Lock|Keyring|RemoveIPC|UMask|SystemCall|NoNew|UnsetEnv|CapabilityB)/;
    assert.deepEqual(
      lines(unit, bounds).filter((line) => line !== 'ProtectKernelTunables=yes'),
      lines(agent, bounds),
    );
    assert.ok(lines(unit, /^ProtectKernelTunables=yes$/).length === 1);
    assert.deepEqual(lines(unit, /^ExecStart=/), ['ExecStart=/usr/local/bin/slicewire shadow $SLICEWIRE_SHADOW_FLAGS']);
  });
});
