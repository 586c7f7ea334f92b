/** Simulated iptables: its tools answer, refuse, wait and die as the real ones. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CommandNotStarted } from '../../../../src/kernel/commands.ts';
import { IptablesError, IptablesTools, type IptablesVariant } from '../../../../src/kernel/iptables-tools.ts';
import { Calls, type Fault, SimProcess } from '../../engine/process.ts';
import { SimTime } from '../../engine/time.ts';
import { SimIptables } from './iptables.ts';
import { addForeignChain, flushTable, othersIn } from './others.ts';

const NEVER = new AbortController().signal;
const WRITER = { pid: 7, name: 'iptables' };

function scene(variant: IptablesVariant, fault?: Fault) {
  const time = new SimTime(() => 0.5);
  const calls = new Calls(time);
  const process = new SimProcess('agent', 4711, calls);
  const commits: string[] = [];
  const iptables = new SimIptables({
    time,
    variant,
    hasSet: (name) => name === 'KUBE-THERE',
    nextPid: () => 99,
    onCommit: ({ family, table, chains, writer }) =>
      commits.push(`${family} ${table} ${chains.join(',')} by ${writer.name}`),
  });
  calls.faultAt = () => fault;
  const tools = new IptablesTools(iptables.commands(process), 'IPv4', 'auto');
  /** The outcome of what takes simulated time. */
  const after = async <T>(work: Promise<T>): Promise<T> => {
    work.catch(() => undefined);
    await time.runUntil(time.now + 60_000);
    return await work;
  };
  return { time, calls, process, commits, iptables, tools, after };
}

const TWO = ['*nat', ':KUBE-A - [0:0]', '-A KUBE-A -j ACCEPT', '-I PREROUTING 1 -j KUBE-A', 'COMMIT'];
const BOTH = [...TWO, '*filter', ':KUBE-B - [0:0]', 'COMMIT'];

