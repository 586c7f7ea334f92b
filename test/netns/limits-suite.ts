/** Limits of connections with real packets (docs/traffic.md): which connections are refused, and what tells of it. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { until } from '../helpers/base/until.ts';
import { answerText } from '../helpers/cli/lab/answer-text.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const POD_PORT = 8080;
const PORT = 80;
const NODE_PORT = 30_080;

interface LimitsOptions {
  readonly mode: 'iptables' | 'nftables';
  readonly backend?: 'nft' | 'legacy';
}

/** The flags of an agent in the mode. */
function flagsOf({ mode, backend }: LimitsOptions): string[] {
  return [
    `--mode=${mode}`,
    `--${mode}-min-sync-period=0s`,
    ...(backend === undefined ? [] : [`--iptables-backend=${backend}`]),
  ];
}

/** A lab of one node with the Services `web`, which has the limits, and `other`, which has none. */
export function limitedLab(w: ReturnType<typeof cluster>, options: LimitsOptions) {
  let lab: Lab;
  let node: ManifestNode;
  let connections = 0;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const pod of ['pod-1', 'pod-2']) await lab.serve(pod, 'TCP', POD_PORT);
    await lab.serve('pod-1', 'UDP', POD_PORT);
    node = await ManifestNode.create(lab);
    // A packet of a connection of the test before would begin one that counts.
    await lab.exec('node', 'sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_loose=0');
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });
  beforeEach(async () => {
    await node.stop();
    await node.run('cleanup');
    await lab.exec('node', 'conntrack', '-F');
  });

  const served = (
    name: string,
    n: number,
    spec: object,
    annotations: Record<string, string>,
    pods: readonly string[],
  ) => [
    service({ name, annotations, spec: { clusterIP: w.clusterIP(n), ports: PORTS, ...spec } }),
    slice({
      name: `${name}-1`,
      service: name,
      addressType: w.family,
      ports: PORTS.map(({ name, protocol }) => ({ name, protocol, port: POD_PORT })),
      endpoints: pods.map((pod) => ({ addresses: [w.address(pod as 'pod-1')], nodeName: 'node' })),
    }),
  ];
  const PORTS = [
    { name: 'tcp', protocol: 'TCP' as const, port: PORT },
    { name: 'udp', protocol: 'UDP' as const, port: PORT },
  ];

  return {
    get node() {
      return node;
    },
    get lab() {
      return lab;
    },
    /** Writes the Services anew, and waits until they are in the kernel. */
    async become(
      annotations: Record<string, string>,
      spec: object = {},
      pods: readonly string[] = ['pod-1'],
    ): Promise<void> {
      const [first, ...others] = PORTS.map((port, i) => ({ ...port, ...(i === 0 ? { nodePort: NODE_PORT } : {}) }));
      const web = { type: 'NodePort', ports: [first, ...others], ...spec };
      await node.write('web', ...served('web', 10, web, annotations, pods));
      await node.write('other', ...served('other', 11, {}, {}, ['pod-1']));
    },
    async start(): Promise<void> {
      await node.start(...flagsOf(options)).synced();
    },
    async restart(): Promise<void> {
      await node.start(...flagsOf(options)).logged(({ msg }) => msg === 'synced, nothing to do');
    },
    /** A new connection that stays open: the Pod that answered, or how it ended. */
    async open(from: string, to = { address: w.clusterIP(10), port: PORT }): Promise<string> {
      connections += 1;
      return answerText(await lab.ask(from, { ...to, timeout: 2000, keep: `connection ${connections}` }));
    },
    /** The counter of a limit. */
    async refused(limit: string): Promise<number> {
      const metrics = await lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
      const line = new RegExp(
        `^slicewire_connections_over_limit_total\\{service="default/web",port="80",protocol="TCP",limit="${limit}",ip_family="${w.family}"\\} (\\d+)$`,
        'm',
      );
      return Number(line.exec(metrics)?.[1] ?? assert.fail(metrics));
    },
  };
}

/** Opens so many connections one after the other. */
async function opened(open: () => Promise<string>, count: number): Promise<readonly string[]> {
  const results: string[] = [];
  for (let n = 0; n < count; n++) results.push(await open());
  return results;
}

