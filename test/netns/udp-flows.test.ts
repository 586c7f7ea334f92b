/** Stale UDP flows on a real kernel: clients that keep their source port, the agent as a process of its own. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab, remotePodAddress } from '../../src/cli/lab/lab.ts';
import { type BackendName, cluster, type StoryCluster } from '../conformance/cluster.ts';
import { startAgent } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const POD_PORT = 5353;
const NODE_PORT = 30_053;
let nextPort = 20_000;

describe('UDP flows on a real kernel', () => {
  let lab: Lab;
  let folder: string;
  const running: AgentProcess[] = [];

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 2, signal: NEVER });
    for (const host of ['pod-1', 'pod-2']) await lab.serve(host, 'UDP', POD_PORT);
    for (const address of Object.values(remotePodAddress(1))) await lab.serve('other', 'UDP', POD_PORT, address);
  });
  after(() => lab.remove());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
  });
  afterEach(async () => {
    for (const agent of running.splice(0)) await agent.stop();
    await rm(folder, { recursive: true });
    for (const tool of ['iptables', 'ip6tables']) {
      for (const table of ['nat', 'filter']) await lab.exec('node', tool, '-t', table, '-F');
    }
    await lab.exec('node', 'conntrack', '-F');
  });

  const write = (...objects: object[]) =>
    writeFile(join(folder, 'dns.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));

  /** DNS on every kind of address, answered by these. */
  function dns(w: StoryCluster, backends: readonly BackendName[], spec: Record<string, unknown> = {}): object[] {
    const port = { port: 53, protocol: 'UDP', nodePort: NODE_PORT };
    return [
      service({
        name: 'dns',
        spec: { type: 'NodePort', clusterIP: w.clusterIP(10), externalIPs: [w.externalIP(1)], ports: [port], ...spec },
      }),
      slice({
        name: 'dns-1',
        service: 'dns',
        addressType: w.family,
        ports: [{ name: '', port: POD_PORT, protocol: 'UDP' }],
        endpoints: backends.map((at) => ({
          addresses: [w.address(at)],
          nodeName: at === 'other' ? 'other-node' : 'node',
        })),
      }),
    ];
  }

  function start(): AgentProcess {
    const flags = ['--iptables-min-sync-period', '0s', '--iptables-sync-period', '1s', '--conntrack-max-per-core', '0'];
    const agent = startAgent(lab, ['run', '--manifests', folder, '--hostname-override', 'node', '-v', '4', ...flags]);
    running.push(agent);
    return agent;
  }

  const isSweep = (line: { msg: string }) => /stale UDP flows/.test(line.msg);

  /** A client of its own port; each question goes over the same flow. */
  function client(from: string, address: string, port: number): () => Promise<string> {
    const fromPort = nextPort++;
    return async () => {
      const answer = await lab.ask(from, { address, port, protocol: 'UDP', fromPort, timeout: 300 });
      return answer.outcome === 'reply' ? answer.by : answer.outcome;
    };
  }

  const flowsTo = async (w: StoryCluster, address: string) => {
    const family = w.family === 'IPv4' ? 'ipv4' : 'ipv6';
    return (await lab.exec('node', 'conntrack', '-L', '-f', family, '-p', 'udp', '-d', address)).trim();
  };

  for (const family of ['IPv4', 'IPv6'] as const) {
    const w = cluster(family);

    it(`${family}: a flow moves when its endpoint leaves, is refused when the last one does, and comes back`, async () => {
      await write(...dns(w, ['pod-1']));
      const agent = start();
      await agent.logged(isSweep);
      const clients = [
        client('pod-3', w.clusterIP(10), 53),
        client('client', w.externalIP(1), 53),
        client('client', w.node, NODE_PORT),
        client('node', w.clusterIP(10), 53),
      ];
      for (const ask of clients) assert.equal(await ask(), 'pod-1');
      const change = async (...backends: BackendName[]) => {
        const since = agent.log.length;
        await write(...dns(w, backends));
        await agent.logged(isSweep, { since });
      };
      await change('pod-2');
      for (const ask of clients) assert.equal(await ask(), 'pod-2');
      await change();
      for (const ask of clients) assert.equal(await ask(), 'refused', 'k8s#139628');
      await change('pod-1');
      for (const ask of clients) assert.equal(await ask(), 'pod-1');
    });

    it(`${family}: black holes from before the rules end when the agent starts`, async () => {
      await write(...dns(w, ['pod-1']));
      const clients = [client('pod-3', w.clusterIP(10), 53), client('client', w.externalIP(1), 53)];
      // The kernel tracks flows once any software asks for their state.
      const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
      await lab.exec('node', tool, '-A', 'FORWARD', '-m', 'conntrack', '--ctstate', 'INVALID', '-j', 'DROP');
      for (const ask of clients) assert.equal(await ask(), 'timeout');
      assert.match(await flowsTo(w, w.clusterIP(10)), /UNREPLIED/, 'the kernel tracks it');
      await start().logged(isSweep);
      for (const ask of clients) assert.equal(await ask(), 'pod-1');
    });

    it(`${family}: live flows, and those of other software, outlive changes and restarts (k8s#122740)`, async () => {
      await write(...dns(w, ['pod-1', 'pod-2']));
      const first = start();
      await first.logged(isSweep);
      // Other software: a translation of its own, to an address that is no endpoint; and a server elsewhere on our node port.
      const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
      const to = family === 'IPv4' ? `${w.address('other')}:${POD_PORT}` : `[${w.address('other')}]:${POD_PORT}`;
      await lab.exec(
        'node',
        tool,
        '-t',
        'nat',
        '-A',
        'PREROUTING',
        '-p',
        'udp',
        '-d',
        w.externalIP(9),
        '-j',
        'DNAT',
        '--to-destination',
        to,
      );
      const foreign = client('pod-3', w.externalIP(9), 53);
      assert.equal(await foreign(), 'other');
      const elsewhere = client('pod-3', w.otherNode, NODE_PORT);
      await elsewhere();
      const live = [client('pod-3', w.clusterIP(10), 53), client('client', w.node, NODE_PORT)];
      const answers: string[] = [];
      for (const ask of live) answers.push(await ask());
      const ids = async () => {
        const all = await lab.exec('node', 'conntrack', '-L', '-f', family.toLowerCase(), '-p', 'udp', '-o', 'id');
        const ofClients = all.split('\n').filter((line) => /sport=20\d\d\d /.test(line));
        return ofClients.map((line) => / id=(\d+)/.exec(line)?.[1]).sort();
      };
      const before = await ids();
      assert.ok(before.length >= 4, `${before.length} flows`);
      await first.stop();
      const second = start();
      await second.logged(isSweep);
      // A third endpoint comes, and another Service without any relation.
      const since = second.log.length;
      await write(
        ...dns(w, ['pod-1', 'pod-2', 'other']),
        service({ name: 'x', spec: { clusterIP: w.clusterIP(11), ports: [{ port: 53, protocol: 'UDP' }] } }),
      );
      await second.logged(isSweep, { since });
      assert.deepEqual(await ids(), before, 'every flow is the one that it was');
      for (const [i, ask] of live.entries()) assert.equal(await ask(), answers[i]);
      assert.equal(await foreign(), 'other');
    });

    it(`${family}: flows of a Service that was deleted while no agent ran are found by its rules`, async () => {
      await write(...dns(w, ['pod-1']));
      const first = start();
      await first.logged(isSweep);
      const clients = [client('pod-3', w.clusterIP(10), 53), client('client', w.node, NODE_PORT)];
      for (const ask of clients) assert.equal(await ask(), 'pod-1');
      await first.stop();
      await write();
      const second = start();
      await second.logged(isSweep);
      for (const ask of clients) assert.notEqual(await ask(), 'pod-1');
      assert.doesNotMatch(await flowsTo(w, w.clusterIP(10)), new RegExp(`src=${w.address('pod-1')}`));
    });

    it(`${family}: under internal policy Local a flow does not stay on another node (k8s#126934)`, async () => {
      await write(...dns(w, ['other']));
      const agent = start();
      await agent.logged(isSweep);
      const ask = client('pod-3', w.clusterIP(10), 53);
      assert.equal(await ask(), 'other');
      const since = agent.log.length;
      await write(...dns(w, ['other', 'pod-2'], { internalTrafficPolicy: 'Local' }));
      await agent.logged(isSweep, { since });
      assert.equal(await ask(), 'pod-2');
    });
  }
});
