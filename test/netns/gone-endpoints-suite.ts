/** --reset-gone with real connections (docs/traffic.md): who learns at once that an endpoint is gone, and what is left alone. For every mode. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it, type TestContext } from 'node:test';
import type { AgentProcess, LogLine } from '../../src/cli/lab/agent-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { type BackendName, cluster, type StoryCluster } from '../conformance/cluster.ts';
import { answerText } from '../helpers/cli/lab/answer-text.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const POD_PORT = 8080;
const PORT = 80;
const NODE_PORT = 30_080;

export interface GoneOptions {
  readonly mode: 'iptables' | 'nftables' | 'ipvs';
  /** Milliseconds in which a client that is told nothing hangs: long enough for two tries of its kernel, which the first may need. */
  readonly hangs: number;
  /** Milliseconds until a sync; an emulated machine takes minutes. */
  readonly patience: number;
}

type Conditions = 'ready' | 'terminating';
type Endpoints = Partial<Record<BackendName, Conditions>>;
const CONDITIONS: Readonly<Record<Conditions, object>> = {
  ready: { ready: true, serving: true, terminating: false },
  terminating: { ready: false, serving: false, terminating: true },
};

/** Clients, and the address by which each reaches the Service. */
const CLIENTS = [
  { name: 'a pod', host: 'pod-3', to: (w: StoryCluster) => ({ address: w.clusterIP(10), port: PORT }) },
  { name: 'the node', host: 'node', to: (w: StoryCluster) => ({ address: w.clusterIP(10), port: PORT }) },
  { name: 'a client outside', host: 'client', to: (w: StoryCluster) => ({ address: w.node, port: NODE_PORT }) },
] as const;

