/** `--mode=auto` with a real agent and a real kernel: what stands on the node stays, and an empty node gets nftables mode. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { podAddress } from '../../src/cli/lab/lab.ts';
import { POD_PORT, WEB } from '../helpers/cli/lab/web.ts';
import { webNode } from '../helpers/cli/lab/web-node.ts';
import { generationIn } from '../helpers/kernel/generation.ts';
import { MODE_REASONS } from '../messages/mode-choices.ts';
import { kubeProxyRules } from './kube-proxy-rules.ts';
import { kubeProxyTable } from './kube-proxy-table.ts';
import { askNode } from './node-server.ts';

const AUTO = '--mode=auto';
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;
const BACKENDS = ['nft', 'legacy'] as const;
const BY_KUBE_PROXY = [
  { id: 'default/web', clusterIP: WEB, port: 80, endpoints: [1, 2].map((n) => `${podAddress(n).v4}:${POD_PORT}`) },
];

describe('auto', () => {
  const web = webNode();

  async function works(...flags: string[]): Promise<AgentProcess> {
    const agent = web.node.start(...flags);
    await synced(agent);
    return agent;
  }

  async function synced(agent: AgentProcess, since = 0): Promise<void> {
    await agent.logged(({ msg }) => msg.startsWith('synced'), { since, within: PATIENCE });
  }

  /** It chose so, says why in the log and in its answers, and serves. */
  async function chose(agent: AgentProcess, mode: string, why: string): Promise<void> {
    const told = agent.log.filter(({ msg }) => msg.startsWith('auto chose'));
    assert.deepEqual(
      told.map(({ msg }) => msg),
      [`auto chose ${mode} mode, because ${why}`],
    );
    assert.equal((await askNode(web.lab, '/proxyMode', 10_249)).body, mode);
    const { by } = JSON.parse((await askNode(web.lab, '/status', 10_249)).body) as { by: Record<string, string> };
    assert.deepEqual([by.mode, by.modeReason], [mode, why]);
    assert.equal((await web.lab.ask('pod-3', { address: WEB, port: 80 })).outcome, 'reply');
  }

  async function stopped(agent: AgentProcess): Promise<void> {
    await agent.stop();
    assert.equal(await agent.ended, 0);
  }

  async function restored(backend: (typeof BACKENDS)[number]): Promise<void> {
    const file = join(web.node.folder, 'kube-proxy');
    await writeFile(file, kubeProxyRules(BY_KUBE_PROXY));
    await web.lab.exec('node', `iptables-${backend}-restore`, '--noflush', file);
  }

  it('chooses nftables mode on an empty node, and a restart keeps it and writes nothing', async () => {
    const first = await works(AUTO);
    await chose(first, 'nftables', MODE_REASONS.nothing);
    await stopped(first);
    const before = generationIn(web.lab.namespace('node'));
    const second = await works(AUTO);
    await chose(second, 'nftables', MODE_REASONS.table);
    assert.equal(generationIn(web.lab.namespace('node')), before);
  });

  it('asks without a trace: plan, status and --init-only say the same mode, and leave an empty node empty', async () => {
    const before = generationIn(web.lab.namespace('node'));
    const plan = await web.node.run('plan', AUTO);
    assert.equal(plan.status, 2, plan.error);
    assert.match(plan.out, /^\+ IPv4 elements of default\/web/m);
    const status = await web.node.run('status', AUTO);
    assert.match(status.out, new RegExp(`^Mode: auto chose nftables, because ${MODE_REASONS.nothing}$`, 'm'));
    assert.equal((await web.node.run('run', '--init-only', AUTO)).status, 0);
    assert.equal(await web.lab.exec('node', 'nft', 'list', 'ruleset'), '');
    assert.equal(generationIn(web.lab.namespace('node')), before);
  });

  for (const backend of BACKENDS) {
    it(`keeps iptables mode where kube-proxy's rules stand, --iptables-backend ${backend}`, async () => {
      await restored(backend);
      const flags = [AUTO, '--iptables-backend', backend];
      const agent = await works(...flags);
      await chose(agent, 'iptables', MODE_REASONS.chains);
      await stopped(agent);
      assert.equal((await web.node.run('run', '--once', ...flags)).status, 0);
      assert.equal(
        (await web.node.run('plan', '--mode=iptables', '--iptables-backend', backend)).out,
        'nothing to do\n',
      );
    });
  }

  it("keeps nftables mode where kube-proxy's table stands", async () => {
    const file = join(web.node.folder, 'kube-proxy');
    await writeFile(file, kubeProxyTable(BY_KUBE_PROXY));
    await web.lab.exec('node', 'nft', '-f', file);
    await chose(await works(AUTO), 'nftables', MODE_REASONS.kubeProxyTable);
  });

  it('is read from a file, whose reload from a named mode to auto keeps the mode that works', async () => {
    const file = join(web.node.folder, 'config.conf');
    const writes = (mode: string, period = '30s') =>
      writeFile(
        file,
        `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ${mode}\nconntrack: {maxPerCore: 0}\niptables: {syncPeriod: ${period}}\n`,
      );
    await writes('iptables');
    const agent = await works('--config', file);
    let since = agent.log.length;
    await writes('auto');
    await synced(agent, since);
    await chose(agent, 'iptables', MODE_REASONS.chains);
    since = agent.log.length;
    await writes('auto', '20s');
    await synced(agent, since);
    await chose(agent, 'iptables', MODE_REASONS.chains);
  });
});
