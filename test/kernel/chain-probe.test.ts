/** When the probe asks the kernel whether a chain exists, and when it starts a process. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { breath } from '../../src/base/clock.ts';
import { type ChainAnswer, type OpenRules, rulesProbe } from '../../src/kernel/chain-probe.ts';
import { IptablesTools } from '../../src/kernel/iptables-tools.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const CANARY = { table: 'nat', chain: 'KUBE-PROXY-CANARY' };
const ADD = () => ['*nat', ':KUBE-PROXY-CANARY - [0:0]', 'COMMIT'];

interface Setup {
  readonly iptables: FakeIptables;
  readonly tools: IptablesTools;
  readonly problems: string[];
  /** The kernel's answer: whether the chain exists, a fingerprint, or an error that it throws. */
  kernel: boolean | string | Error;
  /** Sockets that were opened, and those that were closed. */
  opened: string[];
  closed: number;
  probe(): Promise<boolean>;
  /** Processes that probes started. */
  processes(): number;
  close(): void;
}

/** A canary in the nat table, and a probe of it with tools that print this version. */
async function setUp(version: string, open?: OpenRules): Promise<Setup> {
  const answer = { exitCode: 0, stdout: version, stderr: '' };
  const iptables = new FakeIptables({ intercept: ({ args }) => (args[0] === '--version' ? answer : undefined) });
  const tools = new IptablesTools(iptables, 'IPv4', 'auto');
  if (version !== '') await tools.version(NEVER);
  await tools.restore(ADD, NEVER);
  const problems: string[] = [];
  const counted: OpenRules = (variant, family) => {
    made.opened.push(`${variant} ${family}`);
    const chain = (): ChainAnswer => {
      if (made.kernel instanceof Error) throw made.kernel;
      if (typeof made.kernel === 'string') return { kind: 'fingerprint', text: made.kernel };
      return { kind: 'known', exists: made.kernel };
    };
    const close = () => {
      made.closed += 1;
    };
    return Promise.resolve({ chain, close });
  };
  const probe = rulesProbe({ tools, onProblem: (text) => problems.push(text), open: open ?? counted });
  const made: Setup = {
    iptables,
    tools,
    problems,
    kernel: true,
    opened: [],
    closed: 0,
    probe: () => probe.hasChain(CANARY, NEVER),
    processes: () => iptables.ran.filter(({ file }) => file === 'iptables').length,
    close: () => probe.close(),
  };
  return made;
}

function flush({ iptables }: Setup): void {
  iptables.kernels.IPv4.get('nat')?.delete(CANARY.chain);
}

