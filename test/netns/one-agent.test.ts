/** One agent on a node: a second one ends before it writes anything, whatever the first one does; other commands work beside it. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode, type Ran } from '../helpers/cli/lab/manifest-node.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { generationIn } from '../helpers/kernel/generation.ts';
import { OWN_LOCK } from '../helpers/kernel/own-lock.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const MODE = '--mode=nftables';
const TIMEOUT = 'net.netfilter.nf_conntrack_tcp_timeout_established';
const ENDS = 'This one wrote nothing, and exits';

describe('one agent on a node', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());
  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    const endpoints = [{ addresses: [podAddress(1).v4], nodeName: 'node' }];
    await node.write(
      'web',
      service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
      slice({ name: 'web-1', service: 'web', addressType: 'IPv4', ports: [{ name: '', port: 8080 }], endpoints }),
    );
  });
  afterEach(async () => {
    await node.stop();
    await node.run('cleanup');
    await node.run('cleanup', '--iptables-backend', 'legacy');
    await node.clear();
  });

  const generation = () => generationIn(lab.namespace('node'));

  async function works(...flags: string[]): Promise<AgentProcess> {
    const agent = node.start(MODE, ...flags);
    await agent.logged(({ msg }) => msg.startsWith('synced'));
    return agent;
  }

  /** The first agent has written again what a cleanup removed, and writes no more. */
  async function isRepaired(): Promise<void> {
    await until('the repair', async () => {
      const before = generation();
      await pause(1000);
      const tables = await lab.exec('node', 'nft', 'list', 'tables');
      return before === generation() && tables.includes('table ip slicewire') && tables.includes('table ip6 slicewire');
    });
  }

  const kill = (agent: AgentProcess, signal: NodeJS.Signals) => {
    assert.ok(agent.pid !== undefined && agent.pid > 1);
    process.kill(agent.pid, signal);
  };

  /** A second agent, which would write rules, settings and its own score. */
  async function isRefused(pid: number | undefined, says: RegExp): Promise<Ran> {
    await lab.exec('node', 'sysctl', '-qw', `${TIMEOUT}=4000`);
    const before = generation();
    const second = await node.run('run', '--mode=iptables', '--oom-score-adj', '900');
    assert.equal(second.status, 1);
    assert.match(second.error, says);
    assert.ok(second.error.includes(ENDS) && second.error.includes(String(pid)), second.error);
    assert.ok(!second.error.includes('oom_score_adj') && !second.error.includes('the initial lists'));
    assert.equal(generation(), before, 'nothing is written');
    assert.equal((await lab.exec('node', 'sysctl', '-n', TIMEOUT)).trim(), '4000');
    return second;
  }

  it('a second one says who runs, and writes nothing; the other commands work beside it', async () => {
    const first = await works();
    const says = /^slicewire: another slicewire agent runs .*: pid \d+, since 20\S+Z, in nftables mode\./m;
    await isRefused(first.pid, says);
    for (const [command, ...flags] of [
      ['run', '--once'],
      ['plan'],
      ['verify'],
      ['explain', '10.244.1.9', '10.96.0.10:80'],
    ]) {
      const { status, error } = await node.run(command ?? '', MODE, ...flags);
      assert.ok(status !== 1 || !error.includes(ENDS), `${command} ${flags}: ${error}`);
      assert.notEqual(status, undefined);
    }
    assert.match(await lab.exec('node', ...SLICEWIRE, 'status'), /nftables/);
    assert.match(await lab.exec('node', ...SLICEWIRE, 'history'), /\S/);
    await node.run('cleanup');
    kill(first, 'SIGHUP');
    await isRepaired();
    await isRefused(first.pid, says);
    // It goes on all the time.
    assert.equal(first.log.filter(({ level }) => level === 'error').length, 0);
    await first.stop();
    assert.equal(await first.ended, 0);
    await works();
  });

  it('names it by the pid that is seen from where one asks, as from another container', async () => {
    const container = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
    const first = await works();
    const inside = await node.runBy(container, 'run', MODE);
    assert.equal(inside.status, 1);
    assert.ok(inside.error.includes(`pid ${first.pid} in a pid namespace that this process does not see, since`));
    await first.stop();
    const contained = node.startBy(container, MODE);
    await contained.logged(({ msg }) => msg.startsWith('synced'));
    const { status, error } = await node.run('run', MODE);
    assert.equal(status, 1);
    const [, pid] = /another slicewire agent runs .*: pid (\d+), since/.exec(error) ?? [];
    assert.ok(Number(pid) > 1, error);
  });

  it('one that was stopped is named', async () => {
    const first = await works();
    kill(first, 'SIGSTOP');
    try {
      await isRefused(first.pid, /holds the name of this node's agent, and did not answer within 1 s/);
    } finally {
      kill(first, 'SIGCONT');
    }
  });

  it('starts while one that was killed is still there', async () => {
    for (let i = 0; i < 5; i++) {
      const first = await works();
      kill(first, 'SIGKILL');
      const second = await works();
      await second.stop();
    }
  });

  it('of two that start at once, one runs and the other ends', async () => {
    for (let i = 0; i < 5; i++) {
      const both = [node.start(MODE), node.start(MODE)];
      const [status, loser] = await Promise.race(both.map(async (agent) => [await agent.ended, agent] as const));
      assert.equal(status, 1);
      const texts = both.map((agent) => agent.text());
      assert.equal(texts.filter((text) => text.includes(ENDS)).length, 1, texts.join('\n'));
      await both.find((agent) => agent !== loser)?.logged(({ msg }) => msg.startsWith('synced'));
      await node.stop();
    }
  });

  it('waits while the one before ends, as in a rolling update, and takes over at once', async () => {
    const legacy = ['--mode=iptables', '--iptables-backend', 'legacy'];
    const first = node.start(...legacy, '--iptables-min-sync-period', '0s', '-v', '4');
    await first.synced();
    const since = first.log.length;
    // A write that waits for the lock may end, within 10 s.
    const holder = node.keep(startChild({ file: 'flock', args: ['--no-fork', OWN_LOCK, 'sleep', '60'] }));
    await node.write('other', service({ name: 'other', spec: { clusterIP: '10.96.0.11', ports: [{ port: 80 }] } }));
    await first.logged((line) => JSON.stringify(line).includes('default/other'), { since });
    kill(first, 'SIGTERM');
    const second = node.start(...legacy);
    await second.logged(({ msg }) => msg.includes(`is ending (pid ${first.pid}, since`));
    assert.equal(second.log.filter(({ msg }) => msg.includes('is ending')).length, 1);
    await holder.stop();
    assert.equal(await first.ended, 0);
    await second.logged(({ msg }) => msg.startsWith('synced'));
  });

  it('is not kept from starting by a process of another user, and takes the name when that is gone', async () => {
    const script = "require('node:net').createServer().listen({ path: '\\0slicewire' }, () => console.log('here'))";
    const args = ['--reuid', '65534', '--clear-groups', process.execPath, '-e', script];
    let isThere: () => void = () => undefined;
    const there = new Promise<void>((resolve) => {
      isThere = resolve;
    });
    const stranger = node.keep(startChild({ ...lab.inside('node', 'setpriv', args), onLine: () => isThere() }));
    await there;
    const agent = await works();
    const warned = agent.log.filter(({ level }) => level === 'warn').map(({ msg }) => msg);
    assert.equal(warned.length, 1);
    assert.match(warned[0] ?? '', new RegExp(`^the process with pid ${stranger.pid} \\(uid 65534\\) holds the name`));
    await stranger.stop();
    await agent.logged(({ msg }) => msg.includes('was free: this agent has it now'));
    await isRefused(agent.pid, /another slicewire agent runs/);
  });
});
