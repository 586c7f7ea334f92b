/**
 * kube-proxy that runs beside the agent, by what it writes: told once, in the log and in the notes of health; the agent repairs its own
 * rules, and does not remove the other's again and again.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess, LogLine } from '../../src/cli/lab/agent-process.ts';
import { podAddress } from '../../src/cli/lab/lab.ts';
import { POD_PORT, WEB } from '../helpers/cli/lab/web.ts';
import { webNode } from '../helpers/cli/lab/web-node.ts';
import { generationIn } from '../helpers/kernel/generation.ts';
import { kubeProxyRules } from './kube-proxy-rules.ts';
import { kubeProxyTable } from './kube-proxy-table.ts';
import { askNode } from './node-server.ts';

const SERVICES = [
  { id: 'default/web', clusterIP: WEB, port: 80, endpoints: [1, 2].map((n) => `${podAddress(n).v4}:${POD_PORT}`) },
];
const isTold = ({ level, msg }: LogLine) => level === 'warn' && msg.includes('seems to run beside this agent');

/** What kube-proxy writes, and the agent's modes in which no sync repairs it. A device needs a module: test/agent/other-proxies.test.ts. */
const WRITES = [
  {
    by: 'nftables',
    modes: ['iptables', 'nftables'],
    who: 'kube-proxy in nftables mode',
    what: 'the IPv4 nftables table kube-proxy came back',
  },
  {
    by: 'rules',
    modes: ['nftables'],
    who: 'kube-proxy in iptables or IPVS mode',
    what: 'the chain KUBE-SERVICES of the iptables table nat came back',
  },
] as const;

describe('kube-proxy beside the agent', () => {
  const web = webNode();

  /** As kube-proxy writes them, also over those of the agent. */
  async function writes(by: (typeof WRITES)[number]['by'], backend = 'nft'): Promise<void> {
    const file = join(web.node.folder, 'kube-proxy');
    if (by === 'nftables') {
      await writeFile(file, kubeProxyTable(SERVICES));
      await web.lab.exec('node', 'nft', '-f', file);
    } else {
      await writeFile(file, kubeProxyRules(SERVICES));
      await web.lab.exec('node', `iptables-${backend}-restore`, '--noflush', file);
    }
  }

  async function works(mode: string, backend = 'nft'): Promise<AgentProcess> {
    const periods = [`--iptables-sync-period=1s`, `--iptables-min-sync-period=0s`];
    const agent = web.node.start(`--mode=${mode}`, ...periods, '--iptables-backend', backend);
    await agent.logged(({ msg }) => msg.startsWith('synced'));
    // A look at the node without another proxy.
    await pause(1500);
    assert.deepEqual(agent.log.filter(isTold), []);
    return agent;
  }

  async function isNoted(who: string): Promise<void> {
    const { status, body } = await askNode(web.lab, '/healthz');
    assert.equal(status, 200, body);
    const { notes } = JSON.parse(body) as { notes: readonly string[] };
    assert.equal(notes.filter((note) => note.startsWith(`${who} seems to run beside this agent`)).length, 1, body);
  }

  for (const { by, modes, who, what } of WRITES) {
    for (const mode of modes) {
      it(`${by} written again, in ${mode} mode`, async () => {
        const agent = await works(mode);
        await writes(by);
        const { msg } = await agent.logged(isTold);
        assert.ok(msg.startsWith(`${who} seems to run beside this agent: ${what}`), msg);
        assert.match(msg, / within an hour, or at its next start$/);
        const generation = generationIn(web.lab.namespace('node'));
        await pause(3000);
        assert.equal(agent.log.filter(isTold).length, 1, 'it is told once');
        assert.equal(
          generationIn(web.lab.namespace('node')),
          generation,
          'nothing is removed or written again and again',
        );
        await isNoted(who);
        assert.equal((await web.lab.ask('pod-3', { address: WEB, port: 80 })).outcome, 'reply');
        // The next start removes it.
        await agent.stop();
        const next = web.node.start(`--mode=${mode}`);
        await next.logged(({ msg: said }) => said.startsWith('synced'));
        assert.equal((await web.node.run('plan', `--mode=${mode}`)).status, 0);
      });
    }
  }

  for (const backend of ['nft', 'legacy']) {
    it(`rules written over those of iptables mode, --iptables-backend ${backend}`, async () => {
      const agent = await works('iptables', backend);
      for (let i = 0; i < 2; i++) {
        const since = agent.log.length;
        await writes('rules', backend);
        await agent.logged(({ msg }) => /^another program.* changed rules of ours/.test(msg), { since });
        await agent.logged(({ msg }) => msg.startsWith('synced'), { since });
        assert.equal((await web.lab.ask('pod-3', { address: WEB, port: 80 })).outcome, 'reply');
      }
      const [told, ...more] = agent.log.filter(isTold);
      assert.match(
        told?.msg ?? '',
        /^kube-proxy seems to run beside this agent: it wrote the IPv4 nat chain KUBE-S\w+-/,
      );
      assert.deepEqual(more, []);
      await isNoted('kube-proxy');
      const rules = await web.lab.exec('node', `iptables-${backend}-save`, '-t', 'nat');
      assert.ok(!rules.includes('KUBE-SEP-'), 'its chains are removed');
    });
  }

  it('is not taken for one: cleanup, a sync of our own beside the agent, and rules of others', async () => {
    const agent = await works('iptables');
    assert.equal((await web.node.run('run', '--once', '--mode=iptables')).status, 0);
    await web.lab.exec('node', 'iptables', '-t', 'nat', '-N', 'KUBE-KUBELET-CANARY');
    await web.lab.exec('node', 'nft', 'add table ip theirs');
    const since = agent.log.length;
    await web.node.run('cleanup');
    await agent.logged(({ msg }) => msg.startsWith('synced'), { since });
    await pause(1500);
    assert.deepEqual(agent.log.filter(isTold), []);
    await web.lab.exec('node', 'nft', 'delete table ip theirs');
    await web.lab.exec('node', 'iptables', '-t', 'nat', '-X', 'KUBE-KUBELET-CANARY');
  });
});
