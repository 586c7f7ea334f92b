/** The agent in nftables mode as a process on a real kernel: restarts, other programs in the way, what it needs and what it says. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { AgentProcess, LogLine } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { RECORD_FOLDER } from '../../src/kernel/record-file.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { service, serviceCidr, slice } from '../helpers/cluster/objects.ts';
import { generationIn } from '../helpers/kernel/generation.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

const MODE = '--mode=nftables';
/** Look after the table each second. */
const FLAGS = [MODE, '--nftables-sync-period', '1s', '--nftables-min-sync-period', '0s'] as const;
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;
const ANSWER = 8000;
const INSIDE = fileURLToPath(new URL('./ranges-inside.ts', import.meta.url));
/** A table of another program, which sees packets. */
const THEIRS = `add table ip somebodys
add set ip somebodys seen { type inet_service; }
add chain ip somebodys forward { type filter hook forward priority 10; }
add rule ip somebodys forward tcp dport 9999 counter drop`;

describe('the agent in nftables mode on a real kernel', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await becomes(1, 2);
  });
  afterEach(async () => {
    await node.clear();
    await nft('flush ruleset');
  });

  const nft = (...words: string[]) => lab.exec('node', 'nft', ...words);
  const handle = async () => /# handle (\d+)/.exec(await nft('-a', 'list', 'table', 'ip', 'slicewire'))?.[1];
  const generation = () => generationIn(lab.namespace('node'));
  const asks = (address: string = WEB, port = 80) => lab.ask('pod-3', { address, port, timeout: ANSWER });

  async function started(...flags: string[]): Promise<AgentProcess> {
    const agent = node.start(...FLAGS, ...flags);
    await agent.synced(0, PATIENCE);
    return agent;
  }

  /** It syncs because of this. */
  async function syncsAfter(agent: AgentProcess, act: () => Promise<unknown>): Promise<void> {
    const since = agent.log.length;
    await act();
    await agent.synced(since, PATIENCE);
  }

  const becomes = (...pods: number[]) => node.write('web', ...webObjects(pods, { hasOther: false }));

  async function served(): Promise<void> {
    assert.equal((await asks()).outcome, 'reply');
    assert.equal(
      (await lab.ask('client', { address: LAB.node.v4, port: NODE_PORT, timeout: ANSWER })).outcome,
      'reply',
    );
  }

  async function nothingToDo(): Promise<void> {
    const { status, out, error } = await node.run('plan', MODE);
    assert.deepEqual([status, out], [0, 'nothing to do\n'], error);
  }

  it('plans as text and as JSON, with its exit status, and writes nothing', async () => {
    const before = generation();
    const text = await node.run('plan', MODE);
    assert.equal(text.status, 2, text.error);
    assert.match(text.out, /^\+ IPv4 elements of default\/web/m);
    assert.match(text.out, /^ {4}\+ services 10\.96\.0\.10 \. tcp \. 80 : goto cluster-ip-of-2$/m);
    const json = await node.run('plan', MODE, '--output', 'json');
    assert.equal(json.status, 2);
    const { steps } = JSON.parse(json.out) as { steps: { service?: string; action: string; lines: string[] }[] };
    assert.ok(
      steps.some((step) => step.service === 'default/web' && step.action === 'create' && step.lines.length > 0),
    );
    assert.equal(await nft('list', 'ruleset'), '');
    assert.equal(generation(), before);
    await started();
    await nothingToDo();
  });

  it('stops with its table in place, and a restart writes nothing (invariant 10)', async () => {
    const first = await started();
    await first.stop();
    assert.equal(await first.ended, 0);
    await served();
    const before = [generation(), await handle()];
    const second = node.start(...FLAGS);
    await second.logged(({ msg }) => msg === 'synced, nothing to do', { within: PATIENCE });
    await pause(2500);
    assert.deepEqual([generation(), await handle()], before);
    await served();
  });

  it('does not read what the last agent left, unless another program wrote meanwhile', async () => {
    const name = `${RECORD_FOLDER}/ruleset-${statSync(`/run/netns/${lab.namespace('node')}`).ino}`;
    const recorded = () => {
      if (!existsSync(name)) return undefined;
      const { tables } = JSON.parse(readFileSync(name, 'utf8')) as { tables: { IPv4?: { generation: number } } };
      return tables.IPv4?.generation;
    };
    const isUnread = async () => {
      const agent = node.start(...FLAGS);
      await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
      const found = agent.log.some(({ msg }) => msg.endsWith('it was not read'));
      await until('the record', () => recorded() === generation(), PATIENCE);
      await agent.stop();
      return found;
    };
    assert.equal(await isUnread(), false);
    const before = generation();
    assert.equal(await isUnread(), true);
    assert.equal(generation(), before);
    await nft(...(THEIRS.split('\n')[0]?.split(' ') ?? []));
    assert.equal(await isUnread(), false);
    assert.equal(await isUnread(), true);
    await nft('flush', 'map', 'ip', 'slicewire', 'services');
    assert.equal(await isUnread(), false);
    await served();
    assert.equal(await isUnread(), true);
    await becomes(2);
    assert.equal(await isUnread(), false);
    await served();
  });

  for (const [what, words] of [
    ['flushed a map', ['flush', 'map', 'ip', 'slicewire', 'services']],
    ['flushed a chain', ['flush', 'chain', 'ip', 'slicewire', 'cluster-ip-of-2']],
    ['flushed the rules', ['flush', 'table', 'ip', 'slicewire']],
    ['deleted the table', ['delete', 'table', 'ip', 'slicewire']],
  ] as const) {
    it(`notices that another program ${what}, says so, writes it again, and is quiet then`, async () => {
      const agent = await started();
      const since = agent.log.length;
      await nft(...words);
      const isDrift = ({ msg }: LogLine) =>
        /^another program \(nft, pid \d+.*\) changed rules of ours: IPv4 /.test(msg);
      const drift = await agent.logged(isDrift, { since, within: PATIENCE });
      assert.match(JSON.stringify(drift.drift), /IPv4 /);
      await agent.synced(since, PATIENCE);
      await served();
      const after = agent.log.length;
      const before = generation();
      await pause(2500);
      assert.deepEqual(agent.log.slice(after), []);
      assert.equal(generation(), before);
    });
  }

  it('is set right by the next start after being killed at any moment of the first write', async () => {
    const crowd = Array.from({ length: 3000 }, (_, i) => crowded(i)).flat();
    await node.write('crowd', ...crowd);
    await node.run('run', '--once', MODE);
    const right = await nft('list', 'table', 'ip', 'slicewire');
    for (let i = 0; i < 6; i++) {
      await nft('flush ruleset');
      const victim = node.start(MODE);
      await victim.logged(({ msg }) => msg === 'the initial lists are complete', { within: PATIENCE });
      await pause(Math.random() * 600);
      if (victim.pid !== undefined) process.kill(victim.pid, 'SIGKILL');
      await victim.ended;
      const { status, error } = await node.run('run', '--once', MODE);
      assert.equal(status, 0, error);
      await served();
      assert.equal(sorted(await nft('list', 'table', 'ip', 'slicewire')), sorted(right));
    }
    await nothingToDo();
  });

  it('cleans up all that is ours and nothing else (k8s#55857)', async () => {
    await nft(THEIRS);
    const theirs = await nft('-a', 'list', 'table', 'ip', 'somebodys');
    await node.run('run', '--once', MODE);
    const cleanup = await node.run('cleanup');
    assert.deepEqual([cleanup.status, cleanup.error], [0, '']);
    assert.match(
      cleanup.out,
      /^- IPv4 nftables table slicewire\n- IPv6 nftables table slicewire\n2 objects removed\n$/,
    );
    assert.equal(await nft('-a', 'list', 'table', 'ip', 'somebodys'), theirs);
    assert.equal(await nft('list', 'tables'), 'table ip somebodys\n');
    assert.match((await node.run('cleanup')).out, /nothing to remove/);
  });

  it('syncs beside a program that writes all the time, and leaves its table alone', async () => {
    await node.write('crowd', ...Array.from({ length: 3000 }, (_, i) => crowded(i)).flat());
    await nft(THEIRS);
    const theirs = await nft('-a', 'list', 'table', 'ip', 'somebodys');
    await nft('add table ip busy; add set ip busy ports { type inet_service; }');
    const words = ['add', 'delete'].map((does) => `${does} element ip busy ports { 1 }`).join('\n');
    node.shell(`exec nft -i < <(yes '${words}')`);
    const before = generation();
    const agent = await started();
    await served();
    for (const pods of [[1], [1, 2], [2]]) await syncsAfter(agent, () => becomes(...pods));
    await agent.stop();
    await nft('flush map ip slicewire services');
    const next = await started();
    await served();
    assert.ok(generation() - before > 100, 'the other program wrote meanwhile');
    assert.equal(await nft('-a', 'list', 'table', 'ip', 'somebodys'), theirs);
    const bad = [...agent.log, ...next.log].filter(({ level, msg }) => level === 'error' || msg.startsWith('cannot'));
    assert.deepEqual(bad, []);
  });

  it('lives beside a program that deletes its table all the time, and is right when that ends', async () => {
    await node.write('crowd', ...Array.from({ length: 2000 }, (_, i) => crowded(i)).flat());
    const agent = node.start(...FLAGS, '--nftables-sync-period', '100ms');
    await agent.synced(0, PATIENCE);
    const pauses = Array.from({ length: 80 }, (_, i) => (20 + ((i * 7919) % 160)) / 1000);
    const deletions = pauses.map((seconds) => `nft delete table ip slicewire; sleep ${seconds}`);
    const vandal = node.shell(`${deletions.join('; ')}; exit 0`);
    // Its writes find no table, again and again.
    for (let i = 0; i < 100; i++) {
      await becomes(...(i % 2 === 0 ? [1] : [1, 2]));
      await pause(100);
    }
    await vandal.ended;
    await becomes(2);
    // A sync that repairs what was deleted may come before the one that takes the change.
    const isDone = async () => (await node.run('plan', MODE)).status === 0;
    await until('nothing is left to do', isDone, PATIENCE);
    await served();
    const failed = agent.log.filter(({ step, count }) => step !== undefined && count === undefined);
    const alike = new Map<string, number>();
    for (const { time, msg } of failed) alike.set(`${time} ${msg}`, (alike.get(`${time} ${msg}`) ?? 0) + 1);
    assert.ok(Math.max(0, ...alike.values()) <= 2, 'one line for each cause');
    await agent.stop();
    assert.equal(await agent.ended, 0);
    await nothingToDo();
  });

  it('names object, field and value of what is wrong, and serves everything else', async () => {
    await node.write(
      'wrong',
      service({ name: 'wrong', spec: { clusterIP: 'nonsense', ports: [{ port: 80 }] } }),
      service({ name: 'port', spec: { clusterIP: '10.96.0.11', ports: [{ port: 80_000 }] } }),
    );
    const agent = await started();
    await served();
    assert.match(agent.text(), /Service default\/wrong: spec\.clusterIP: nonsense: /);
    assert.match(agent.text(), /Service default\/port: spec\.ports\[0\]\.port: 80000: /);
  });

  it('needs net_admin alone once --init-only wrote the settings, and is healthy', async () => {
    const init = await node.run('run', '--init-only', MODE);
    assert.equal(init.status, 0, init.error);
    const set = '-all,+net_admin';
    const confine = ['--no-new-privs', `--bounding-set=${set}`, `--inh-caps=${set}`, `--ambient-caps=${set}`];
    const agent = node.startBy(['setpriv', ...confine], ...FLAGS);
    await agent.synced(0, PATIENCE);
    const status = await readFile(`/proc/${agent.pid}/status`, 'utf8');
    assert.equal(/^CapEff:\s*0*(\w+)$/m.exec(status)?.[1], (1 << 12).toString(16));
    await served();
    for (const path of ['healthz', 'readyz', 'livez']) await answers(path, 200);
    const bad = agent.log.filter(({ level }) => level === 'warn' || level === 'error');
    assert.deepEqual(bad, []);
  });

  it('starts no process for its start, at rest nor for a sync, but for the rules of another proxy', async () => {
    const agent = await started();
    await pause(5000);
    await syncsAfter(agent, () => becomes(1));
    await syncsAfter(agent, () => nft('flush map ip slicewire services'));
    assert.equal(await childrensFaults(agent), 0);
    await agent.stop();
    await lab.exec('node', 'iptables', '-t', 'nat', '-N', 'KUBE-SERVICES');
    const other = await started();
    await pause(1500);
    assert.ok((await childrensFaults(other)) > 0, 'its processes are counted');
  });

  it('needs no other program: neither nft nor iptables', async () => {
    const agent = node.startBy(['env', 'PATH=/nowhere'], ...FLAGS);
    await agent.synced(0, PATIENCE);
    await served();
    await syncsAfter(agent, () => becomes(1));
    await served();
    const cleanup = await node.run('cleanup');
    assert.equal(cleanup.status, 0, cleanup.error);
  });

  it('is ill when the kernel refuses to write, says so, and is well when it does not', async () => {
    const agent = await started();
    await answers('healthz', 200);
    // A table that has an owner is written by nobody else, and goes with it.
    const words = 'delete table ip slicewire; add table ip slicewire { flags owner; }';
    const owner = node.shell(`exec nft -i < <(echo '${words}'; exec tail -f /dev/null --pid=$$)`);
    await answers('readyz', 503);
    await answers('healthz', 503);
    await answers('livez', 200);
    assert.match(agent.text(), /^error .*EPERM/m);
    const since = agent.log.length;
    await owner.stop();
    await agent.synced(since, PATIENCE);
    await answers('healthz', 200);
    await answers('readyz', 200);
    await served();
  });

  it('drops what goes to a cluster IP that nobody has once a ServiceCIDR names the range', async () => {
    const nobodys = '10.96.0.99';
    await lab.exec('client', 'ip', 'address', 'add', `${nobodys}/32`, 'dev', 'lo');
    try {
      await lab.serve('client', 'TCP', 80, nobodys);
      const agent = await started();
      assert.equal((await asks(nobodys)).outcome, 'reply');
      await syncsAfter(agent, () => node.write('cidr', serviceCidr('10.96.0.0/16')));
      assert.equal((await asks(nobodys)).outcome, 'timeout');
      await served();
      await syncsAfter(agent, () => node.delete('cidr'));
      assert.equal((await asks(nobodys)).outcome, 'reply');
    } finally {
      await lab.exec('client', 'ip', 'address', 'delete', `${nobodys}/32`, 'dev', 'lo');
    }
  });

  for (const story of ['ranges', 'no-ranges', 'ranges-forbidden']) {
    it(`with an API server: ${story}`, async () => {
      const command = lab.inside('node', process.execPath, [INSIDE, story]);
      const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    });
  }

  /** A server of the agent answers so, sooner or later. */
  async function answers(path: string, status: number): Promise<void> {
    for (const end = performance.now() + PATIENCE; ; await pause(100)) {
      const { status: said } = await askNode(lab, `/${path}`);
      if (said === status) return;
      assert.ok(performance.now() < end, `/${path}: ${said}`);
    }
  }
});

/** The n-th of many Services. */
function crowded(n: number): object[] {
  const clusterIP = `10.97.${n >> 8}.${n & 255}`;
  const endpoints = [1, 2, 3].map((i) => podAddress(i).v4);
  return [
    service({ name: `crowd-${n}`, spec: { clusterIP, ports: [{ port: 80 }] } }),
    slice({ name: `crowd-${n}-1`, service: `crowd-${n}`, endpoints }),
  ];
}

function sorted(listing: string): string {
  return listing
    .split('\n')
    .flatMap((line) => line.split(', '))
    .map((line) => line.trim())
    .sort()
    .join('\n');
}

/** Page faults of processes that it started and that ended (cminflt of proc(5)): none can do without one. */
async function childrensFaults({ pid }: AgentProcess): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[8]);
}