export function describeGoneEndpoints({ mode, hangs, patience }: GoneOptions): void {
  for (const w of [cluster('IPv4'), cluster('IPv6')]) {
    describe(`endpoints that are gone, ${mode}, ${w.family}`, () => {
      let lab: Lab;
      let node: ManifestNode;
      let agent: AgentProcess;
      let connections = 0;
      const tool = w.family === 'IPv4' ? 'iptables' : 'ip6tables';

      before(async () => {
        lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
        for (const pod of ['pod-1', 'pod-2']) await lab.serve(pod, 'TCP', POD_PORT);
        node = await ManifestNode.create(lab);
      });
      after(async () => {
        await node.clear();
        await lab.remove();
      });
      beforeEach(async () => {
        await node.stop();
        await node.run('cleanup');
        await lab.exec('node', 'conntrack', '-F');
        // The rules that another test wrote into its pods.
        for (const pod of ['pod-1', 'pod-2']) await lab.exec(pod, tool, '-F', 'INPUT');
        await node.write('other');
      });

      const web = (endpoints: Endpoints, name = 'web') => [
        service({
          name,
          spec:
            name === 'web'
              ? { type: 'NodePort', clusterIP: w.clusterIP(10), ports: [{ port: PORT, nodePort: NODE_PORT }] }
              : { type: 'ClusterIP', clusterIP: w.clusterIP(11), ports: [{ port: PORT }] },
        }),
        slice({
          name: `${name}-1`,
          service: name,
          addressType: w.family,
          ports: [{ name: '', port: POD_PORT }],
          endpoints: Object.entries(endpoints).map(([pod, conditions]) => ({
            addresses: [w.address(pod as BackendName)],
            nodeName: 'node',
            conditions: CONDITIONS[conditions],
          })),
        }),
      ];

      async function start(...flags: string[]): Promise<void> {
        await node.write('web', ...web({ 'pod-1': 'ready' }));
        agent = node.start(`--mode=${mode}`, `--${mode}-min-sync-period=0s`, '-v', '4', ...flags);
        await agent.synced(0, patience);
      }

      const isSynced = ({ msg }: LogLine) => msg === 'synced' || msg === 'synced, nothing to do';
      const isSwept = ({ msg }: LogLine) => /connections to endpoints that are gone/.test(msg);

      /** Writes a Service and its endpoints, and waits until they are in the kernel, and for the end of connections. */
      async function become(endpoints: Endpoints, { name = 'web', ends = false } = {}): Promise<void> {
        const since = agent.log.length;
        await node.write(name, ...web(endpoints, name));
        await agent.logged(isSynced, { since, within: patience });
        if (ends) await agent.logged(isSwept, { since, within: patience });
      }

      /** Connections that stay open, one of each client. */
      async function held(): Promise<readonly (() => Promise<string>)[]> {
        connections += 1;
        const asks = CLIENTS.map(({ host, to }) => {
          const kept = `connection ${connections}`;
          return async () => answerText(await lab.ask(host, { ...to(w), timeout: hangs, keep: kept }));
        });
        for (const ask of asks) assert.equal(await ask(), 'pod-1');
        return asks;
      }

      /** The pod vanishes: nothing answers for it any more. */
      const kill = (pod: string) => lab.exec(pod, tool, '-A', 'INPUT', '-j', 'DROP');

      /** The client learns it: by this packet, or by a keep-alive probe before it, after which it has a new connection to `next`. */
      async function learns(asks: readonly (() => Promise<string>)[], next: string, t?: TestContext): Promise<void> {
        for (const [i, ask] of asks.entries()) {
          const began = performance.now();
          const answer = await ask();
          assert.ok(['ECONNRESET', next].includes(answer), `${CLIENTS[i]?.name}: ${answer}`);
          t?.diagnostic(`${CLIENTS[i]?.name}: ${answer} after ${(performance.now() - began).toFixed(1)} ms`);
        }
        for (const ask of asks) assert.equal(await ask(), next, 'a new connection');
      }

      it('tells each client of an endpoint that ended, with its next packet', async (t) => {
        await start('--reset-gone');
        const asks = await held();
        await become({ 'pod-1': 'terminating', 'pod-2': 'ready' });
        for (const ask of asks) assert.equal(await ask(), 'pod-1', 'it ends gracefully');
        await kill('pod-1');
        await become({ 'pod-2': 'ready' }, { ends: true });
        await learns(asks, 'pod-2', t);
        if (mode === 'ipvs') return;
        const metrics = await lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
        const counted = new RegExp(`^slicewire_gone_endpoint_connections_deleted_total.*"${w.family}".* 3$`, 'm');
        assert.match(metrics, counted);
      });

      it('tells them also where no endpoint is left', async (t) => {
        await start('--reset-gone');
        const asks = await held();
        await become({ 'pod-1': 'terminating' });
        await kill('pod-1');
        await become({}, { ends: true });
        await learns(asks, 'refused', t);
      });

      it('leaves them hanging without the setting', async () => {
        await start();
        const asks = await held();
        await become({ 'pod-1': 'terminating', 'pod-2': 'ready' });
        await kill('pod-1');
        await become({ 'pod-2': 'ready' });
        // At once: an idle client's keep-alive probes give up after 11 s.
        assert.deepEqual(
          await Promise.all(asks.map((ask) => ask())),
          asks.map(() => 'timeout'),
        );
      });

      it('leaves a pod alone that lost its label and lives', async () => {
        await start('--reset-gone');
        await become({ 'pod-1': 'ready', other: 'terminating' });
        const asks = await held();
        // The sweep for another endpoint, which is gone, looks at these connections.
        await become({ 'pod-2': 'ready' }, { ends: true });
        for (const ask of asks) assert.equal(await ask(), 'pod-1');
      });

      it('waits while another Service has the address', async () => {
        await start('--reset-gone');
        await become({ 'pod-1': 'ready' }, { name: 'other' });
        const asks = await held();
        await become({ 'pod-1': 'terminating', 'pod-2': 'ready', other: 'terminating' });
        await become({ 'pod-2': 'ready' }, { ends: true });
        for (const ask of asks) assert.equal(await ask(), 'pod-1');
        await kill('pod-1');
        await become({}, { name: 'other', ends: true });
        await learns(asks, 'pod-2');
      });
    });
  }
}
