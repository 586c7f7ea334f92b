/** `slicewire.dev/balance: hash` with real connections, in nftables mode (docs/traffic.md, k8s#132710). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Address, FAMILIES, type Family } from '../../src/base/address.ts';
import { Host, Lab } from '../../src/cli/lab/lab.ts';
import { Namespaces } from '../../src/cli/lab/network.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { cluster } from '../conformance/cluster.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { clusterCidr, POD_PORT, PORT, pods } from '../conformance/stories/build.ts';
import { answerText } from '../helpers/cli/lab/answer-text.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { fatesIn } from '../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';
import { nftablesUnderTest } from './nftables-under-test.ts';
import { viewOf } from './same-fates.ts';

const CLIENTS = 40;
const TIMEOUT = 4000;

function web(clusterIP: string, balance: string, family: Family): object {
  const spec = { clusterIP, clusterIPs: [clusterIP], ipFamilies: [family], ports: [{ port: PORT }] };
  return service({ name: 'web', spec, annotations: { 'slicewire.dev/balance': balance } });
}

for (const family of FAMILIES) {
  describe(`a stable choice, nftables, ${family}`, () => {
    const w = cluster(family);
    const clients = Array.from({ length: CLIENTS }, (_, i) =>
      family === 'IPv4' ? `10.244.1.${100 + i}` : `fd00:244:1::${(0x100 + i).toString(16)}`,
    );
    let lab: Lab;
    let mode: ReturnType<typeof nftablesUnderTest>;
    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 1, signal: NEVER });
      for (const pod of ['pod-1', 'pod-2']) await lab.serve(pod, 'TCP', POD_PORT);
      await lab.serve('other', 'TCP', POD_PORT, w.address('other'));
      for (const address of clients) {
        const bits = family === 'IPv4' ? ['24'] : ['64', 'nodad'];
        await lab.exec('pod-3', 'ip', 'address', 'add', `${address}/${bits[0]}`, 'dev', 'eth0', ...bits.slice(1));
      }
      mode = nftablesUnderTest(lab, { silence: 400, answer: TIMEOUT });
    });
    after(async () => {
      mode.close();
      await lab.remove();
    });

    const ask = async (from: string, keep?: string) =>
      answerText(await lab.ask('pod-3', { address: w.clusterIP(10), port: PORT, from, timeout: TIMEOUT, keep }));
    async function served(balance: string): Promise<Rig> {
      const state = {
        objects: [web(w.clusterIP(10), balance, family), pods(w, 'pod-1', 'pod-2', 'other')],
        packets: [],
      };
      const rig = (await mode.open({ ...state, settings: clusterCidr(w) }, family)).become(state);
      assert.equal((await rig.sync()).outcome, 'complete');
      return rig;
    }

    it('gives a client the endpoint that explain tells, by each of its connections', async () => {
      const view = await viewOf(await served('hash'), family);
      const names = new Map<string, string>(
        (['pod-1', 'pod-2', 'other'] as const).map((name) => [w.address(name), name]),
      );
      const seen = new Set<string>();
      for (const source of clients) {
        const at = { source: source as Address, destination: w.clusterIP(10), port: PORT };
        const packet = { protocol: 'TCP', ...at, device: 'cni0', state: 'NEW' } as const;
        const fates = fatesIn(view, packet, { localAddresses: w.local, remembered: new Set() });
        assert.equal(fates.length, 1, JSON.stringify(fates));
        const address = /^\[?(.*?)\]?:8080$/.exec(fates[0]?.backend ?? '')?.[1] ?? '';
        for (let n = 0; n < 2; n++) assert.equal(await ask(source), names.get(address), source);
        seen.add(address);
      }
      assert.equal(seen.size, 3);
    });

    it('spreads the connections of one client over its ports where the port counts', async () => {
      await served('hash-port');
      const seen = new Set<string>();
      for (let n = 0; n < 40; n++) seen.add(await ask(clients[0] ?? ''));
      assert.deepEqual(seen, new Set(['pod-1', 'pod-2', 'other']));
    });

    /** Connections that go on after the kernel forgot all of them, as on a node that takes over. */
    async function kept(balance: string): Promise<number> {
      await served(balance);
      const names = clients.map((source, i) => ({ source, keep: `${balance} ${family} ${i}` }));
      const first: string[] = [];
      for (const { source, keep } of names) first.push(await ask(source, keep));
      await lab.exec('node', 'conntrack', '-F');
      const then: string[] = [];
      for (const { source, keep } of names) then.push(await ask(source, keep));
      return then.filter((answer, i) => answer === first[i]).length;
    }

    it('keeps all connections when the kernel forgets them, and chance keeps few', async (t) => {
      const [random, hashed, withPort] = [await kept('random'), await kept('hash'), await kept('hash-port')];
      t.diagnostic(`kept of ${CLIENTS}: ${random} at random, ${hashed} by address, ${withPort} by address and port`);
      assert.deepEqual([hashed, withPort], [CLIENTS, CLIENTS]);
      assert.ok(random < CLIENTS * 0.8, `${random}`);
    });
  });
}

const HOST = fileURLToPath(new URL('../../src/cli/lab/host-process.ts', import.meta.url));
const VIP = '10.96.0.10';
const SERVERS = ['s1', 's2', 's3'] as const;

