/**
 * One proxy takes over from another while new connections are made all the time: between iptables mode and nftables mode,
 * and from kube-proxy in nftables mode. The new one is complete before anything of the former goes.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { kubeProxyTable } from './kube-proxy-table.ts';

/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;
const ROUTES = [
  { from: 'pod-3', address: WEB, port: 80 },
  { from: 'pod-1', address: WEB, port: 80 },
  { from: 'node', address: WEB, port: 80 },
  { from: 'client', address: LAB.node.v4, port: NODE_PORT },
] as const;
const BACKENDS = ['nft', 'legacy'] as const;
type Backend = (typeof BACKENDS)[number];
/** In nftables mode: which rules may have been left. */
const flags = (mode: 'iptables' | 'nftables', backend: Backend = 'nft') => [
  `--mode=${mode}`,
  '--iptables-backend',
  backend,
  '--cluster-cidr',
  LAB.clusterCidr.v4,
];

describe('one proxy takes over from another under continuous connections', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    // What is not translated is refused there at once, rather than lost and sent again.
    await lab.exec('client', 'ip', 'address', 'add', `${WEB}/32`, 'dev', 'lo');
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2], { hasOther: false }));
  });
  afterEach(async () => {
    await node.clear();
    for (const backend of BACKENDS) await node.run('cleanup', '--iptables-backend', backend);
  });

  const nft = (...words: string[]) => lab.exec('node', 'nft', ...words);

  /** All rules of proxies that iptables wrote, by its variant. */
  async function rules(backend: Backend): Promise<string[]> {
    const both = await Promise.all(
      ['iptables', 'ip6tables'].map((family) => lab.exec('node', `${family}-${backend}-save`)),
    );
    return both
      .join('\n')
      .split('\n')
      .filter((line) => line.includes('KUBE-') && !line.includes('KUBE-FIREWALL'));
  }

  async function tables(): Promise<string[]> {
    const said = await nft('list', 'tables');
    return said.split('\n').filter((line) => / (slicewire|kube-proxy)$/.test(line));
  }

  /** Connections that stay: who answers each, and whom it sees. */
  const asksKept = () =>
    Promise.all(
      ROUTES.map(({ from, address, port }, i) => lab.ask(from, { address, port, keep: `${i}`, timeout: 15_000 })),
    );

  /** No request fails while each of these works in turn, and connections that were made under the first live on. */
  async function passes(turns: readonly (() => Promise<void>)[]): Promise<void> {
    const [first, ...others] = turns;
    await first?.();
    const kept = await asksKept();
    for (const answer of kept) assert.equal(answer.outcome, 'reply');
    const traffic = startTraffic(lab, ROUTES, { pause: 0 });
    try {
      for (const turn of others) await turn();
    } finally {
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), [], `${failures.length} of ${requests}`);
      assert.ok(requests > 100, `only ${requests} connections`);
    }
    assert.deepEqual(await asksKept(), kept);
  }

  /** An agent works until it is replaced. */
  async function works(...flags: string[]): Promise<void> {
    const agent = node.start(...flags);
    await agent.synced(0, PATIENCE);
    await agent.stop();
    assert.equal(await agent.ended, 0);
    const bad = agent.log.filter(({ level }) => level === 'warn' || level === 'error');
    assert.deepEqual(bad, []);
  }

  async function kubeProxyWorks(): Promise<void> {
    const file = join(node.folder, 'kube-proxy.nft');
    const endpoints = [1, 2].map((n) => `${podAddress(n).v4}:${POD_PORT}`);
    const web = { id: 'default/web', clusterIP: WEB, port: 80, nodePort: NODE_PORT, endpoints };
    const options = { clusterCidr: LAB.clusterCidr.v4, nodeAddress: LAB.node.v4 };
    await writeFile(file, `${kubeProxyTable([web], options)}add table ip6 kube-proxy\n`);
    await nft('-f', file);
  }

  const nftablesWorks = async (backend: Backend = 'nft') => {
    await works(...flags('nftables', backend));
    assert.deepEqual(await tables(), ['table ip slicewire', 'table ip6 slicewire']);
    for (const each of BACKENDS) assert.deepEqual(await rules(each), []);
  };

  const iptablesWorks = async (backend: Backend = 'nft') => {
    await works(...flags('iptables', backend));
    assert.ok((await rules(backend)).length > 0);
    assert.deepEqual(await tables(), []);
  };

  for (const backend of BACKENDS) {
    it(`from iptables mode to nftables mode and back, --iptables-backend ${backend}`, async () => {
      const [byRules, byTable] = [() => iptablesWorks(backend), () => nftablesWorks(backend)];
      await passes([byRules, byTable, byRules, byTable]);
    });
  }

  it('from kube-proxy in nftables mode to nftables mode', async () => {
    await passes([kubeProxyWorks, () => nftablesWorks()]);
  });

  it('from kube-proxy in nftables mode to iptables mode', async () => {
    await passes([kubeProxyWorks, () => iptablesWorks()]);
  });

  for (const { from, first, to, next, gone } of [
    {
      from: 'kube-proxy in nftables mode',
      first: kubeProxyWorks,
      to: 'nftables mode',
      next: flags('nftables'),
      gone: /^delete (rule|table) ip6? kube-proxy/,
    },
    {
      from: 'iptables mode',
      first: () => iptablesWorks(),
      to: 'nftables mode',
      next: flags('nftables'),
      gone: /^delete (rule|chain) ip6? (nat|filter) /,
    },
    {
      from: 'nftables mode',
      first: () => nftablesWorks(),
      to: 'iptables mode',
      next: flags('iptables'),
      gone: /^delete (rule|table) ip6? slicewire/,
    },
  ]) {
    it(`nothing of ${from} goes before all of ${to} is written`, async () => {
      await first();
      const events = await watched(() => works(...next));
      const wrote = /^create element ip6? slicewire |^add rule ip6? (nat|filter) /;
      const lastWrite = events.findLastIndex((event) => wrote.test(event));
      const firstLoss = events.findIndex((event) => gone.test(event));
      assert.ok(lastWrite >= 0 && firstLoss > lastWrite, `${lastWrite} ${firstLoss}\n${events.join('\n')}`);
    });
  }

  /** What is added to the ruleset and deleted meanwhile, in its order. */
  async function watched(act: () => Promise<void>): Promise<string[]> {
    const events: string[] = [];
    const monitor: Child = startChild({
      ...lab.inside('node', 'nft', ['monitor']),
      onLine: (line) => events.push(line.trim()),
    });
    node.keep(monitor);
    const isHeard = (name: string) => () => events.some((event) => event.startsWith(`add table ip ${name}`));
    for (let tries = 0; !isHeard('begin')() && tries < 50; tries++) {
      await nft('add table ip begin; delete table ip begin');
      await until('the monitor listens', isHeard('begin'), 500).catch(() => undefined);
    }
    await act();
    await nft('add table ip end; delete table ip end');
    await until('the monitor reported all', isHeard('end'), PATIENCE);
    return events;
  }
});
