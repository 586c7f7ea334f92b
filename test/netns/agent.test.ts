/** The agent as a process on a real kernel: restarts, take-over, other programs in the way, and what it says of them. */
import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { LogLine } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { generationIn } from '../helpers/kernel/generation.ts';
import { OWN_LOCK } from '../helpers/kernel/own-lock.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { kubeProxyRules } from './kube-proxy-rules.ts';
import { askNode } from './node-server.ts';

const PORT = 8080;
const endpoint = (n: number) => ({ addresses: [podAddress(n).v4], nodeName: 'node' });

describe('the agent on a real kernel', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2, 3]) await lab.serve(`pod-${n}`, 'TCP', PORT);
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects('web', '10.96.0.10', [1, 2]));
    // Each test begins on a node without a proxy.
    await node.run('cleanup');
  });
  afterEach(async () => {
    await node.stop();
    if ((await lab.exec('node', 'iptables-legacy-save')).includes('KUBE-SERVICES')) {
      await node.run('cleanup', '--iptables-backend', 'legacy');
    }
    await node.clear();
  });

  function webObjects(name: string, clusterIP: string, pods: readonly number[]): object[] {
    return [
      service({ name, spec: { clusterIP, ports: [{ port: 80 }] } }),
      slice({
        name: `${name}-1`,
        service: name,
        addressType: 'IPv4',
        ports: [{ name: '', port: PORT }],
        endpoints: pods.map(endpoint),
      }),
    ];
  }

  const saved = () => lab.exec('node', 'iptables-save');
  const asks = (to: string) => lab.ask('pod-3', { address: to, port: 80 });

  it('writes the settings of conntrack, lists them in a plan, and goes on where one cannot be written (k8s#141943)', async () => {
    const timeout = 'net.netfilter.nf_conntrack_tcp_timeout_established';
    const read = async () => (await lab.exec('node', 'sysctl', '-n', timeout)).trim();
    await lab.exec('node', 'sysctl', '-qw', `${timeout}=432000`);
    const plan = await node.run('plan');
    assert.match(
      plan.out,
      /^~ sysctl net\.netfilter\.nf_conntrack_tcp_timeout_established\n {4}- 432000\n {4}\+ 86400$/m,
    );
    assert.equal(await read(), '432000', 'a plan writes nothing');
    // The size of the table is the host's: in a namespace it cannot be written.
    const most = String(Number(await lab.exec('node', 'sysctl', '-n', 'net.netfilter.nf_conntrack_max')) + 1);
    const size = ['--conntrack-max-per-core', '1', '--conntrack-min', most];
    const once = await node.run('run', '--once', ...size);
    assert.equal(once.status, 0, once.error);
    const stays = new RegExp(
      `"level":"warn".*sysctl net\\.netfilter\\.nf_conntrack_max cannot be changed on this node: it is read-only in this network namespace; it stays \\d+ instead of ${most}; --conntrack-max-per-core=0 stops slicewire from changing it`,
    );
    assert.match(once.error, stays);
    assert.doesNotMatch(once.error, /"level":"error"/);
    assert.equal(await read(), '86400');
    assert.equal((await asks('10.96.0.10')).outcome, 'reply');
    assert.equal((await node.run('run', '--init-only', ...size)).status, 1);
    assert.equal((await node.run('run', '--init-only')).status, 0);
  });

  it('plans no change of a setting that cannot be written, and says so', async () => {
    const max = Number(await lab.exec('node', 'sysctl', '-n', 'net.netfilter.nf_conntrack_max'));
    // More buckets are wanted as well: their file can be opened here, and what is written is refused.
    const size = ['--conntrack-max-per-core', '1', '--conntrack-min', String(4 * max + 8)];
    assert.equal((await node.run('run', '--once')).status, 0);
    const plan = await node.run('plan', ...size);
    const cannot = (setting: string, why: string) =>
      `${setting} cannot be changed on this node: ${why}; it stays \\d+ instead of \\d+; --conntrack-max-per-core=0 stops slicewire from changing it\n`;
    const max_ = cannot('sysctl net\\.netfilter\\.nf_conntrack_max', 'it is read-only in this network namespace');
    const hash = cannot('\\S+/hashsize', 'only the first network namespace of the machine can set it');
    assert.match(plan.out, new RegExp(`^${max_}${hash}nothing to do\n$`));
    assert.equal(plan.status, 0);
    const json = await node.run('plan', '--output', 'json', ...size);
    assert.equal(json.status, 0);
    const found = JSON.parse(json.out) as { steps: object[]; cannotChange: { key: string; leftBy: string }[] };
    assert.deepEqual(found.steps, []);
    assert.deepEqual(found.cannotChange[0], {
      key: 'sysctl net.netfilter.nf_conntrack_max',
      from: String(max),
      to: String(4 * max + 8),
      cause: 'it is read-only in this network namespace',
      leftBy: '--conntrack-max-per-core=0',
    });
  });

  it('plans no change of settings on a /proc/sys that is mounted read-only', async () => {
    assert.equal((await node.run('run', '--once')).status, 0);
    await lab.exec('node', 'sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_established=432000');
    const by = ['unshare', '-m', 'sh', '-c', 'mount -o bind,ro /proc/sys /proc/sys && exec "$@"', 'sh'];
    const plan = await node.runBy(by, 'plan');
    const why = 'its file system is mounted read-only; it stays 432000 instead of 86400';
    const line = `sysctl net.netfilter.nf_conntrack_tcp_timeout_established cannot be changed on this node: ${why}`;
    assert.equal(
      plan.out,
      `${line}; --conntrack-tcp-timeout-established=0 stops slicewire from changing it\nnothing to do\n`,
    );
    assert.equal(plan.status, 0);
    const once = await node.runBy(by, 'run', '--once');
    assert.match(once.error, /"level":"warn".*tcp_timeout_established cannot be changed on this node/);
    assert.equal(once.status, 0, once.error);
    assert.equal((await node.runBy(by, 'run', '--init-only')).status, 1);
    // Where it can be written it is a change as before.
    assert.equal((await node.run('plan')).status, 2);
  });

  it('stops with its rules in place, and a restart finds nothing to do (invariant 10)', async () => {
    const first = node.start();
    await first.synced();
    await first.stop();
    assert.equal(await first.ended, 0);
    assert.equal((await asks('10.96.0.10')).outcome, 'reply');
    const plan = await node.run('plan');
    assert.deepEqual([plan.status, plan.out], [0, 'nothing to do\n']);
    const once = await node.run('run', '--once', '-v', '4');
    assert.equal(once.status, 0);
    assert.match(once.error, /synced, nothing to do/);
  });

  it('plans as text and as JSON, with its exit status, and writes nothing', async () => {
    const before = await saved();
    const text = await node.run('plan');
    assert.equal(text.status, 2);
    assert.match(text.out, /^\+ IPv4 nat KUBE-SVC-\w+ {2}\(default\/web\)$/m);
    const json = await node.run('plan', '--output', 'json');
    assert.equal(json.status, 2);
    const { steps } = JSON.parse(json.out) as { steps: { key: string; action: string; lines: string[] }[] };
    assert.ok(steps.some((step) => step.action === 'create' && step.lines.length > 0));
    assert.equal(comparable(await saved()), comparable(before));
  });

  it('follows a folder: endpoints come and go, files appear and vanish', async () => {
    const agentRun = node.start('--iptables-min-sync-period', '0s');
    await agentRun.synced();
    let since = agentRun.log.length;
    await node.write('other', ...webObjects('other', '10.96.0.11', [3]));
    await agentRun.synced(since);
    const answer = await asks('10.96.0.11');
    assert.deepEqual(answer.outcome === 'reply' && answer.by, 'pod-3');
    since = agentRun.log.length;
    await node.delete('other');
    await agentRun.synced(since);
    assert.ok(!(await saved()).includes('10.96.0.11'));
    await agentRun.stop();
  });

  it('reports a broken manifest and keeps everything else', async () => {
    const agentRun = node.start('--iptables-min-sync-period', '0s');
    await agentRun.synced();
    await writeFile(join(node.folder, 'broken.yaml'), 'kind: Service\n  name: [\n');
    const line = await agentRun.logged((candidate) => candidate.msg.includes('broken.yaml'));
    assert.match(line.msg, /file .*broken\.yaml: line \d, column \d+: not valid YAML or JSON/);
    assert.equal((await asks('10.96.0.10')).outcome, 'reply');
    await agentRun.stop();
  });

  it('takes over from kube-proxy without a failed connection, and removes what it left', async () => {
    const endpoints = [1, 2].map((n) => `${podAddress(n).v4}:${PORT}`);
    await writeFile(
      join(node.folder, 'kube-proxy.rules'),
      kubeProxyRules([{ id: 'default/web', clusterIP: '10.96.0.10', port: 80, endpoints }]),
    );
    await lab.exec('node', 'sh', '-c', `iptables-restore --noflush < ${join(node.folder, 'kube-proxy.rules')}`);
    const jumpsBefore = jumpLines(await saved());
    let stopped = false;
    const failures: string[] = [];
    const probing = (async () => {
      while (!stopped) {
        const answer = await asks('10.96.0.10');
        if (answer.outcome !== 'reply') failures.push(JSON.stringify(answer));
      }
    })();
    assert.equal((await node.run('run', '--once', '--iptables-localhost-nodeports', 'false')).status, 0);
    stopped = true;
    await probing;
    assert.deepEqual(failures, []);
    const rules = await saved();
    assert.ok(!rules.includes('KUBE-SEP-'), 'the chains of endpoints are gone');
    assert.deepEqual(jumpLines(rules), jumpsBefore);
  });

  for (const backend of ['nft', 'legacy'] as const) {
    const tool = `iptables-${backend}`;
    const rulesOf = async () => comparable(await lab.exec('node', `${tool}-save`));
    /** Look after the rules each second. */
    const flags = ['--iptables-backend', backend, '--iptables-sync-period', '1s', '--iptables-min-sync-period', '0s'];
    const has = (text: string) => (line: LogLine) => line.msg.includes(text);

    it(`knows its own writes, and does not read for them (${backend})`, async () => {
      const agentRun = node.start(...flags, '-v', '4');
      await agentRun.synced();
      for (const pods of [[1], [1, 2]]) {
        const since = agentRun.log.length;
        await node.write('web', ...webObjects('web', '10.96.0.10', pods));
        await agentRun.synced(since);
        await pause(2500);
      }
      assert.deepEqual(
        agentRun.log.filter(({ msg }) => msg.includes('another program')),
        [],
      );
      const since = agentRun.log.length;
      await lab.exec('node', tool, '-t', 'nat', '-A', 'PREROUTING', '-s', '203.0.113.1', '-j', 'ACCEPT');
      // The kernel names the chain that was touched, and it alone is looked at. The legacy variant has no such notices.
      if (backend === 'nft') await pause(2500);
      else await agentRun.logged(has('another program wrote rules; ours are unchanged'), { since, within: 60_000 });
      const changed = agentRun.log
        .slice(since)
        .filter(({ msg }) => /(changed|removed) rules of ours|^synced$/.test(msg));
      assert.deepEqual(changed, []);
      await lab.exec('node', tool, '-t', 'nat', '-D', 'PREROUTING', '-s', '203.0.113.1', '-j', 'ACCEPT');
    });

    it(`notices that another program flushed the rules and removed the chains (${backend}), and writes them again (k8s#129128)`, async () => {
      const agentRun = node.start(...flags);
      await agentRun.synced();
      const since = agentRun.log.length;
      // In one transaction: the agent writes again what the first of two removed, before the second.
      await lab.exec('node', 'sh', '-c', `printf '*nat\\nCOMMIT\\n' | ${tool}-restore`);
      await agentRun.synced(since);
      assert.equal((await asks('10.96.0.10')).outcome, 'reply');
      await agentRun.logged(has('removed rules of ours'), { since });
    });

    for (const [what, commands, says] of [
      [
        'flushed every table and left the chains',
        ['nat', 'filter', 'mangle'].map((table) => ['-t', table, '-F']),
        /: (IPv4 \w+ [^;]+ \((\d+ rules? )?gone\); ){5}and \d+ more$/,
      ],
      [
        'flushed one chain',
        [['-t', 'nat', '-F', 'KUBE-POSTROUTING']],
        /: IPv4 nat KUBE-POSTROUTING \(\d+ rules gone\)$/,
      ],
      ['deleted one rule', [['-t', 'nat', '-D', 'KUBE-SERVICES', '1']], /: IPv4 nat KUBE-SERVICES \(1 rule gone\)$/],
      ['deleted a jump', [['-t', 'nat', '-D', 'PREROUTING', '1']], /: IPv4 nat PREROUTING to KUBE-SERVICES \(gone\)$/],
    ] as const) {
      it(`notices that another program ${what} (${backend}), says what, writes it again, and is quiet then`, async () => {
        const agentRun = node.start(...flags);
        await agentRun.synced();
        const right = await rulesOf();
        const since = agentRun.log.length;
        // By one process: the agent writes again what the first of several removed, before the last.
        const text = commands.map(([_, table, ...words]) => `*${table}\\n${words.join(' ')}\\nCOMMIT\\n`).join('');
        await lab.exec('node', 'sh', '-c', `printf '%b' '${text}' | ${tool}-restore --noflush`);
        const drift = await agentRun.logged(has('changed rules of ours'), { since, within: 60_000 });
        assert.match(drift.msg, says);
        await agentRun.synced(since);
        assert.equal(await rulesOf(), right);
        assert.equal((await asks('10.96.0.10')).outcome, 'reply');
        const after = agentRun.log.length;
        await pause(2500);
        // What it wrote itself it need not read, and is at rest.
        assert.deepEqual(agentRun.log.slice(after), []);
      });
    }
  }

  it('goes on with its syncs while reading what another program wrote does not end', async () => {
    const save = (await lab.exec('node', 'sh', '-c', 'command -v iptables-save')).trim();
    const tools = join(node.folder, 'tools');
    const hang = join(tools, 'hang');
    await mkdir(tools);
    // As the real one beside a program that writes all the time, where there are many rules.
    await writeFile(join(tools, 'iptables-save'), `#!/bin/sh\n[ -e ${hang} ] && exec sleep 1000\nexec ${save} "$@"\n`);
    await chmod(join(tools, 'iptables-save'), 0o755);
    const flags = ['--iptables-sync-period', '1s', '--iptables-min-sync-period', '0s'];
    const agentRun = node.startBy(['env', `PATH=${tools}:${process.env.PATH}`], ...flags);
    await agentRun.synced();
    await writeFile(hang, '');
    // So much in one transaction that its objects are not named: all rules are read.
    const many = (line: string) => `(echo '*nat'; seq -f '${line}' 5000; echo COMMIT) | iptables-restore --noflush`;
    await lab.exec('node', 'sh', '-c', many(':OTHER-%g - [0:0]'));
    await pause(2500);
    const since = agentRun.log.length;
    await node.write('other', ...webObjects('other', '10.96.0.11', [3]));
    await agentRun.synced(since);
    assert.match(await saved(), /10\.96\.0\.11/);
    const cannot = ({ msg }: LogLine) =>
      msg.startsWith('cannot check all rules: other programs write rules all the time');
    await agentRun.logged(cannot, { since, within: 60_000 });
    assert.equal((await askNode(lab, '/livez')).status, 200);
    await lab.exec('node', 'sh', '-c', many('-X OTHER-%g'));
  });

  it('reads its rules seldom beside a program that writes all the time, and notices a flush all the same', async () => {
    await lab.exec('node', 'nft', 'add table ip busy; add set ip busy ports { type inet_service; }');
    const words = ['add', 'delete'].map((does) => `${does} element ip busy ports { 1 }`).join('\n');
    const neighbour = node.shell(`exec nft -i < <(yes '${words}')`);
    const agentRun = node.start('--iptables-sync-period', '1s', '--iptables-min-sync-period', '0s', '-v', '4');
    await agentRun.synced(0, 60_000);
    const written = generationIn(lab.namespace('node'));
    const looked = (line: LogLine) => line.msg === 'another program wrote rules; ours are unchanged';
    const readings = () => agentRun.log.filter(looked);
    // A hundredth of the time once two seconds were spent, so that a hundred times as long passes before the next reading; half of that, for
    // what clocks differ. The agent counts the shorter of the last two readings, since one may have waited for a busy machine.
    const isSeldom = () => {
      const [first, second, third] = readings().slice(-3);
      if (third === undefined) return false;
      const usual = Math.min(Number(first?.milliseconds), Number(second?.milliseconds));
      return Date.parse(String(third.time)) - Date.parse(String(second?.time)) >= 50 * usual;
    };
    await until('a long rest between two readings', isSeldom, 120_000);
    assert.ok(generationIn(lab.namespace('node')) - written > 1000, 'the other program wrote meanwhile');
    const since = agentRun.log.length;
    await lab.exec('node', 'iptables', '-t', 'nat', '-F');
    await agentRun.logged(({ msg }) => msg.includes('changed rules of ours'), {
      since,
      within: 60_000,
    });
    await agentRun.synced(since);
    assert.equal((await asks('10.96.0.10')).outcome, 'reply');
    await neighbour.stop();
    await lab.exec('node', 'nft', 'delete table ip busy');
  });

  it('is set right by the next start after being killed at any moment', async () => {
    await node.run('run', '--once');
    const right = comparable(await saved());
    await node.run('cleanup');
    for (let i = 0; i < 12; i++) {
      const victim = node.start();
      // From before the first read to after the last write: the whole start takes about 0.6 s here.
      await pause(250 + i * 40);
      if (victim.pid !== undefined) process.kill(victim.pid, 'SIGKILL');
      await victim.ended;
    }
    assert.equal((await node.run('run', '--once')).status, 0);
    assert.equal(comparable(await saved()), right);
  });

  it('waits for the xtables lock, says who holds it, and goes on when it is free (k8s#105742)', async () => {
    const holder = node.keep(startChild({ file: 'flock', args: ['--no-fork', OWN_LOCK, 'sleep', '60'] }));
    await pause(200);
    const agentRun = node.start(
      '--iptables-backend',
      'legacy',
      '--iptables-sync-period',
      '1s',
      '--iptables-min-sync-period',
      '0s',
    );
    // Each tool waits for it in turn, five seconds and more.
    const line = await agentRun.logged((candidate) => candidate.msg.includes('xtables lock'), { within: 40_000 });
    assert.match(line.msg, /did not get the xtables lock: (flock|sleep) \(process \d+\) holds it/);
    await holder.stop();
    await agentRun.synced();
    assert.match(await lab.exec('node', 'iptables-legacy-save'), /default\/web cluster IP/);
    await agentRun.stop();
    await node.run('cleanup', '--iptables-backend', 'legacy');
  });

  it('cleans up all that is ours and nothing else (k8s#55857)', async () => {
    await lab.exec('node', 'iptables', '-t', 'nat', '-N', 'THEIRS');
    await lab.exec('node', 'iptables', '-t', 'nat', '-A', 'PREROUTING', '-s', '203.0.113.1', '-j', 'THEIRS');
    await node.run('run', '--once');
    assert.equal((await node.run('cleanup')).status, 0);
    const rules = await saved();
    const left = rules.split('\n').filter((line) => line.includes('KUBE-') && !line.includes('KUBE-FIREWALL'));
    assert.deepEqual(left, []);
    assert.match(rules, /-A PREROUTING -s 203\.0\.113\.1\/32 -j THEIRS/);
    assert.match((await node.run('cleanup')).out, /nothing to remove/);
  });

  it('a connection outlives its Service: deleting cuts nothing that goes on (k8s#71894)', async () => {
    const agentRun = node.start('--iptables-min-sync-period', '0s');
    await agentRun.synced();
    const asksAgain = () => lab.ask('pod-3', { address: '10.96.0.10', port: 80, keep: 'long' });
    const first = await asksAgain();
    assert.equal(first.outcome, 'reply');
    const since = agentRun.log.length;
    await node.delete('web');
    await agentRun.synced(since);
    assert.notEqual((await asks('10.96.0.10')).outcome, 'reply', 'no new connection is made');
    assert.deepEqual(await asksAgain(), first);
    await agentRun.stop();
  });

  it('serves a node port and a hairpin as the demo shows', async () => {
    await node.write(
      'web',
      service({
        name: 'web',
        spec: { type: 'NodePort', clusterIP: '10.96.0.10', ports: [{ port: 80, nodePort: 30_080 }] },
      }),
      ...webObjects('web', '10.96.0.10', [1]).slice(1),
    );
    const agentRun = node.start();
    await agentRun.synced();
    assert.equal((await lab.ask('client', { address: LAB.node.v4, port: 30_080 })).outcome, 'reply');
    const own = await lab.ask('pod-1', { address: '10.96.0.10', port: 80 });
    assert.deepEqual(own, { outcome: 'reply', by: 'pod-1', seen: LAB.bridge.v4 });
    await agentRun.stop();
  });
});

/** Without comments and packet counts. */
function comparable(rules: string): string {
  return rules
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
    .sort()
    .join('\n');
}

function jumpLines(rules: string): string[] {
  return rules
    .split('\n')
    .filter((line) => /^-A [A-Z]+ .*-j KUBE-/.test(line))
    .sort();
}
