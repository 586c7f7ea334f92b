/** What another program does to our rules is noticed by the kernel's notices, long before syncPeriod, and told with its name. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { openListener } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { NFNLGRP_NFTABLES } from '../../native/nft/constants.ts';
import type { AgentProcess, LogLine } from '../../src/cli/lab/agent-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { RulesetJournal } from '../../src/kernel/ruleset-journal.ts';
import { tableKey, touchedIn } from '../../src/kernel/ruleset-notices.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { generationIn } from '../helpers/kernel/generation.ts';
import { listenersIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

/** Milliseconds: the machine may have more to do. Checks of every syncPeriod come later. */
const PATIENCE = 60_000;
const MODES = {
  nftables: ['--mode=nftables', '--nftables-sync-period', '1h'],
  iptables: ['--mode=iptables', '--iptables-backend', 'nft', '--iptables-sync-period', '1h'],
} as const;

describe('drift on a real kernel', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2], { hasOther: false }));
  });
  afterEach(async () => {
    await node.clear();
    await sh('nft flush ruleset');
  });

  const sh = (command: string) => lab.exec('node', 'sh', '-c', command);
  const rules = {
    nftables: () => sh('nft -s list table ip slicewire'),
    iptables: () => sh("iptables-nft-save | sed -e '/^#/d' -e 's/\\[.*\\]//'"),
  };

  async function started(mode: keyof typeof MODES): Promise<AgentProcess> {
    const agent = node.start(...MODES[mode]);
    await agent.synced(0, PATIENCE);
    // What it heard of its own last writes is done with.
    await pause(500);
    return agent;
  }

  const changed = ({ msg }: LogLine) => msg.includes('changed rules of ours');

  for (const [mode, what, command, program] of [
    ['nftables', 'one element', `nft delete element ip slicewire services '{ ${WEB} . tcp . 80 }'`, 'nft'],
    ['nftables', 'the rules of a chain', 'nft flush chain ip slicewire services', 'nft'],
    [
      'nftables',
      'one rule',
      'nft delete rule ip slicewire services handle $(nft -a list chain ip slicewire services | sed -n "s/.*# handle //p" | tail -1)',
      'nft',
    ],
    ['nftables', 'all elements and rules', 'nft flush table ip slicewire; nft flush map ip slicewire services', 'nft'],
    ['nftables', 'the table', 'nft delete table ip slicewire', 'nft'],
    ['nftables', 'all rulesets', 'nft flush ruleset', 'nft'],
    ['iptables', 'one rule', 'iptables-nft -t nat -D KUBE-MARK-MASQ 1', 'iptables-nft'],
    ['iptables', 'a jump', 'iptables-nft -t nat -D PREROUTING 1', 'iptables-nft'],
    ['iptables', 'the rules of a table', 'iptables-nft -F', 'iptables-nft'],
    ['iptables', 'all rulesets', 'nft flush ruleset', 'nft'],
  ] as const) {
    it(`is repaired at once when another program deletes ${what}, in ${mode} mode, and names it`, async () => {
      const agent = await started(mode);
      const [before, since] = [await rules[mode](), agent.log.length];
      await sh(command);
      const told = await agent.logged(changed, { since, within: PATIENCE });
      assert.match(String(told.by), new RegExp(`^${program}, pid \\d+`));
      await until('the rules as before', async () => (await rules[mode]()) === before, PATIENCE);
      const generation = generationIn(lab.namespace('node'));
      await pause(1000);
      assert.equal(generationIn(lab.namespace('node')), generation, 'nothing more is written');
      await agent.stop();
      assert.equal(await agent.ended, 0, 'it ends by itself');
    });
  }

  /** Commands that take away the way from a hook to the rules, each one. */
  const HOOKS = {
    nftables: async () => {
      const chains = (await sh('nft list table ip slicewire')).split('}').filter((chain) => / hook /.test(chain));
      return chains.map((chain) => `nft flush chain ip slicewire ${/chain (\S+) \{/.exec(chain)?.[1]}`);
    },
    iptables: async () => {
      const saved = (await sh('iptables-nft-save')).split('\n');
      let table = '';
      return saved.flatMap((line) => {
        if (line.startsWith('*')) table = line.slice(1);
        return /^-A [A-Z]+ .*-j KUBE-/.test(line) ? [`iptables-nft -t ${table} ${line.replace('-A', '-D')}`] : [];
      });
    },
  } as const;

  for (const mode of ['nftables', 'iptables'] as const)
    it(`in any hook is repaired, in ${mode} mode`, async () => {
      const agent = await started(mode);
      // A jump comes back at the top of its chain: among those of one chain the order may be another.
      const now = async () => (await rules[mode]()).split('\n').sort().join('\n');
      const before = await now();
      const commands = await HOOKS[mode]();
      assert.ok(commands.length >= 5, commands.join('\n'));
      for (const command of commands) {
        const since = agent.log.length;
        await sh(command);
        await agent.logged(changed, { since, within: PATIENCE });
        await until(`the rules as before, after ${command}`, async () => (await now()) === before, PATIENCE);
      }
      await agent.stop();
    });

  for (const mode of ['nftables', 'iptables'] as const) {
    it(`is looked for seldom beside a program that writes to its own tables all the time, and repaired all the same, in ${mode} mode`, async () => {
      await sh('nft "add table ip busy; add set ip busy ports { type inet_service; }"');
      const words = ['add', 'delete'].map((does) => `${does} element ip busy ports { 1 }`).join('\n');
      const agent = await started(mode);
      const neighbour = node.shell(`exec nft -i < <(yes '${words}')`);
      await pause(2000);
      assert.deepEqual(agent.log.filter(changed), []);
      const [before, since] = [await rules[mode](), agent.log.length];
      await sh(mode === 'nftables' ? 'nft flush chain ip slicewire services' : 'iptables-nft -t nat -D PREROUTING 1');
      await agent.logged(changed, { since, within: PATIENCE });
      await until('the rules as before', async () => (await rules[mode]()) === before, PATIENCE);
      await neighbour.stop();
    });
  }

  it('that comes again and again is repaired after longer and longer waits, told once, and noted in the health answers', async () => {
    const agent = await started('nftables');
    const element = `element ip slicewire services '{ ${WEB} . tcp . 80 }'`;
    const enemy = node.shell(`while true; do nft delete ${element} 2>/dev/null; sleep 0.02; done`);
    const fight = await agent.logged(({ msg }) => msg.includes('again and again'), { within: PATIENCE });
    assert.match(String(fight.by), /^nft, pid \d+/);
    // The line about the repair that was one too many.
    await pause(500);
    const since = agent.log.length;
    await pause(5000);
    const repairs = agent.log.slice(since).filter(({ msg }) => msg === 'synced').length;
    assert.ok(repairs > 0 && repairs < 10, `${repairs} repairs`);
    assert.deepEqual(
      agent.log.slice(since).filter(({ level }) => level === 'warn'),
      [],
    );
    const health = await askNode(lab, '/healthz');
    assert.equal(health.status, 200);
    assert.match(JSON.stringify(health), /nft, pid \d+.* changes rules of ours again and again/);
    await enemy.stop();
    const before = /10\.96\.0\.10 \. tcp \. 80/;
    await until('the element', async () => before.test(await rules.nftables()), PATIENCE);
  });

  it('by slicewire cleanup and run --once is none', async () => {
    const agent = await started('nftables');
    const since = agent.log.length;
    assert.equal((await node.run('run', '--once', '--mode=nftables')).status, 0);
    await pause(1000);
    assert.deepEqual(agent.log.slice(since).filter(changed), []);
    await agent.stop();
  });

  it('is unknown after notices were lost, and known again afterwards', async () => {
    const open = () => openListener(NETLINK_NETFILTER, NFNLGRP_NFTABLES, 4096);
    const journal = new RulesetJournal({ open: listenersIn(lab.namespace('node'), open) });
    journal.listen();
    const generation = () => generationIn(lab.namespace('node'));
    const before = generation();
    await sh(
      'nft add table ip other; (echo "add chain ip other c"; yes "add rule ip other c tcp dport 1 drop" | head -5000) | nft -f -',
    );
    const between = generation();
    const lost = journal.between(before, between);
    assert.ok(lost === undefined || touchedIn(lost, tableKey('IPv4', 'other')) === undefined);
    await sh('nft add table ip x');
    await sh('nft add table ip y');
    const after = generation();
    await sh('nft add chain ip other d');
    const known = journal.between(after, generation()) ?? assert.fail('unknown');
    assert.deepEqual([...(touchedIn(known, tableKey('IPv4', 'other'))?.chains ?? [])], ['d']);
    journal.close();
  });
});