const REFUSED = 'refused';

export function describeRates(options: LimitsOptions): void {
  for (const w of [cluster('IPv4'), cluster('IPv6')]) {
    describe(`new connections of a Service, ${options.mode} ${options.backend ?? ''}, ${w.family}`, () => {
      const world = limitedLab(w, options);

      it('beyond the rate are refused, counted and named, by every frontend, and go on when time has passed', async () => {
        await world.become({ 'slicewire.dev/new-connections': '1/s burst 4' });
        await world.start();
        const results = await opened(() => world.open('pod-3'), 10);
        const passed = results.filter((by) => by === 'pod-1').length;
        assert.deepEqual([...new Set(results)], ['pod-1', REFUSED], results.join());
        // A burst of 4, and one or two a second meanwhile.
        assert.ok(passed >= 4 && passed <= 7, results.join());
        assert.ok((await world.refused('new-connections')) >= 10 - passed);
        assert.deepEqual(
          await opened(() => world.open('pod-3', { address: w.clusterIP(11), port: PORT }), 6),
          Array(6).fill('pod-1'),
        );
        const outside = await opened(() => world.open('client', { address: w.node, port: NODE_PORT }), 5);
        assert.ok(outside.includes(REFUSED), outside.join());
        const here = await opened(() => world.open('node'), 5);
        assert.ok(here.includes(REFUSED), here.join());
        await until('the rate admits one again', async () => (await world.open('pod-3')) === 'pod-1');
        const { out } = await world.node.asks('explain', w.address('pod-3'), `svc/default/web:tcp`);
        assert.match(
          out,
          /new-connections"\]: 1\/s burst 4\s+More new connections are refused[^;]+; it\s+has\s+refused \d+ so far/,
        );
      });

      it('leave a Service alone whose endpoint has the address and port of a frontend, and others that have it', async () => {
        // A program of the node at the number of the node port, as an ingress on the host network.
        await world.lab.serve('node', 'TCP', NODE_PORT, w.node);
        const host = (name: string, n: number, spec: object, annotations: Record<string, string>) => [
          service({ name, annotations, spec: { clusterIP: w.clusterIP(n), ports: [{ port: PORT }], ...spec } }),
          slice({
            ...{ name: `${name}-1`, service: name, addressType: w.family, ports: [{ name: '', port: NODE_PORT }] },
            endpoints: [{ addresses: [w.node], nodeName: 'node' }],
          }),
        ];
        const ports = [{ port: PORT, nodePort: NODE_PORT }];
        const rate = { 'slicewire.dev/new-connections': '1000/s' };
        await world.node.write('web', ...host('web', 10, { type: 'NodePort', ports }, rate));
        await world.node.write('other', ...host('other', 11, {}, {}));
        await world.start();
        for (const to of [
          { address: w.clusterIP(10), port: PORT },
          { address: w.clusterIP(11), port: PORT },
          { address: w.node, port: NODE_PORT },
        ])
          for (const from of ['pod-3', 'client', 'node']) {
            if (from === 'client' && to.address !== w.node) continue;
            assert.equal(await world.open(from, to), 'node', `${from} to ${to.address}`);
          }
      });

      it('is counted over changes of the endpoints, and another rate holds at once', async () => {
        await world.become({ 'slicewire.dev/new-connections': '1/s burst 2' });
        await world.start();
        await opened(() => world.open('pod-3'), 6);
        const before = await world.refused('new-connections');
        assert.ok(before >= 2);
        await world.become({ 'slicewire.dev/new-connections': '1/s burst 2' }, {}, ['pod-1', 'pod-2']);
        await until('both serve', async () => (await world.open('pod-3')) === 'pod-2');
        assert.ok((await world.refused('new-connections')) >= before);
        await world.become({ 'slicewire.dev/new-connections': '1000/s' });
        await until('the new rate', async () => !(await opened(() => world.open('pod-3'), 30)).includes(REFUSED));
        await world.become({});
        await until('no limit', async () => !(await opened(() => world.open('pod-3'), 30)).includes(REFUSED));
      });
    });
  }
}

