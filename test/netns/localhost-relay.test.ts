/**
 * Node ports on loopback in nftables mode (docs/semantics.md 6.17, KEP-6032): a real agent relays them in user space. Stories are those of
 * Kubernetes' test/e2e/network/localhost_nodeports.go, and of k8s#142183.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { type Addresses, LAB, Lab, podAddress, remotePodAddress } from '../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT } from '../helpers/cli/lab/web.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { listeningPorts } from '../helpers/kernel/listening.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

const MODE = ['--mode=nftables', '--nftables-min-sync-period', '0s', '--nftables-sync-period', '1s'] as const;
const NODE_RANGES = '192.168.77.0/24,fd00:77::/64';
const LOCALHOSTS = ['127.0.0.1', '::1'] as const;
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;
const ANSWER = 8000;
/** Of the endpoint that stands for a registry. */
const REGISTRY_PORT = 5000;
const REGISTRY_NODE_PORT = 30_500;

/** A registry with one blob of some MB, and one that never ends. */
const REGISTRY = `const { createServer } = require('node:http');
const { createHash, randomBytes } = require('node:crypto');
const blob = randomBytes(24 << 20);
createServer((request, response) => {
  if (request.url === '/digest') return response.end(createHash('sha256').update(blob).digest('hex'));
  if (request.url === '/blob') return response.end(blob);
  response.write(blob.subarray(0, 1 << 20));
  setInterval(() => response.write('more'), 50);
}).listen(${REGISTRY_PORT}, '::', () => console.log('ready'));`;

/** Pulls the blob, and prints its digest and the registry's. */
const pull = (host: string) => `import { createHash } from 'node:crypto';
const from = 'http://${host}:${REGISTRY_NODE_PORT}';
const blob = Buffer.from(await (await fetch(from + '/blob')).arrayBuffer());
console.log(blob.length, createHash('sha256').update(blob).digest('hex') === await (await fetch(from + '/digest')).text());`;

/** Reads without an end, and prints how it ends. */
const READ_ON = `import net from 'node:net';
const socket = net.connect(${REGISTRY_NODE_PORT}, '127.0.0.1', () => socket.write('GET /endless HTTP/1.0\\r\\n\\r\\n'));
let isReading = false;
socket.on('data', () => { if (!isReading) console.log('reading'); isReading = true; });
socket.on('error', ({ code }) => console.log(code));
socket.on('close', () => process.exit(0));`;

interface WebInput {
  readonly here?: readonly number[];
  readonly away?: boolean;
  readonly spec?: object;
}

const FAMILIES = [
  { name: 'four', type: 'IPv4', of: ({ v4 }: Addresses) => v4 },
  { name: 'six', type: 'IPv6', of: ({ v6 }: Addresses) => v6 },
] as const;

/** A Service of both families, for TCP and UDP at the same node port. */
function web({ here = [1], away = true, spec = {} }: WebInput = {}): object[] {
  const common = { port: 80, nodePort: NODE_PORT };
  const ports = [
    { name: 'tcp', ...common },
    { name: 'udp', protocol: 'UDP', ...common },
  ];
  const clusterIPs = ['10.96.0.10', 'fd00:96::10'];
  const families = {
    clusterIP: clusterIPs[0],
    clusterIPs,
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'RequireDualStack',
  };
  const slicePorts = [
    { name: 'tcp', port: POD_PORT },
    { name: 'udp', port: POD_PORT, protocol: 'UDP' },
  ];
  return [
    service({ name: 'web', spec: { type: 'NodePort', ports, ...families, ...spec } }),
    ...FAMILIES.map(({ name, type, of }) => {
      const endpoints = here.map((n) => ({ addresses: [of(podAddress(n))], nodeName: 'node' }));
      if (away) endpoints.push({ addresses: [of(remotePodAddress(1))], nodeName: 'other' });
      return slice({ name: `web-${name}`, service: 'web', addressType: type, ports: slicePorts, endpoints });
    }),
  ];
}

function registry(endpoints: readonly object[]): object[] {
  const ports = [{ port: REGISTRY_PORT, nodePort: REGISTRY_NODE_PORT }];
  const slicePorts = [{ name: '', port: REGISTRY_PORT }];
  const of = { service: 'registry', addressType: 'IPv4', ports: slicePorts } as const;
  return [
    service({ name: 'registry', spec: { type: 'NodePort', clusterIP: '10.96.0.50', ports } }),
    slice({ name: 'registry-1', ...of, endpoints }),
  ];
}