/** A client and three servers, with two nodes between them: either can be the way there and back. */
class TwoWays {
  readonly names = new Namespaces(shellCommands, NEVER);
  readonly hosts = new Map<string, Host>();
  readonly kernels: NftNetlink[] = [];

  async create(): Promise<void> {
    for (const name of ['front', 'back', 'client', 'a', 'b', ...SERVERS]) await this.names.add(name);
    for (const name of ['front', 'back']) {
      await this.#ip(name, 'link', 'add', 'br0', 'type', 'bridge');
      await this.#ip(name, 'link', 'set', 'br0', 'up');
    }
    await this.#plug('client', 'front', '192.0.2.10/24');
    for (const [i, node] of ['a', 'b'].entries()) {
      await this.#plug(node, 'front', `192.0.2.${i + 1}/24`);
      await this.#plug(node, 'back', `198.18.0.${i + 1}/24`);
      await this.names.exec(node, 'sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.all.rp_filter=0');
    }
    for (const [i, server] of SERVERS.entries()) await this.#plug(server, 'back', `198.18.0.${11 + i}/24`);
    for (let i = 0; i < CLIENTS; i++)
      await this.#ip('client', 'address', 'add', `192.0.2.${100 + i}/24`, 'dev', 'front');
    for (const name of ['client', ...SERVERS]) {
      const host = new Host(this.names.inside(name, process.execPath, [HOST]));
      this.hosts.set(name, host);
      if (name !== 'client') await host.command({ kind: 'serve', protocol: 'TCP', port: POD_PORT, name });
    }
  }

  /** The way there and back goes through this node from now on. */
  async lead(node: 'a' | 'b'): Promise<void> {
    const [front, back] = node === 'a' ? ['192.0.2.1', '198.18.0.1'] : ['192.0.2.2', '198.18.0.2'];
    await this.#ip('client', 'route', 'replace', '10.96.0.0/16', 'via', front);
    for (const server of SERVERS) await this.#ip(server, 'route', 'replace', '192.0.2.0/24', 'via', back);
  }

  /** Each node has an agent of its own, which knows nothing of the other one. */
  async serve(node: 'a' | 'b', balance: string): Promise<void> {
    const kernel = new NftNetlink(transportsIn(this.names.name(node)));
    this.kernels.push(kernel);
    const families = FAMILIES.map((family) => nftablesSettingsOf(family, {}));
    const rig = new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }), nodeName: node });
    const endpoints = SERVERS.map((_, i) => ({ addresses: [`198.18.0.${11 + i}`], nodeName: 'elsewhere' }));
    const ports = [{ name: '', port: POD_PORT }];
    rig.put(web(VIP, balance, 'IPv4'), slice({ name: 'web-1', service: 'web', ports, endpoints }));
    assert.equal((await rig.sync()).outcome, 'complete');
  }

  async remove(): Promise<void> {
    for (const kernel of this.kernels) kernel.close();
    for (const host of this.hosts.values()) await host.stop();
    await this.names.remove();
  }

  async #ip(name: string, ...args: string[]): Promise<void> {
    await this.names.exec(name, 'ip', ...args);
  }

  async #plug(name: string, bridge: 'front' | 'back', address: string): Promise<void> {
    const port = `p-${name}`;
    await this.#ip(bridge, 'link', 'add', port, 'type', 'veth', 'peer', 'name', bridge, 'netns', this.names.name(name));
    await this.#ip(bridge, 'link', 'set', port, 'master', 'br0', 'up');
    await this.#ip(name, 'address', 'add', address, 'dev', bridge);
    for (const device of ['lo', bridge]) await this.#ip(name, 'link', 'set', device, 'up');
  }
}

describe('a stable choice, by two nodes', () => {
  let ways: TwoWays;
  before(async () => {
    ways = new TwoWays();
    await ways.create();
  });
  after(() => ways.remove());

  /** Connections through one node that go on when all packets come through the other. */
  async function kept(balance: string): Promise<number> {
    for (const node of ['a', 'b'] as const) await ways.serve(node, balance);
    const client = ways.hosts.get('client') ?? assert.fail();
    const ask = async (i: number) =>
      answerText(
        await client.command({
          ...{ kind: 'ask', protocol: 'TCP', address: VIP, port: PORT, timeout: TIMEOUT },
          ...{ from: `192.0.2.${100 + i}`, keep: `${balance} ${i}` },
        }),
      );
    const all = [...Array(CLIENTS).keys()];
    await ways.lead('a');
    const first: string[] = [];
    for (const i of all) first.push(await ask(i));
    assert.deepEqual(new Set(first), new Set(SERVERS));
    await ways.lead('b');
    const then: string[] = [];
    for (const i of all) then.push(await ask(i));
    return then.filter((answer, i) => answer === first[i]).length;
  }

  it('keeps all connections that arrive at the other node, where chance keeps some', async (t) => {
    const [hashed, random] = [await kept('hash'), await kept('random')];
    t.diagnostic(`kept of ${CLIENTS} at the other node: ${hashed} by address, ${random} at random`);
    assert.equal(hashed, CLIENTS);
    assert.ok(random < CLIENTS * 0.8, `${random}`);
  });
});