export function describeConnectionLimits(options: LimitsOptions): void {
  for (const w of [cluster('IPv4'), cluster('IPv6')]) {
    describe(`open connections of a Service, ${options.mode}, ${w.family}`, () => {
      const world = limitedLab(w, options);
      const ended = () =>
        world.lab.exec('node', 'conntrack', '-D', '-p', 'tcp', '-f', w.family === 'IPv4' ? 'ipv4' : 'ipv6');

      it('beyond the limit of one client are refused, and those of other clients are not', async () => {
        await world.become({ 'slicewire.dev/max-connections-per-client': '3' });
        await world.start();
        assert.deepEqual(await opened(() => world.open('pod-3'), 5), [...Array(3).fill('pod-1'), REFUSED, REFUSED]);
        assert.deepEqual(await opened(() => world.open('pod-2'), 4), [...Array(3).fill('pod-1'), REFUSED]);
        assert.equal(await world.refused('max-connections-per-client'), 3);
        await ended();
        assert.equal(await world.open('pod-3'), 'pod-1', 'after the end of the others');
        const { out } = await world.node.asks('explain', w.address('pod-3'), `svc/default/web:tcp`);
        assert.match(out, /max-connections-per-client"\]: 3\s/);
      });

      it('of one client follow another limit at once', async () => {
        await world.become({ 'slicewire.dev/max-connections-per-client': '2' });
        await world.start();
        assert.deepEqual(await opened(() => world.open('pod-3'), 3), ['pod-1', 'pod-1', REFUSED]);
        await world.become({ 'slicewire.dev/max-connections-per-client': '5' });
        // It counts anew, with the connections from then on.
        await until('another limit', async () => (await world.open('pod-3')) === 'pod-1');
        assert.ok((await opened(() => world.open('pod-3'), 6)).includes(REFUSED));
        await world.become({});
        await until('no limit', async () => !(await opened(() => world.open('pod-3'), 10)).includes(REFUSED));
      });

      it('beyond the limit of all clients are refused; a change of endpoints and a restart forget no connection', async () => {
        const limit = { 'slicewire.dev/max-connections': '3' };
        await world.become(limit);
        await world.start();
        assert.deepEqual(await opened(() => world.open('pod-3'), 2), ['pod-1', 'pod-1']);
        assert.deepEqual(await opened(() => world.open('pod-2'), 2), ['pod-1', REFUSED]);
        await world.become(limit, {}, ['pod-2']);
        const goesTo = async (pod: string) =>
          (await world.node.asks('explain', w.address('pod-3'), 'svc/default/web:tcp')).out.includes(
            `${w.address(pod as 'pod-1')}`,
          );
        await until('the other endpoint', () => goesTo('pod-2'));
        assert.equal(await world.open('client', { address: w.node, port: NODE_PORT }), REFUSED);
        await world.node.stop();
        await world.restart();
        assert.equal(await world.open('node'), REFUSED);
        assert.equal(await world.open('pod-3', { address: w.clusterIP(11), port: PORT }), 'pod-1', 'another Service');
        await ended();
        assert.equal(await world.open('pod-3'), 'pod-2', 'after the end of the others');
      });

      it('hold together, with session affinity and a stable choice as well', async () => {
        const limits = { 'slicewire.dev/max-connections': '2', 'slicewire.dev/new-connections': '1000/s' };
        await world.become(limits, {
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
        });
        await world.start();
        assert.deepEqual(await opened(() => world.open('pod-3'), 3), ['pod-1', 'pod-1', REFUSED]);
        await ended();
        await world.become({ ...limits, 'slicewire.dev/balance': 'hash' }, {}, ['pod-1', 'pod-2']);
        await until('the stable choice', async () =>
          (await world.node.asks('explain', w.address('pod-3'), 'svc/default/web:tcp')).out.includes('selects among'),
        );
        const [first, second, third] = await opened(() => world.open('pod-3'), 3);
        assert.deepEqual([first === second, third], [true, REFUSED]);
      });
    });
  }
}
