/** The values of deploy/chart: each has its effect, and a bad one is refused. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Command } from 'commander';
import { parse } from 'yaml';
import { goArguments, withFlags } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';
import { controllerConfig } from '../../src/config/controller-config.ts';
import {
  agentOf,
  BASE,
  bothOf,
  configOf,
  find,
  HELM,
  options,
  refused,
  rendered,
  set,
  settingsOf,
  workload,
} from '../helpers/deploy/chart.ts';
import { helm, isRightBySchemas } from '../helpers/deploy/deployed.ts';

describe('the values of deploy/chart', () => {
  it('apiServer, mode, clusterCIDR and config reach the files that the agent reads', options, async () => {
    const all = await rendered([
      ...['apiServer=https://[2001:db8::1]:6443', 'mode=nftables', 'clusterCIDR=10.244.0.0/16\\,fd00:10::/56'],
      ...['config.conntrack.min=1048576', 'config.nftables.syncPeriod=1m0s', 'config.nodePortAddresses={primary}'],
      'config.clientConnection.contentType=application/json',
    ]);
    const { mode, conntrack, syncPeriod, detectLocal, source, nodePortAddresses } = configOf(all);
    assert.deepEqual([mode, conntrack.min, syncPeriod], ['nftables', 1_048_576, 60_000]);
    assert.deepEqual([detectLocal.kind, nodePortAddresses.primary], ['cluster-cidr', true]);
    assert.deepEqual(
      [source.kind, source.kind === 'kubernetes' && [source.kubeconfig, source.contentType]],
      ['kubernetes', ['/var/lib/slicewire/kubeconfig.conf', 'application/json']],
    );
    const { 'kubeconfig.conf': kubeconfig = '' } = find(all, 'ConfigMap').data as Record<string, string>;
    assert.equal(parse(kubeconfig).clusters[0].cluster.server, 'https://[2001:db8::1]:6443');
  });

  it('every field of a KubeProxyConfiguration can be set', options, async () => {
    const texts = ['config.logging.format=json', 'config.bindAddress=0.0.0.0', 'config.oomScoreAdj=-998'];
    const { log, oomScoreAdj } = configOf(await rendered([...BASE, ...texts]));
    assert.deepEqual([log.format, oomScoreAdj], ['json', -998]);
  });

  it('image has a repository, a tag or a digest, a policy and secrets', options, async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const tagged = ['image.repository=r.example:5000/net/slicewire', 'image.tag=1.2.3', 'image.pullPolicy=Always'];
    const all = await rendered([...BASE, ...tagged, 'image.pullSecrets={one,007}', 'controller.enabled=true']);
    const controller = workload(all, 'Deployment').template.spec;
    for (const { image, imagePullPolicy } of [...bothOf(all), ...controller.containers]) {
      assert.deepEqual([image, imagePullPolicy], ['r.example:5000/net/slicewire:1.2.3', 'Always']);
    }
    const secrets = [{ name: 'one' }, { name: '007' }];
    assert.deepEqual([agentOf(all).spec.imagePullSecrets, controller.imagePullSecrets], [secrets, secrets]);
    for (const { image } of bothOf(await rendered([...BASE, ...tagged, `image.digest=${digest}`]))) {
      assert.equal(image, `r.example:5000/net/slicewire@${digest}`);
    }
  });

  it('existingConfigMap takes the place of the chart’s own, for the controller too', options, async () => {
    const values = [
      'existingConfigMap.name=proxy',
      'existingConfigMap.mountPath=/etc/proxy',
      'controller.enabled=true',
    ];
    const all = await rendered(values);
    assert.ok(all.every(({ kind }) => kind !== 'ConfigMap'));
    for (const { args, volumeMounts } of bothOf(all)) {
      assert.ok(args.includes('--config=/etc/proxy/config.conf'));
      assert.equal(volumeMounts.find(({ name }) => name === 'config')?.mountPath, '/etc/proxy');
    }
    const maps = [agentOf(all), workload(all, 'Deployment').template].map(({ spec }) =>
      JSON.stringify(spec.volumes[0]),
    );
    for (const map of maps) assert.match(map, /"configMap":\{[^}]*"name":"proxy"/);
  });

  it('addNetRaw gives the agent NET_RAW in iptables mode', options, async () => {
    for (const [value, capabilities] of [
      ['false', ['NET_ADMIN']],
      ['true', ['NET_ADMIN', 'NET_RAW']],
    ] as const) {
      const [agent] = agentOf(await rendered([...BASE, `addNetRaw=${value}`])).spec.containers;
      assert.deepEqual(agent?.securityContext.capabilities.add, capabilities);
    }
  });

  it('extraArgs, extraVolumes and extraVolumeMounts reach the agent', options, async () => {
    const all = await rendered([
      ...[...BASE, 'extraArgs={--v=4,--record-dir=/var/log/slicewire}', 'extraVolumes[0].name=record-files'],
      ...['extraVolumes[0].hostPath.path=/var/log/slicewire', 'extraVolumeMounts[0].name=record-files'],
      'extraVolumeMounts[0].mountPath=/var/log/slicewire',
    ]);
    for (const { args } of bothOf(all)) assert.deepEqual(args.slice(-2), ['--v=4', '--record-dir=/var/log/slicewire']);
    const { containers, volumes } = agentOf(all).spec;
    assert.deepEqual(volumes.at(-1), { name: 'record-files', hostPath: { path: '/var/log/slicewire' } });
    assert.deepEqual(containers[0]?.volumeMounts.at(-1), { name: 'record-files', mountPath: '/var/log/slicewire' });
    isRightBySchemas(all);
  });

  it('resources, placement, labels and the pace of a roll-out', options, async () => {
    const all = await rendered([
      ...[...BASE, 'resources.limits.memory=2Gi', 'initResources.requests.cpu=10m', 'nodeSelector.pool=a'],
      ...[
        'tolerations[0].key=dedicated',
        'tolerations[0].operator=Exists',
        'priorityClassName=mine',
        'maxUnavailable=3',
      ],
      ...['minReadySeconds=30', 'podLabels.team=net', 'podAnnotations.note=text'],
      'affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1',
    ]);
    const { minReadySeconds, updateStrategy, template } = workload(all, 'DaemonSet');
    assert.deepEqual(
      [minReadySeconds, updateStrategy],
      [30, { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 3 } }],
    );
    const { spec, metadata } = template;
    assert.deepEqual(spec.nodeSelector, { 'kubernetes.io/os': 'linux', pool: 'a' });
    assert.deepEqual(spec.tolerations, [{ key: 'dedicated', operator: 'Exists' }]);
    assert.deepEqual([spec.priorityClassName, metadata.labels], ['mine', { 'k8s-app': 'slicewire', team: 'net' }]);
    assert.equal(metadata.annotations?.note, 'text');
    const [settings, agent] = bothOf(all).map(({ resources }) => resources);
    assert.deepEqual(settings, { requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '256Mi' } });
    assert.deepEqual(agent, { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '2Gi' } });
    assert.match(JSON.stringify(spec.affinity), /"weight":1/);
  });

  it(
    'controller has replicas, flags and resources, and its lease in the namespace of the release',
    options,
    async () => {
      const values = ['controller.enabled=true', 'controller.replicas=3', 'controller.extraArgs={--v=2}'];
      const all = await rendered([...BASE, ...values, 'controller.resources.limits.memory=1Gi'], '--namespace', 'net');
      const { replicas, template } = workload(all, 'Deployment');
      const [controller = assert.fail()] = template.spec.containers;
      assert.equal(replicas, 3);
      assert.deepEqual(controller.resources, { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '1Gi' } });
      const entry = COMMANDS.find(({ name }) => name === controller.args[0]) ?? assert.fail();
      const parsed = withFlags(new Command(), entry).exitOverride();
      parsed.parse(goArguments(controller.args.slice(1)), { from: 'user' });
      const { leader, log } = controllerConfig(parsed.opts());
      assert.deepEqual([leader?.namespace, log.verbosity], ['net', 2]);
      assert.equal(find(all, 'Role').metadata.namespace, 'net');
      for (const { kind, metadata } of all) {
        if (!kind.startsWith('Cluster')) assert.equal(metadata.namespace, 'net', `${kind} ${metadata.name}`);
      }
      for (const { kind, subjects = [] } of all) {
        for (const { namespace } of subjects as { namespace: string }[]) assert.equal(namespace, 'net', kind);
      }
    },
  );

  it(
    'fleet has replicas, an address, flags and resources, and its agents in the namespace of the release',
    options,
    async () => {
      const values = [
        'fleet.enabled=true',
        'fleet.replicas=3',
        'fleet.clusterIP=fd00:10:96::42',
        'fleet.extraArgs={--v=2}',
      ];
      const more = ['fleet.resources.limits.memory=1Gi', 'image.pullSecrets={one}'];
      const all = await rendered([...BASE, ...values, ...more], '--namespace', 'net');
      const { replicas, template } = workload(all, 'Deployment');
      const [fleet = assert.fail()] = template.spec.containers;
      assert.deepEqual([replicas, template.spec.imagePullSecrets], [3, [{ name: 'one' }]]);
      assert.deepEqual(fleet.resources, { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '1Gi' } });
      assert.deepEqual(fleet.args, [
        'fleet',
        '--bind-address=0.0.0.0',
        '--agents-service=net/slicewire-agents',
        '--v=2',
      ]);
      const services = all.filter(({ kind }) => kind === 'Service');
      assert.deepEqual(
        services.map(({ metadata, spec }) => [metadata.name, (spec as { clusterIP?: string }).clusterIP]),
        [
          ['slicewire-fleet', undefined],
          ['slicewire-fleet-hooks', 'fd00:10:96::42'],
          ['slicewire-agents', 'None'],
        ],
      );
      for (const { kind, metadata } of all) {
        if (!kind.startsWith('Cluster')) assert.equal(metadata.namespace, 'net', `${kind} ${metadata.name}`);
      }
      for (const { kind, subjects = [] } of all) {
        for (const subject of subjects as { kind: string; namespace?: string }[])
          assert.equal(subject.namespace, subject.kind === 'Group' ? undefined : 'net', kind);
      }
    },
  );

  it('monitoring has labels, the place of the runbooks, and a dashboard as it is', options, async () => {
    const all = await rendered([
      ...[...BASE, 'monitoring.enabled=true', 'monitoring.labels.release=prometheus', 'controller.enabled=true'],
      ...['monitoring.runbooks=https://wiki.example/net', 'monitoring.dashboard.enabled=true'],
      'monitoring.dashboard.labels.folder=network',
    ]);
    const asked = all.filter(({ kind }) => ['PodMonitor', 'PrometheusRule'].includes(kind));
    assert.deepEqual(
      asked.map(({ metadata }) => [metadata.labels?.release, metadata.namespace]),
      asked.map(() => ['prometheus', 'kube-system']),
    );
    assert.equal(asked.length, 4);
    const links = [...JSON.stringify(asked).matchAll(/"runbook_url":"([^"#]*)/g)].map(([, link]) => link);
    assert.deepEqual([...new Set(links)], ['https://wiki.example/net/troubleshoot.md']);
    const { metadata, data } = all.find((one) => one.metadata.name === 'slicewire-dashboard') ?? assert.fail();
    assert.deepEqual([metadata.labels?.grafana_dashboard, metadata.labels?.folder], ['1', 'network']);
    const { 'slicewire.json': dashboard } = data as Readonly<Record<string, string>>;
    const own = readFileSync(new URL('../../deploy/grafana/slicewire.json', import.meta.url), 'utf8');
    assert.deepEqual(JSON.parse(dashboard ?? ''), JSON.parse(own));
  });

  it('numbers of a file stay whole numbers, though Helm reads them as floating point', options, async (context) => {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-chart-'));
    context.after(() => rm(folder, { recursive: true }));
    const values = { minReadySeconds: 1_000_000, maxUnavailable: 1_000_000, config: { conntrack: { min: 1_048_576 } } };
    await writeFile(join(folder, 'values.json'), JSON.stringify(values));
    const args = [...set(BASE), '--values', join(folder, 'values.json')];
    const { stdout } = await helm(HELM ?? assert.fail(), 'template', args);
    // 1e+06 is the same number in YAML, and no integer for an API server.
    for (const line of ['minReadySeconds: 1000000', 'maxUnavailable: 1000000', 'min: 1048576']) {
      assert.match(stdout, new RegExp(`^ +${line}$`, 'm'));
    }
  });

  it('restart the pods only where the init container has something to do', options, async () => {
    const hash = async (...values: readonly string[]) => settingsOf(await rendered([...BASE, ...values]));
    const before = (await hash()) ?? assert.fail();
    for (const value of ['clusterCIDR=10.0.0.0/8', 'config.iptables.syncPeriod=1m', 'config.ipvs.scheduler=lc']) {
      assert.equal(await hash(value), before, value);
    }
    const hashes = [before];
    for (const value of ['mode=ipvs', 'config.ipvs.strictARP=true', 'config.iptables.localhostNodePorts=true']) {
      hashes.push((await hash(value)) ?? '');
    }
    hashes.push((await hash('config.conntrack.min=1')) ?? '');
    assert.equal(new Set(hashes).size, 5);
  });
});

describe('a bad value of deploy/chart is refused by its name', () => {
  for (const [value, message] of [
    ['mode=userspace', /- mode: mode must be one of the following: "iptables", "ipvs", "nftables"/],
    ['mod=ipvs', /\(root\): Additional property mod is not allowed/],
    ['apiServer=http://10.0.0.1', /- apiServer: Does not match pattern/],
    ['apiServer=10.0.0.1:6443', /- apiServer: Does not match pattern/],
    ['apiServer=https://a b', /- apiServer: Does not match pattern/],
    ['clusterCIDR=10.244.0.0', /- clusterCIDR: Does not match pattern/],
    ['config.mode=ipvs', /- config: Additional property mode is not allowed/],
    [
      'config.clientConnection.kubeconfig=/a',
      /- config\.clientConnection: Additional property kubeconfig is not allowed/,
    ],
    ['config.ipvs.strictArp=true', /- config\.ipvs: Additional property strictArp is not allowed/],
    ['config.conntrack.min=many', /- config\.conntrack\.min: Invalid type\. Expected: integer, given: string/],
    ['config.iptables.syncPeriod=30', /- config\.iptables\.syncPeriod: Invalid type\. Expected: string/],
    ['config.iptables.syncPeriod=1 hour', /- config\.iptables\.syncPeriod: Does not match pattern/],
    ['config.nodePortAddresses=primary', /- config\.nodePortAddresses: Invalid type\. Expected: array, given: string/],
    ['existingConfigMap.name=Kube_Proxy', /- existingConfigMap\.name: Does not match pattern/],
    ['existingConfigMap.mountPath=var/lib', /- existingConfigMap\.mountPath: Does not match pattern/],
    ['image.digest=sha256:12', /- image\.digest: Does not match pattern/],
    ['image.repository=a b', /- image\.repository: Does not match pattern/],
    ['image.pullPolicy=always', /- image\.pullPolicy: image\.pullPolicy must be one of the following/],
    ['addNetRaw=maybe', /- addNetRaw: Invalid type\. Expected: boolean, given: string/],
    ['extraArgs={v}', /- extraArgs\.0: Does not match pattern/],
    ['maxUnavailable=0', /- maxUnavailable: Must be greater than or equal to 1/],
    ['maxUnavailable=0%', /- maxUnavailable: /],
    ['minReadySeconds=5', /- minReadySeconds: Must be greater than or equal to 10/],
    ['controller.replicas=0', /- controller\.replicas: Must be greater than or equal to 1/],
    ['controller.enable=true', /- controller: Additional property enable is not allowed/],
    ['fleet.replicas=0', /- fleet\.replicas: Must be greater than or equal to 1/],
    ['fleet.clusterIP=None', /- fleet\.clusterIP: Does not match pattern/],
    ['fleet.enable=true', /- fleet: Additional property enable is not allowed/],
    ['podLabels.k8s-app=other', /- podLabels: .*k8s-app/],
    ['monitoring.runbooks=docs/troubleshoot.md', /- monitoring\.runbooks: Does not match pattern/],
    ['monitoring.enable=true', /- monitoring: Additional property enable is not allowed/],
    ['resources.limit.memory=1Gi', /- resources: Additional property limit is not allowed/],
  ] as const) {
    it(value, options, async () =>
      assert.match(await refused(...BASE.filter((base) => base.split('=')[0] !== value.split('=')[0]), value), message),
    );
  }

  it('values that would have no effect beside a ConfigMap of kube-proxy', options, async () => {
    const said = await refused(
      'existingConfigMap.name=kube-proxy',
      ...BASE,
      'mode=ipvs',
      'clusterCIDR=10.0.0.0/8',
      'config.oomScoreAdj=0',
    );
    assert.match(
      said,
      /existingConfigMap\.name is "kube-proxy", so these values would have no effect: apiServer, mode, clusterCIDR, config/,
    );
  });
});