describe('a probe of a chain', () => {
  it('asks nftables where the tool writes there', async () => {
    const made = await setUp('iptables v1.8.9 (nf_tables)\n');
    assert.equal(made.tools.variant, 'nft');
    assert.deepEqual(made.opened, [], 'no socket is open before the first probe');
    assert.equal(await made.probe(), true);
    made.kernel = false;
    assert.equal(await made.probe(), false);
    assert.deepEqual([made.opened, made.processes(), made.problems], [['nft IPv4'], 0, []]);
  });

  it('starts one process with the legacy variant, until the numbers of the table change', async () => {
    const made = await setUp('iptables v1.8.9 (legacy)\n');
    assert.equal(made.tools.variant, 'legacy');
    made.kernel = '17 entries';
    for (let i = 0; i < 3; i++) assert.equal(await made.probe(), true);
    assert.deepEqual([made.opened, made.processes()], [['legacy IPv4'], 1]);
    // Another program added a rule of its own.
    made.kernel = '18 entries';
    for (let i = 0; i < 3; i++) assert.equal(await made.probe(), true);
    assert.equal(made.processes(), 2);
    // Now it flushes: a missing chain is probed each time.
    flush(made);
    made.kernel = '5 entries';
    for (let i = 0; i < 2; i++) assert.equal(await made.probe(), false);
    assert.equal(made.processes(), 4);
    // Numbers from the time when it existed are forgotten once it was found missing.
    made.kernel = '18 entries';
    assert.equal(await made.probe(), false);
  });

  it('forgets numbers from before a write of ours', async () => {
    const made = await setUp('iptables v1.8.9 (legacy)\n');
    made.kernel = '17 entries';
    await made.probe();
    await made.tools.restore(ADD, NEVER);
    flush(made);
    assert.equal(await made.probe(), false);
    await made.tools.restore(ADD, NEVER);
    for (let i = 0; i < 2; i++) assert.equal(await made.probe(), true);
    assert.equal(made.processes(), 3);
  });

  it('the next probe sees a change between the numbers and the process', async () => {
    const made = await setUp('iptables v1.8.9 (legacy)\n');
    made.kernel = '17 entries';
    made.iptables.options = {
      intercept: () => {
        flush(made);
        made.kernel = '5 entries';
        return { exitCode: 0, stdout: '', stderr: '' };
      },
    };
    assert.equal(await made.probe(), true, 'it existed a moment ago');
    made.iptables.options = {};
    assert.equal(await made.probe(), false);
  });

  it('keeps each chain of each table apart', async () => {
    const made = await setUp('iptables v1.8.9 (legacy)\n');
    made.kernel = 'the same';
    const probe = rulesProbe({
      tools: made.tools,
      onProblem: assert.fail,
      open: () => Promise.resolve({ chain: () => ({ kind: 'fingerprint', text: 'the same' }), close: () => undefined }),
    });
    assert.equal(await probe.hasChain(CANARY, NEVER), true);
    assert.equal(await probe.hasChain({ ...CANARY, table: 'filter' }, NEVER), false);
  });

  it('starts a process, and reports no problem, when the variant of the tool is not known', async () => {
    for (const version of ['iptables v1.6.1\n', '']) {
      const made = await setUp(version);
      assert.equal(made.tools.variant, undefined);
      assert.equal(await made.probe(), true);
      flush(made);
      assert.equal(await made.probe(), false);
      assert.deepEqual([made.opened, made.processes(), made.problems], [[], 2, []]);
    }
  });

  it('starts a process where the kernel cannot be asked, reports each cause once, and tries the kernel again', async () => {
    const made = await setUp('iptables v1.8.9 (nf_tables)\n');
    made.kernel = new Error('EPERM: operation not permitted');
    for (let i = 0; i < 3; i++) assert.equal(await made.probe(), true);
    flush(made);
    assert.equal(await made.probe(), false);
    made.kernel = new Error('ENOBUFS: no buffer space available');
    assert.equal(await made.probe(), false);
    assert.equal(made.problems.length, 2);
    assert.match(made.problems[0] ?? '', /^IPv4: .*EPERM: operation not permitted$/);
    assert.match(made.problems[1] ?? '', /ENOBUFS/);
    assert.deepEqual([made.opened.length, made.closed], [5, 5], 'a new socket after each failure');
    made.kernel = true;
    const before = made.processes();
    assert.equal(await made.probe(), true);
    assert.equal(made.processes(), before);
  });

  it('starts a process where the kernel refuses the socket', async () => {
    const made = await setUp('iptables v1.8.9 (legacy)\n', () => Promise.reject(new Error('socket: EAFNOSUPPORT')));
    for (let i = 0; i < 2; i++) assert.equal(await made.probe(), true);
    assert.equal(made.processes(), 2);
    assert.equal(made.problems.length, 1);
    assert.match(made.problems[0] ?? '', /socket: EAFNOSUPPORT/);
  });

  it('throws the failure of the process', async () => {
    const made = await setUp('iptables v1.8.9 (legacy)\n');
    made.kernel = '17 entries';
    made.iptables.options = { intercept: () => ({ exitCode: 3, stdout: '', stderr: 'Permission denied' }) };
    await assert.rejects(made.probe(), /iptables -t nat -S KUBE-PROXY-CANARY failed .*Permission denied/);
    assert.deepEqual(made.problems, []);
  });

  it('closes the socket once, and opens no other one', async () => {
    const made = await setUp('iptables v1.8.9 (nf_tables)\n');
    await made.probe();
    made.close();
    made.close();
    await made.probe();
    await breath();
    assert.deepEqual([made.opened.length, made.closed], [1, 1]);
  });

  it('opens the socket once, and closes one that was still opening', async () => {
    const made = await setUp('iptables v1.8.9 (nf_tables)\n');
    const asking = Promise.all([made.probe(), made.probe()]);
    made.close();
    await asking;
    await breath();
    assert.deepEqual([made.opened.length, made.closed], [1, 1]);
  });
});