describe('simulated iptables', () => {
  for (const variant of ['nft', 'legacy'] as const) {
    it(`writes, lists and saves (${variant})`, async () => {
      const { tools, after, commits, time, iptables, process } = scene(variant);
      assert.match(await after(tools.version(NEVER)), variant === 'nft' ? /\(nf_tables\)$/ : /\(legacy\)$/);
      assert.equal(tools.variant, variant);
      await after(tools.restore(() => BOTH, NEVER));
      assert.deepEqual(commits, [
        'IPv4 nat PREROUTING,KUBE-A by iptables-restor',
        'IPv4 filter KUBE-B by iptables-restor',
      ]);
      assert.equal(await after(tools.hasChain({ table: 'nat', chain: 'KUBE-A' }, NEVER)), true);
      assert.equal(await after(tools.hasChain({ table: 'nat', chain: 'KUBE-C' }, NEVER)), false);
      assert.deepEqual(await after(tools.rules({ table: 'nat', chain: 'PREROUTING' }, NEVER)), ['-j KUBE-A']);
      assert.deepEqual(await after(tools.counters({ table: 'nat', chain: 'PREROUTING' }, NEVER)), [0]);
      const verbose = ['--wait', '1', '-t', 'nat', '-v', '-S', 'KUBE-A'];
      const { stdout } = await after(iptables.commands(process).run({ file: 'iptables', args: verbose }, NEVER));
      assert.equal(stdout, '-N KUBE-A\n-A KUBE-A -c 0 0 -j ACCEPT\n');
      const saved: string[] = [];
      await after(tools.save((line) => void saved.push(line), NEVER));
      assert.ok(saved.includes('-A PREROUTING -j KUBE-A') && saved.includes(':KUBE-B - [0:0]'));
      time.end();
    });
  }

  it('refuses what the kernel refuses, and names the line as each variant does', async () => {
    const dangling = ['*nat', ':KUBE-A - [0:0]', '-A KUBE-A -j KUBE-GONE', 'COMMIT'];
    const inUse = ['*nat', ':KUBE-A - [0:0]', '-I PREROUTING 1 -j KUBE-A', '-X KUBE-A', 'COMMIT'];
    const noSet = ['*nat', ':KUBE-A - [0:0]', '-A KUBE-A -m set --match-set KUBE-GONE dst -j ACCEPT', 'COMMIT'];
    const missing = ['*nat', ':KUBE-A - [0:0]', '-D KUBE-A -j ACCEPT', 'COMMIT'];
    for (const [lines, nft, legacy] of [
      [dangling, 4, 3],
      [inUse, 4, 4],
      [noSet, 3, 3],
      [missing, 3, 3],
    ] as const) {
      for (const [variant, named] of [
        ['nft', nft],
        ['legacy', legacy],
      ] as const) {
        const { tools, after, commits } = scene(variant);
        await assert.rejects(
          after(tools.restore(() => lines, NEVER)),
          (error) => error instanceof IptablesError && error.isRefusal && error.line === named,
          `${variant} ${lines.join('; ')}`,
        );
        assert.deepEqual(commits, []);
      }
    }
  });

  it('of the legacy variant waits for the lock, and gives up', async () => {
    const { tools, after, iptables, time } = scene('legacy');
    iptables.lock.holdFor(3000);
    await after(tools.restore(() => TWO, NEVER));
    iptables.lock.holdFor(20_000);
    const refused = after(tools.restore(() => TWO, NEVER));
    await assert.rejects(refused, /did not get the xtables lock: iptables \(process 77\) holds it/);
    time.end();
  });

  it('killed by a signal between two tables leaves the first one written', async () => {
    const { tools, after, commits, calls } = scene('nft', { kind: 'fails', when: 'before', variant: 2 });
    await assert.rejects(
      after(tools.restore(() => BOTH, NEVER)),
      (error) => error instanceof IptablesError && !error.isRefusal,
    );
    assert.equal(commits.length, 1);
    calls.faultAt = () => undefined;
    await after(tools.restore(() => BOTH, NEVER));
    assert.equal(commits.length, 3);
  });

  it('dies with the agent, unless tools survive: then it writes after the death', async () => {
    for (const [toolsSurvive, count] of [
      [false, 0],
      [true, 1],
    ] as const) {
      const { tools, iptables, process, time, commits } = scene('nft');
      iptables.toolsSurvive = toolsSurvive;
      void process.run(() => tools.restore(() => TWO, NEVER));
      await time.settle();
      process.kill();
      await time.runUntil(1000);
      assert.equal(commits.length, count);
    }
  });

  it('keeps what another program wrote while it ran', async () => {
    const { tools, time, iptables } = scene('nft');
    const work = tools.restore(() => BOTH, NEVER);
    await time.runUntil(1);
    const at = { family: 'IPv4', table: 'nat', writer: WRITER } as const;
    addForeignChain(iptables, { name: 'OTHER', rules: ['-j RETURN'], from: 'PREROUTING', isFirst: false }, at);
    await time.runUntil(100);
    await work;
    assert.deepEqual(iptables.stores.nft.table('IPv4', 'nat')?.get('PREROUTING'), ['-j KUBE-A', '-j OTHER']);
    assert.match(othersIn(iptables), /nft IPv4 nat OTHER \S+\n {2}-j RETURN/);
    const before = othersIn(iptables);
    const ours = ['*nat', ':KUBE-SERVICES - [0:0]', '-I PREROUTING 1 -j KUBE-SERVICES', 'COMMIT'];
    await Promise.all([tools.restore(() => ours, NEVER), time.runUntil(200)]);
    assert.equal(othersIn(iptables), before, 'ours are no rules of others');
    flushTable(iptables, at);
    assert.notEqual(othersIn(iptables), before);
  });

  it('that does not exist cannot be started', async () => {
    const { tools, after, iptables } = scene('nft');
    iptables.missing.add('iptables');
    await assert.rejects(after(tools.version(NEVER)), CommandNotStarted);
  });

  it('tells numbers of legacy tables that change with the rules, and not with a rule of the same size', () => {
    const { iptables } = scene('legacy');
    const store = iptables.stores.legacy;
    const write = (...rules: string[]) => {
      store.commit('IPv4', 'nat', new Map([...store.used('IPv4', 'nat'), ['KUBE-A', rules]]));
      return store.numbers('IPv4', 'nat').text;
    };
    const one = write('-j ACCEPT');
    assert.notEqual(write('-j ACCEPT', '-j DROP'), one);
    assert.equal(write('-j DROP'), one);
  });
});