describe('node ports on loopback in nftables mode', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 1, signal: NEVER });
    for (const name of ['pod-1', 'pod-2', 'pod-3', 'other'])
      for (const protocol of ['TCP', 'UDP'] as const) await lab.serve(name, protocol, POD_PORT);
  });
  after(() => lab.remove());
  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await node.write('web', ...web());
  });
  afterEach(async () => {
    await node.clear();
    await lab.exec('node', 'nft', 'flush ruleset');
  });

  const ask = (address: string, more: object = {}) =>
    lab.ask('node', { address, port: NODE_PORT, timeout: ANSWER, ...more });
  const outcome = async (address: string) => (await ask(address)).outcome;
  /** Those who answer 30 connections. */
  async function answering(address: string): Promise<string[]> {
    const seen = new Set<string>();
    for (let n = 0; n < 30; n++) {
      const answer = await ask(address);
      seen.add(answer.outcome === 'reply' ? answer.by : answer.outcome);
    }
    return [...seen].sort();
  }
  const inNode = (script: string): Child =>
    node.keep(startChild(lab.inside('node', process.execPath, ['--input-type=module', '-e', script])));

  async function started(addresses: string): Promise<AgentProcess> {
    const agent = node.start(...MODE, '--nodeport-addresses', addresses);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    return agent;
  }

  /** What the kernel path does, at the node's own address. */
  async function kernelServes(): Promise<void> {
    for (const address of [LAB.node.v4, LAB.node.v6])
      assert.equal((await lab.ask('client', { address, port: NODE_PORT, timeout: ANSWER })).outcome, 'reply', address);
  }

  const becomes = async (input: WebInput, address: string, right: readonly string[]) => {
    await node.write('web', ...web(input));
    await until(
      `${right.join(' and ')} at ${address}`,
      async () => (await answering(address)).join() === right.join(),
      PATIENCE,
    );
  };

  it('are not served and nobody listens, unless a range of loopback is named', async () => {
    const agent = await started('0.0.0.0/0,::/0');
    for (const address of LOCALHOSTS) assert.equal(await outcome(address), 'refused', address);
    assert.ok(!listeningPorts(agent.pid).includes(NODE_PORT));
    await kernelServes();
    const { out } = await node.run('explain', 'node', `127.0.0.1:${NODE_PORT}`, '--mode=nftables');
    assert.match(out, /served on loopback\s+only where --nodeport-addresses names a range of loopback/);
  });

  it('reach endpoints of this node and of another, in both families, and leave the rules as they are', async () => {
    const without = await started(NODE_RANGES);
    const rules = () => lab.exec('node', 'nft', '-s', 'list', 'ruleset');
    const before = await rules();
    await without.stop();
    const agent = await started(`${NODE_RANGES},localhost`);
    for (const address of LOCALHOSTS) {
      await until(`a node port at ${address}`, async () => (await outcome(address)) === 'reply', PATIENCE);
      assert.deepEqual(await answering(address), ['other', 'pod-1'], address);
      const udp = await ask(address, { protocol: 'UDP' });
      assert.equal(udp.outcome, 'refused', 'UDP is not relayed: nothing listens, and the kernel says so');
    }
    // The node's addresses on the uplink and on the bridge are no loopback: the kernel serves them.
    await kernelServes();
    assert.equal(await rules(), before);
    const { body } = await askNode(lab, '/metrics', 10_249);
    for (const family of ['IPv4', 'IPv6']) {
      assert.match(
        body,
        new RegExp(`^kubeproxy_nftables_localhost_nodeport_listeners\\{ip_family="${family}"\\} 1$`, 'm'),
      );
      assert.match(
        body,
        new RegExp(
          `^kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total\\{ip_family="${family}"\\} 0$`,
          'm',
        ),
      );
    }
    assert.match(body, /^slicewire_relay_connections_total\{result="completed"\} \d+$/m);
    const explained = await askNode(lab, `/explain?from=node&to=127.0.0.1:${NODE_PORT}`, 10_249);
    assert.match(explained.body, /The relay of the agent takes the connection in user space/);
    const bad = agent.log.filter(({ level }) => level === 'warn' || level === 'error');
    assert.deepEqual(bad, []);
  });

  it('keep to one endpoint by ClientIP, and to this node by externalTrafficPolicy Local', async () => {
    const agent = await started('localhost');
    const sticky = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } };
    await node.write('web', ...web({ here: [1, 2, 3], away: false, spec: sticky }));
    await agent.synced(agent.log.length, PATIENCE);
    for (const address of LOCALHOSTS) {
      await until('one endpoint', async () => (await answering(address)).length === 1, PATIENCE);
    }
    const local = { externalTrafficPolicy: 'Local' };
    for (const address of LOCALHOSTS) {
      await becomes({ here: [1, 2], spec: local }, address, ['pod-1', 'pod-2']);
      await becomes({ here: [], spec: local }, address, ['refused']);
    }
    assert.ok(!listeningPorts(agent.pid).includes(NODE_PORT));
  });

  it('bring what a registry on another node sends, byte for byte, and a reset where the registry goes away', async () => {
    const server = startChild({
      ...lab.inside('other', process.execPath, ['-e', REGISTRY]),
      onLine: () => ready.resolve(),
    });
    const ready = Promise.withResolvers<void>();
    node.keep(server);
    await ready.promise;
    const there = { addresses: [remotePodAddress(1).v4], nodeName: 'other' };
    await node.write('registry', ...registry([there]));
    await started('localhost');
    const pulled = lab.inside('node', process.execPath, ['--input-type=module', '-e', pull('localhost')]);
    const { stdout, stderr } = await shellCommands.run(pulled, NEVER);
    assert.equal(stdout.trim(), `${24 << 20} true`, stderr);

    const lines: string[] = [];
    const inside = lab.inside('node', process.execPath, ['--input-type=module', '-e', READ_ON]);
    const reader = node.keep(startChild({ ...inside, onLine: (line) => lines.push(line) }));
    await until('the client reads', () => lines.includes('reading'), PATIENCE);
    const draining = { ...there, conditions: { ready: false, serving: true, terminating: true } };
    await node.write('registry', ...registry([draining, { addresses: [podAddress(1).v4], nodeName: 'node' }]));
    // New connections go to the other endpoint, where nobody listens at that port.
    const refused = { address: '127.0.0.1', port: REGISTRY_NODE_PORT, timeout: ANSWER };
    await until('it drains', async () => (await lab.ask('node', refused)).outcome === 'error', PATIENCE);
    assert.deepEqual(lines, ['reading'], 'a terminating endpoint keeps its connections');
    await node.write('registry', ...registry([{ addresses: [podAddress(1).v4], nodeName: 'node' }]));
    await reader.ended;
    assert.deepEqual(lines, ['reading', 'ECONNRESET']);
  });

  it('are served by an agent that starts again with localhost named, and not by the next without it (k8s#142183)', async () => {
    for (const [addresses, right] of [
      [NODE_RANGES, 'refused'],
      [`${NODE_RANGES},127.0.0.0/8,::1/128`, 'reply'],
      [NODE_RANGES, 'refused'],
    ] as const) {
      const agent = await started(addresses);
      for (const address of LOCALHOSTS)
        await until(`${right} at ${address}`, async () => (await outcome(address)) === right, PATIENCE);
      await kernelServes();
      await agent.stop();
      assert.equal(await agent.ended, 0);
    }
  });

  it('come and go with a reload of the file, and other node ports stay', async (test) => {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    test.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'config.conf');
    const write = (addresses: string) =>
      writeFile(
        file,
        `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\nconntrack: {maxPerCore: 0}\nnftables: {minSyncPeriod: 0s, syncPeriod: 1s}\nnodePortAddresses: [${addresses}]\n`,
      );
    await write(NODE_RANGES);
    const agent = node.start('--config', file);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    for (const [addresses, four, six] of [
      ['localhost', 'reply', 'reply'],
      ['::1/128', 'refused', 'reply'],
      ['', 'refused', 'refused'],
    ] as const) {
      await write(addresses === '' ? NODE_RANGES : `${NODE_RANGES},${addresses}`);
      await until(
        `${addresses}: ${four} and ${six}`,
        async () => (await outcome('127.0.0.1')) === four && (await outcome('::1')) === six,
        PATIENCE,
      );
      await kernelServes();
    }
  });

  it('that a program of the node has are named, and the rest goes on', async () => {
    const holder = inNode(
      `import net from 'node:net'; net.createServer((client) => client.end()).listen(${NODE_PORT}, '127.0.0.1');`,
    );
    await until('the program has the port', async () => (await outcome('127.0.0.1')) !== 'refused', PATIENCE);
    const agent = await started('localhost');
    const { level, msg } = await agent.logged(({ msg: text }) => text.includes(`node port ${NODE_PORT}`), {
      within: PATIENCE,
    });
    const cause = `listen EADDRINUSE: address already in use 127.0.0.1:${NODE_PORT}`;
    assert.deepEqual(
      [level, msg],
      [
        'error',
        `Service default/web: the node port ${NODE_PORT} cannot be served on 127.0.0.1: ${cause}; its other addresses and all other node ports are served; trying again until the port is free`,
      ],
    );
    await until('the other address', async () => (await outcome('::1')) === 'reply', PATIENCE);
    const { body } = await askNode(lab, `/explain?from=node&to=127.0.0.1:${NODE_PORT}`, 10_249);
    assert.match(body, /The relay of the agent cannot listen at 127\.0\.0\.1:30080/);
    assert.match((await askNode(lab, '/exposure', 10_249)).body, /cannot listen at 127\.0\.0\.1:30080/);
    await holder.stop();
    await until('it is served', async () => (await outcome('127.0.0.1')) === 'reply', PATIENCE);
    assert.match(agent.text(), /info Service default\/web: the node port 30080 is served on 127\.0\.0\.1 now/);
    assert.equal(agent.log.filter((line) => line.level === 'error').length, 1, agent.text());
  });
});
