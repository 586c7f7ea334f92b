/** Values of deploy/chart that show in several places: each place follows the one value, or a second value for it is refused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Command } from 'commander';
import { parse } from 'yaml';
import { goArguments, withFlags } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';
import { controllerConfig } from '../../src/config/controller-config.ts';
import type { Flags } from '../../src/config/flags.ts';
import { fleetConfig } from '../../src/config/fleet-config.ts';
import type { ListenAddress } from '../../src/config/listen.ts';
import { agentOf, BASE, configOf, find, options, refused, rendered } from '../helpers/deploy/chart.ts';
import { isRightBySchemas, type ObjectOf } from '../helpers/deploy/deployed.ts';

interface Probed {
  readonly args: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number; readonly hostPort?: number }[];
  readonly [probe: string]: unknown;
}

const named = (all: readonly ObjectOf[], kind: string, name: string) =>
  all.find((one) => one.kind === kind && one.metadata.name === name) ?? assert.fail(`no ${kind} ${name}`);

const containerOf = ({ spec }: ObjectOf): Probed =>
  (spec as { template: { spec: { containers: readonly Probed[] } } }).template.spec.containers[0] ?? assert.fail();

const portOf = ({ ports }: Probed, name: string) => ports.find((port) => port.name === name);

/** Host and port of each probe, by the names of the ports. */
function probesOf(container: Probed) {
  return ['startupProbe', 'livenessProbe', 'readinessProbe'].flatMap((name) => {
    const probe = container[name] as { httpGet: { host?: string; port: string } } | undefined;
    if (probe === undefined) return [];
    const port = container.ports.find((one) => one.name === probe.httpGet.port)?.containerPort;
    return [{ host: probe.httpGet.host, port }];
  });
}

/** As the program reads its arguments. */
function flagsOf({ args }: Probed): Flags {
  const entry = COMMANDS.find(({ name }) => name === args[0]) ?? assert.fail();
  const words = goArguments(args.slice(1)).map((word) => word.replace('$(HOST_IP)', '192.0.2.7'));
  return withFlags(new Command(), entry).exitOverride().parse(words, { from: 'user' }).opts();
}

const isAny = ({ address }: ListenAddress) => address === '0.0.0.0' || address === '::';

