/**
 * What flows outlive: connections that nobody answers (k8s#101607), a switch between proxies, and an agent that stops or is built
 * anew between a change and its sweep. On a real kernel, with clients that keep their source port.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { AgentProcess, LogLine } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { kubeProxyTable } from './kube-proxy-table.ts';

const PORT = 5353;
const NODE_PORT = 30_053;
const DNS = '10.96.0.10';
const OTHER = '10.96.0.11';
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;
/** Look after the rules each second; write at once. */
const PERIODS = ['iptables', 'nftables'].flatMap((mode) => [
  `--${mode}-sync-period`,
  '1s',
  `--${mode}-min-sync-period`,
  '0s',
]);
const SCTP_PEER = fileURLToPath(new URL('../helpers/cli/lab/sctp-peer.ts', import.meta.url));
let nextPort = 21_000;

describe('stale flows on a real kernel', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const protocol of ['TCP', 'UDP'] as const) {
      for (const pod of ['pod-1', 'pod-2']) await lab.serve(pod, protocol, PORT);
    }
    // It takes connections, and answers none.
    await lab.exec('pod-1', 'iptables', '-A', 'INPUT', '-p', 'tcp', '--dport', String(PORT), '-j', 'DROP');
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
  });
  afterEach(async () => {
    await node.stop();
    await node.run('cleanup');
    await node.clear();
    await lab.exec('node', 'conntrack', '-F');
  });

  function objects(
    name: string,
    clusterIP: string,
    { protocol, pods }: { protocol: string; pods: number[] },
  ): object[] {
    const ports = [{ port: 53, protocol, ...(name === 'dns' ? { nodePort: NODE_PORT } : {}) }];
    const endpoints = pods.map((n) => ({ addresses: [podAddress(n).v4], nodeName: 'node' }));
    return [
      service({ name, spec: { type: 'NodePort', clusterIP, ports } }),
      slice({
        name: `${name}-1`,
        service: name,
        addressType: 'IPv4',
        ports: [{ name: '', port: PORT, protocol }],
        endpoints,
      }),
    ];
  }
  const dns = (protocol: string, ...pods: number[]) => node.write('dns', ...objects('dns', DNS, { protocol, pods }));

  const isSweep = ({ msg }: LogLine) => /stale UDP flows/.test(msg);
  const isSweepOfTcp = ({ msg }: LogLine) => /stale unanswered connections/.test(msg);

  async function started(mode: string, ...flags: string[]): Promise<AgentProcess> {
    const agent = node.start(`--mode=${mode}`, ...PERIODS, '-v', '4', ...flags);
    for (const swept of [isSweep, isSweepOfTcp]) await agent.logged(swept, { within: PATIENCE });
    return agent;
  }

  /** A client of its own port. */
  function client(protocol: 'TCP' | 'UDP', from: string, address: string, port = 53): () => Promise<string> {
    const fromPort = nextPort++;
    return async () => {
      const answer = await lab.ask(from, { address, port, protocol, fromPort, timeout: 1500 });
      return answer.outcome === 'reply' ? answer.by : answer.outcome;
    };
  }

  const tracked = async (protocol: 'tcp' | 'udp' | 'sctp', port: number) => {
    const all = await lab.exec('node', 'conntrack', '-L', '-f', 'ipv4', '-p', protocol);
    return all.split('\n').filter((line) => line.includes(`dport=${port} `));
  };

  for (const mode of ['iptables', 'nftables']) {
    it(`${mode}: a client whose connection was never answered gets through when the endpoint is replaced (k8s#101607)`, async () => {
      await dns('TCP', 1);
      const agent = await started(mode);
      const clients = [client('TCP', 'pod-3', DNS), client('TCP', 'client', LAB.node.v4, NODE_PORT)];
      for (const ask of clients) assert.equal(await ask(), 'timeout');
      const there = await tracked('tcp', 53);
      assert.ok(
        there.some((line) => /SYN_SENT .*\[UNREPLIED\]/.test(line)),
        there.join('\n'),
      );
      const since = agent.log.length;
      await dns('TCP', 2);
      const deleted = 'deleted 2 stale unanswered connections (TCP, SCTP)';
      const { services } = await agent.logged(({ msg }) => msg === deleted, { since, within: PATIENCE });
      assert.deepEqual(services, ['default/dns/TCP/IPv4']);
      for (const ask of clients) assert.equal(await ask(), 'pod-2');
    });

    it(`${mode}: connections that were answered, and those to an endpoint that is there, stay`, async () => {
      await dns('TCP', 2);
      const agent = await started(mode);
      const ask = () => lab.ask('pod-3', { address: DNS, port: 53, keep: `kept-${mode}`, timeout: PATIENCE });
      assert.equal((await ask()).outcome, 'reply');
      let since = agent.log.length;
      await dns('TCP', 1);
      await agent.synced(since, PATIENCE);
      const toFirst = client('TCP', 'pod-3', DNS);
      assert.equal(await toFirst(), 'timeout');
      since = agent.log.length;
      // Another Service's endpoint leaves: all is looked at.
      await node.write('other', ...objects('other', OTHER, { protocol: 'TCP', pods: [1] }));
      await agent.synced(since, PATIENCE);
      await node.write('other', ...objects('other', OTHER, { protocol: 'TCP', pods: [] }));
      await agent.logged(isSweepOfTcp, { since, within: PATIENCE });
      const there = await tracked('tcp', 53);
      assert.ok(
        there.some((line) => line.includes('ESTABLISHED') && line.includes(`src=${podAddress(2).v4}`)),
        there.join('\n'),
      );
      assert.ok(
        there.some((line) => line.includes('SYN_SENT') && line.includes(`src=${podAddress(1).v4}`)),
        there.join('\n'),
      );
      const answer = await ask();
      assert.equal(answer.outcome === 'reply' && answer.by, 'pod-2', 'on the connection that it has');
    });

    it(`${mode}: an agent that stops between a deletion and its sweep sweeps first`, async () => {
      await dns('UDP', 1);
      await node.write('other', ...objects('other', OTHER, { protocol: 'UDP', pods: [1] }));
      const agent = await started(mode);
      const clients = [client('UDP', 'pod-3', DNS), client('UDP', 'pod-3', OTHER)];
      for (const ask of clients) assert.equal(await ask(), 'pod-1');
      // After a sweep the sweeper rests for a second: the next deletion is not swept before the agent stops.
      let since = agent.log.length;
      await node.delete('other');
      await agent.logged(isSweep, { since, within: PATIENCE });
      since = agent.log.length;
      await node.delete('dns');
      await agent.synced(since, PATIENCE);
      await agent.stop();
      assert.equal(await agent.ended, 0);
      assert.deepEqual(await tracked('udp', 53), []);
    });
  }

  it('an association of SCTP that was never answered goes when the endpoint is replaced', async () => {
    // The kernel forgets it after 10 s: a client that goes on renews it.
    await lab.exec('node', 'sysctl', '-qw', 'net.netfilter.nf_conntrack_sctp_timeout_closed=120');
    await dns('SCTP', 1);
    const agent = await started('iptables');
    assert.equal((await lab.exec('pod-3', process.execPath, SCTP_PEER, 'ask', DNS, '53')).trim(), 'silence');
    const there = await tracked('sctp', 53);
    assert.match(there.join('\n'), /CLOSED .*\[UNREPLIED\]/);
    const since = agent.log.length;
    await dns('SCTP', 2);
    const { services } = await agent.logged(({ msg }) => /^deleted 1 stale unanswered connections/.test(msg), {
      since,
      within: PATIENCE,
    });
    assert.deepEqual(services, ['default/dns/SCTP/IPv4']);
    assert.deepEqual(await tracked('sctp', 53), []);
  });

  it('flows of a Service that was deleted meanwhile go when iptables mode takes over from nftables mode', async () => {
    await dns('UDP', 1);
    const first = await started('nftables');
    const clients = [client('UDP', 'pod-3', DNS), client('UDP', 'client', LAB.node.v4, NODE_PORT)];
    for (const ask of clients) assert.equal(await ask(), 'pod-1');
    await first.stop();
    await node.delete('dns');
    await started('iptables');
    assert.deepEqual([...(await tracked('udp', 53)), ...(await tracked('udp', NODE_PORT))], []);
    for (const ask of clients) assert.notEqual(await ask(), 'pod-1');
  });

  for (const mode of ['iptables', 'nftables']) {
    it(`flows of a Service that was deleted meanwhile go when ${mode} mode takes over from kube-proxy's nftables`, async () => {
      const endpoints = [`${podAddress(1).v4}:${PORT}`];
      const theirs = { id: 'default/dns:dns', clusterIP: DNS, port: 53, nodePort: NODE_PORT, endpoints } as const;
      const text = kubeProxyTable([{ ...theirs, protocol: 'udp' }], { nodeAddress: LAB.node.v4 });
      const file = join(node.folder, 'table.nft');
      await writeFile(file, text);
      await lab.exec('node', 'nft', '-f', file);
      const clients = [client('UDP', 'pod-3', DNS), client('UDP', 'client', LAB.node.v4, NODE_PORT)];
      for (const ask of clients) assert.equal(await ask(), 'pod-1');
      await started(mode);
      assert.deepEqual([...(await tracked('udp', 53)), ...(await tracked('udp', NODE_PORT))], []);
    });
  }

  it('flows to a node port go with the address that takes none any more, when the configuration changes', async () => {
    await dns('UDP', 1);
    const file = join(node.folder, 'config.conf');
    const config = (address: string) =>
      writeFile(
        file,
        [
          'apiVersion: kubeproxy.config.k8s.io/v1alpha1',
          'kind: KubeProxyConfiguration',
          'mode: iptables',
          'conntrack: {maxPerCore: 0}',
          'iptables: {minSyncPeriod: 0s, syncPeriod: 1s}',
          `nodePortAddresses: ["${address}/32"]`,
        ].join('\n'),
      );
    await config(LAB.node.v4);
    const agent = await started('iptables', '--config', file);
    const ask = client('UDP', 'client', LAB.node.v4, NODE_PORT);
    assert.equal(await ask(), 'pod-1');
    const since = agent.log.length;
    await config(LAB.bridge.v4);
    await agent.logged(({ msg }) => msg.startsWith('the configuration changed'), { since, within: PATIENCE });
    await agent.logged(isSweep, { since, within: PATIENCE });
    const isGone = async () => (await tracked('udp', NODE_PORT)).length === 0;
    const late = performance.now() + PATIENCE;
    while (!(await isGone()) && performance.now() < late) await agent.logged(isSweep, { since, within: PATIENCE });
    assert.ok(await isGone());
    assert.notEqual(await ask(), 'pod-1');
  });
});