describe('packets that matched rules', () => {
  const QUERY = { table: 'filter', chain: 'KUBE-FORWARD' };
  const LISTED = [
    '-N KUBE-FORWARD',
    '-A KUBE-FORWARD -m conntrack --ctstate INVALID -c 12 720 -j DROP',
    '-A KUBE-FORWARD -m comment --comment "a \\"b\\" -c 5 5 -j X" -c 3 180 -j ACCEPT',
    '-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -c 7 420',
    '',
  ].join('\n');

  async function made(version: string, listed = { exitCode: 0, stdout: LISTED, stderr: '' }) {
    const runs: string[] = [];
    const answer = { ...listed };
    const iptables = new FakeIptables({
      intercept: ({ file, args }) => {
        if (args[0] === '--version') return { exitCode: 0, stdout: version, stderr: '' };
        runs.push([file, ...args].join(' '));
        return answer;
      },
    });
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    await tools.version(NEVER);
    const clock = new FakeClock();
    const socket = {
      chain: (): ChainAnswer => ({ kind: 'known', exists: true }),
      counters: () => [1, 2],
      close: () => undefined,
    };
    const { counters: _, ...legacy } = socket;
    const open: OpenRules = (variant) => Promise.resolve(variant === 'nft' ? socket : legacy);
    const probe = rulesProbe({ tools, onProblem: assert.fail, open, clock });
    return { runs, answer, clock, count: () => probe.counters(QUERY, NEVER) };
  }

  it('come from nftables itself, without a process', async () => {
    const { count, runs } = await made('iptables v1.8.9 (nf_tables)\n');
    assert.deepEqual(await count(), [1, 2]);
    assert.deepEqual(runs, []);
  });

  it('come from a process with the legacy variant, at most four times a minute', async () => {
    const { count, runs, clock } = await made('iptables v1.8.9 (legacy)\n');
    assert.deepEqual(await Promise.all([count(), count()]), [
      [12, 3, 7],
      [12, 3, 7],
    ]);
    assert.deepEqual(runs, ['iptables --wait 5 -t filter -v -S KUBE-FORWARD']);
    clock.advance(14_000);
    await count();
    assert.equal(runs.length, 1);
    clock.advance(1000);
    await count();
    assert.equal(runs.length, 2);
  });

  it('are none for a missing chain; another failure is thrown, and the next read tries again', async () => {
    const nothing = { exitCode: 1, stdout: '', stderr: 'iptables: No chain/target/match by that name.\n' };
    assert.deepEqual(await (await made('iptables v1.8.9 (legacy)\n', nothing)).count(), []);
    const denied = { exitCode: 3, stdout: '', stderr: 'Permission denied' };
    const { count, clock, answer } = await made('iptables v1.8.9 (legacy)\n', denied);
    await assert.rejects(count(), /iptables -t filter -v -S KUBE-FORWARD failed .*Permission denied/);
    Object.assign(answer, { exitCode: 0, stdout: LISTED });
    clock.advance(15_000);
    assert.deepEqual(await count(), [12, 3, 7]);
  });
});