describe('values of deploy/chart that show in several places', options, () => {
  for (const [text, port] of [
    ['0.0.0.0:20256', 20_256],
    ['[::]:20256', 20_256],
    ['[fd00::7]:20256', 20_256],
    ['192.0.2.7:20256', 20_256],
    ['127.0.0.1:20256', 20_256],
    ['fd00::7', 10_256],
    ['192.0.2.7', 10_256],
    ['', 10_256],
  ] as const)
    it(`config.healthzBindAddress=${text}: port, hostPort, probes and the Service of the agents`, async () => {
      const isReachable = !text.startsWith('127.');
      const values = [`config.healthzBindAddress=${text}`, `fleet.enabled=${isReachable}`];
      const all = await rendered([...BASE, ...values]);
      const { healthz } = configOf(all).serve;
      const agent = containerOf(find(all, 'DaemonSet'));
      assert.equal(healthz?.port, port);
      const { containerPort, hostPort } = portOf(agent, 'healthz') ?? assert.fail();
      assert.deepEqual([containerPort, hostPort], [port, port]);
      const host = healthz === undefined || isAny(healthz) ? undefined : healthz.address;
      assert.deepEqual(probesOf(agent), Array(3).fill({ host, port }));
      isRightBySchemas(all);
      if (!isReachable) return;
      const service = named(all, 'Service', 'slicewire-agents').spec as { ports: readonly object[] };
      assert.deepEqual(service.ports, [{ name: 'healthz', port, targetPort: 'healthz', protocol: 'TCP' }]);
    });

  it('existingConfigMap.healthzPort: the same places, where the chart cannot read the configuration', async () => {
    const all = await rendered([
      'existingConfigMap.name=kube-proxy',
      'existingConfigMap.healthzPort=20256',
      'fleet.enabled=true',
    ]);
    const agent = containerOf(find(all, 'DaemonSet'));
    assert.deepEqual(portOf(agent, 'healthz'), {
      name: 'healthz',
      containerPort: 20_256,
      hostPort: 20_256,
      protocol: 'TCP',
    });
    assert.deepEqual(probesOf(agent), Array(3).fill({ host: undefined, port: 20_256 }));
  });

  for (const [text, port] of [
    ['127.0.0.1:20261', 20_261],
    ['[::1]:20261', 20_261],
    ['[::1]:10261', 10_261],
    ['0.0.0.0:20261', 20_261],
  ] as const)
    it(`controller.bindAddress=${text}: flags, port, hostPort, probes, and where Prometheus asks`, async () => {
      const values = ['controller.enabled=true', `controller.bindAddress=${text}`, 'monitoring.enabled=true'];
      const all = await rendered([...BASE, ...values]);
      const controller = containerOf(named(all, 'Deployment', 'slicewire-controller'));
      const { listen, scrape } = controllerConfig(flagsOf(controller));
      assert.deepEqual([listen.port, isAny(listen) ? port : scrape?.port], [port, port]);
      const { containerPort, hostPort } = portOf(controller, 'healthz') ?? assert.fail();
      assert.deepEqual([containerPort, hostPort], [port, port]);
      const host = isAny(listen) ? undefined : listen.address;
      assert.deepEqual(probesOf(controller), Array(2).fill({ host, port }));
      isRightBySchemas(all.filter(({ kind }) => !['PodMonitor', 'PrometheusRule'].includes(kind)));
    });

  it('the port for Prometheus is the one that the agent opens, wherever it answers commands', async () => {
    for (const metrics of ['127.0.0.1:10249', '0.0.0.0:10249', '127.0.0.1:20249']) {
      const all = await rendered([...BASE, 'monitoring.enabled=true', `config.metricsBindAddress=${metrics}`]);
      const agent = containerOf(find(all, 'DaemonSet'));
      const { 'config.conf': text = '' } = find(all, 'ConfigMap').data as Record<string, string>;
      const metricsAddress: string = parse(text).metricsBindAddress;
      assert.ok(agent.args.includes('--scrape-bind-address=$(HOST_IP)'));
      // The default port of that flag, unless /metrics is there anyway.
      assert.equal(portOf(agent, 'metrics')?.hostPort, 10_249, metricsAddress);
    }
  });

  it('the fleet listens at the port of its container and of its Services', async () => {
    const all = await rendered([...BASE, 'fleet.enabled=true', 'monitoring.enabled=true']);
    const fleet = containerOf(named(all, 'Deployment', 'slicewire-fleet'));
    const { port } = fleetConfig(flagsOf(fleet)).listen;
    assert.deepEqual(
      [portOf(fleet, 'fleet')?.containerPort, probesOf(fleet)],
      [port, Array(2).fill({ host: undefined, port })],
    );
    for (const name of ['slicewire-fleet', 'slicewire-fleet-hooks']) {
      const { ports } = named(all, 'Service', name).spec as { ports: readonly { port: number; targetPort: string }[] };
      assert.deepEqual(
        ports.map((one) => [one.port, one.targetPort]),
        [[port, 'fleet']],
      );
    }
  });

  it('PodMonitors ask ports that the pods have, in the namespace of the release', async () => {
    const all = await rendered(
      [...BASE, 'monitoring.enabled=true', 'controller.enabled=true', 'fleet.enabled=true'],
      '--namespace',
      'net',
    );
    const pods = all.filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment');
    const monitors = all.filter(({ kind }) => kind === 'PodMonitor');
    assert.equal(monitors.length, 3);
    for (const { metadata, spec } of monitors) {
      const { selector, podMetricsEndpoints } = spec as {
        selector: { matchLabels: Record<string, string> };
        podMetricsEndpoints: readonly { port: string }[];
      };
      assert.equal(metadata.namespace, 'net');
      const own = pods.filter((one) => {
        const { labels } = (one.spec as { template: { metadata: { labels: Record<string, string> } } }).template
          .metadata;
        return Object.entries(selector.matchLabels).every(([name, value]) => labels[name] === value);
      });
      assert.equal(own.length, 1, metadata.name);
      for (const { port } of podMetricsEndpoints)
        assert.ok(
          own.every((one) => portOf(containerOf(one), port) !== undefined),
          port,
        );
    }
  });

  it('every pod runs as an account that is there, and has the rights of that account', async () => {
    const all = await rendered([...BASE, 'controller.enabled=true', 'fleet.enabled=true'], '--namespace', 'net');
    const accounts = all.filter(({ kind }) => kind === 'ServiceAccount').map(({ metadata }) => metadata.name);
    const bound = all
      .flatMap(({ subjects = [] }) => subjects as { kind: string; name: string }[])
      .filter(({ kind }) => kind === 'ServiceAccount');
    const workloads = all.filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment');
    assert.equal(workloads.length, 3, 'agent, controller and fleet');
    for (const { spec, metadata } of workloads) {
      const { serviceAccountName } = (spec as { template: { spec: { serviceAccountName: string } } }).template.spec;
      assert.ok(accounts.includes(serviceAccountName), `${metadata.name}: ${serviceAccountName}`);
      assert.ok(
        bound.some(({ name }) => name === serviceAccountName),
        serviceAccountName,
      );
    }
  });

  it('the legacy variant of iptables, which a flag chooses, has NET_RAW', async () => {
    for (const [args, capabilities] of [
      ['--iptables-backend=legacy', ['NET_ADMIN', 'NET_RAW']],
      ['--iptables-backend=nft', ['NET_ADMIN']],
    ] as const) {
      const [agent] = agentOf(await rendered([...BASE, `extraArgs={${args}}`])).spec.containers;
      assert.deepEqual(agent?.securityContext.capabilities.add, capabilities, args);
    }
  });

  it('the agent has SYS_ADMIN only where that is asked for', async () => {
    const [agent] = agentOf(await rendered([...BASE, 'addSysAdmin=true'])).spec.containers;
    assert.deepEqual(agent?.securityContext.capabilities.add, ['NET_ADMIN', 'SYS_ADMIN']);
  });

  for (const [values, message] of [
    [
      ['extraArgs={--scrape-bind-address=192.0.2.7:9}'],
      /extraArgs has --scrape-bind-address, which the chart sets: with monitoring\.enabled/,
    ],
    [
      ['extraArgs={--hostname-override=n}'],
      /extraArgs has --hostname-override, which the chart sets: to the name of the Node/,
    ],
    [['extraArgs={--config=/a}'], /extraArgs has --config, which the chart sets: from its ConfigMap/],
    [['extraArgs={--master=https://a}'], /extraArgs has --master, which the chart sets: from apiServer/],
    [['config.hostnameOverride=n'], /Additional property hostnameOverride is not allowed/],
    [
      ['controller.extraArgs={--bind-address=127.0.0.1:9}'],
      /controller\.extraArgs has --bind-address, which the chart sets: from controller\.bindAddress/,
    ],
    [['controller.extraArgs={--scrape-bind-address=192.0.2.7}'], /controller\.extraArgs has --scrape-bind-address/],
    [['controller.extraArgs={--kubeconfig=/a}'], /controller\.extraArgs has --kubeconfig/],
    [
      ['controller.extraArgs={--leader-elect-resource-namespace=a}'],
      /to the namespace of the release, where the controller has its rights/,
    ],
    [['controller.extraArgs={--leader-elect-resource-name=a}'], /to the name that the controller has its rights for/],
    [
      ['fleet.extraArgs={--bind-address=0.0.0.0:9}'],
      /fleet\.extraArgs has --bind-address, which the chart sets: with the port of its Services/,
    ],
    [['fleet.extraArgs={--agents-service=a/b}'], /fleet\.extraArgs has --agents-service/],
    [['fleet.extraArgs={--token-file=/a}'], /fleet\.extraArgs has --token-file/],
    [
      ['config.healthzBindAddress=node-1'],
      /config\.healthzBindAddress is "node-1": it must be an IP address, or one with a port from 1 to 65535/,
    ],
    [['config.healthzBindAddress=0.0.0.0:70000'], /config\.healthzBindAddress is "0\.0\.0\.0:70000": it must be/],
    [['controller.bindAddress=0.0.0.0:0'], /controller\.bindAddress is "0\.0\.0\.0:0": it must be/],
    [
      ['config.healthzBindAddress=0.0.0.0:10249', 'monitoring.enabled=true'],
      /the health port of the agents is 10249, which monitoring\.enabled opens/,
    ],
    [
      ['config.healthzBindAddress=127.0.0.1:10256', 'fleet.enabled=true'],
      /where fleet\.enabled needs an address that its pods can reach/,
    ],
    [
      ['existingConfigMap.healthzPort=20256'],
      /existingConfigMap\.healthzPort has no effect without existingConfigMap\.name/,
    ],
  ] as const)
    it(`refuses ${values.join(' ')}`, async () => assert.match(await refused(...BASE, ...values), message));
});
