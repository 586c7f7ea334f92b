/** The metrics of Services, with real connections: each is counted once, whatever is written meanwhile. For every mode. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { serviceSchema } from '../../src/inspect/wire/services.ts';
import type { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

const OTHER = '10.96.0.99';

export interface ServiceMetricsOptions {
  readonly mode: string;
  readonly flags: readonly string[];
  readonly createNode: (lab: Lab) => Promise<ManifestNode>;
  /** What is counted until a Service loses its last endpoint is lost unless it was read. */
  readonly losesLast?: boolean;
  readonly hasBytes?: boolean;
  /** Milliseconds in which something happens; an emulated machine takes minutes. */
  readonly patience?: number;
}

function otherService(name: string, address: string): object[] {
  const endpoints = [{ addresses: [podAddress(1).v4], nodeName: 'node' }];
  return [
    service({ name, spec: { type: 'ClusterIP', clusterIP: address, ports: [{ name: 'http', port: 80 }] } }),
    slice({ name: `${name}-1`, service: name, ports: [{ name: 'http', port: POD_PORT }], endpoints }),
  ];
}

export function describeServiceMetrics(options: ServiceMetricsOptions): void {
  const { mode, flags, createNode, losesLast = false, hasBytes = false, patience = 60_000 } = options;
  describe(`metrics of Services, ${mode}`, () => {
    let lab: Lab;
    let node: ManifestNode;
    let agent: AgentProcess;
    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
      for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
      node = await createNode(lab);
      await node.write('web', ...webObjects([1, 2], { hasOther: false }));
      await node.write('other', ...otherService('other', OTHER));
      agent = await started();
    });
    after(async () => {
      await node.clear();
      await lab.remove();
    });

    async function started(): Promise<AgentProcess> {
      const one = node.start(...flags, '--service-metrics');
      await one.logged(({ msg }) => msg.startsWith('synced'), { within: patience });
      return one;
    }
    const metrics = async () => (await askNode(lab, '/metrics', 10_249)).body;
    const numberOf = (text: string, series: string) => {
      const line = text.split('\n').find((each) => each.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length));
    };
    const connections = (name: string, port: string) =>
      `slicewire_service_connections_total{service="default/${name}",port="${port}",protocol="TCP",ip_family="IPv4"}`;
    /** Waits for the next look at the counters. */
    async function counted(name: string, port: string, expected: number): Promise<void> {
      const end = performance.now() + patience;
      for (;;) {
        const value = numberOf(await metrics(), connections(name, port));
        if (value === expected) return;
        assert.ok(value === undefined || value < expected, `${name} has ${value} instead of ${expected}`);
        assert.ok(performance.now() < end, `${name} has ${value} instead of ${expected}`);
        await pause(200);
      }
    }
    async function connect(times: number, from: string, address: string, port: number): Promise<void> {
      for (let i = 0; i < times; i++)
        assert.equal((await lab.ask(from, { address, port, timeout: patience / 4 })).outcome, 'reply');
    }
    async function written(name: string, objects: object[]): Promise<void> {
      const since = agent.log.length;
      await node.write(name, ...objects);
      await agent.synced(since, patience);
    }

    it('count each connection once, at cluster IP and node port', async () => {
      await connect(5, 'pod-3', WEB, 80);
      await connect(2, 'client', LAB.node.v4, NODE_PORT);
      await connect(3, 'pod-3', OTHER, 80);
      await counted('web', '80', 7);
      await counted('other', 'http', 3);
      const text = await metrics();
      assert.doesNotMatch(text, /^slicewire_connections_total\{/m);
      assert.equal(numberOf(text, 'slicewire_service_series{state="left out"}'), 0);
      const bytes = numberOf(
        text,
        connections('web', '80').replace('connections', 'bytes').replace('}', ',direction="out"}'),
      );
      assert.equal(bytes !== undefined && bytes > 0, hasBytes, String(bytes));
    });

    it('count the node at an external address of policy Local once, as anybody outside', async () => {
      const endpoints = [{ addresses: [podAddress(1).v4], nodeName: 'node' }];
      const spec = { type: 'NodePort', clusterIP: '10.96.0.97', externalTrafficPolicy: 'Local' };
      await written('local', [
        service({ name: 'local', spec: { ...spec, ports: [{ name: 'http', port: 80, nodePort: NODE_PORT + 1 }] } }),
        slice({ name: 'local-1', service: 'local', ports: [{ name: 'http', port: POD_PORT }], endpoints }),
      ]);
      await connect(4, 'node', LAB.node.v4, NODE_PORT + 1);
      await connect(3, 'client', LAB.node.v4, NODE_PORT + 1);
      await counted('local', 'http', 7);
    });

    it('are in the answer about a Service, frontend by frontend', async () => {
      const { body } = await askNode(lab, '/service?name=default/web', 10_249);
      const { frontends } = serviceSchema.parse(JSON.parse(body));
      const counts = frontends.map(({ kind, connections: counted }) => [kind, counted?.total, counted?.bytes !== null]);
      assert.deepEqual(counts, [
        ['cluster IP', 5, hasBytes],
        ['node port', 2, hasBytes],
      ]);
    });

    it('lose none when endpoints come and go, nor when the rules are written anew with those of another Service', async () => {
      await connect(2, 'pod-3', WEB, 80);
      await written('web', webObjects([1], { hasOther: false }));
      await connect(2, 'pod-3', WEB, 80);
      // No look in between: the counters of web stand in the chain that is rewritten.
      await written('third', otherService('third', '10.96.0.98'));
      await connect(1, 'pod-3', WEB, 80);
      await counted('web', '80', 12);
      await counted('other', 'http', 3);
      await counted('third', 'http', 0);
    });

    it('go on after a Service was without endpoints for a while', async () => {
      await connect(1, 'pod-3', WEB, 80);
      if (losesLast) await counted('web', '80', 13);
      await written('web', webObjects([], { hasOther: false }));
      const text = await metrics();
      const endpoints =
        'slicewire_service_endpoints{service="default/web",port="80",protocol="TCP",ip_family="IPv4",policy="Cluster"';
      assert.equal(numberOf(text, `${endpoints},state="used",reason="ready"}`), 0);
      await written('web', webObjects([2], { hasOther: false }));
      await connect(2, 'pod-3', WEB, 80);
      await counted('web', '80', 15);
      assert.equal(numberOf(await metrics(), `${endpoints},state="used",reason="ready"}`), 1);
    });

    it('start with what the kernel has counted after a restart of the agent', async () => {
      await agent.stop();
      agent = await started();
      await counted('other', 'http', 3);
      await connect(1, 'pod-3', OTHER, 80);
      await counted('other', 'http', 4);
    });
  });
}
