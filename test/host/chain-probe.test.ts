/** When the kernel is asked whether a chain stands, and when a process is; and who forgets what. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OpenRules, rulesProbe } from '../../src/host/chain-probe.ts';
import { breath } from '../../src/host/clock.ts';
import { IptablesTools } from '../../src/host/iptables-tools.ts';
import { FakeClock } from '../helpers/fake-clock.ts';
import { FakeIptables } from '../helpers/fake-iptables.ts';
import { NEVER } from '../helpers/rig.ts';

const CANARY = { table: 'nat', chain: 'KUBE-PROXY-CANARY' };
const ADD = () => ['*nat', ':KUBE-PROXY-CANARY - [0:0]', 'COMMIT'];

interface World {
  readonly iptables: FakeIptables;
  readonly tools: IptablesTools;
  readonly problems: string[];
  /** What the kernel says; throws it when it is an error. */
  kernel: boolean | string | Error;
  /** Sockets that were opened, and those that were closed. */
  opened: string[];
  closed: number;
  look(): Promise<boolean>;
  /** Looks by a process until now. */
  processes(): number;
  close(): void;
}

/** A canary in the nat table, and a look at it with tools that call themselves so. */
async function world(said: string, open?: OpenRules): Promise<World> {
  const version = { exitCode: 0, stdout: said, stderr: '' };
  const iptables = new FakeIptables({ intercept: ({ args }) => (args[0] === '--version' ? version : undefined) });
  const tools = new IptablesTools(iptables, 'IPv4', 'auto');
  if (said !== '') await tools.version(NEVER);
  await tools.restore(ADD, NEVER);
  const problems: string[] = [];
  const counted: OpenRules = (variant, family) => {
    made.opened.push(`${variant} ${family}`);
    const ask = () => {
      if (made.kernel instanceof Error) throw made.kernel;
      return made.kernel;
    };
    const close = () => {
      made.closed += 1;
    };
    return Promise.resolve({ ask, close });
  };
  const look = rulesProbe({ tools, onProblem: (text) => problems.push(text), open: open ?? counted });
  const made: World = {
    iptables,
    tools,
    problems,
    kernel: true,
    opened: [],
    closed: 0,
    look: () => look.hasChain(CANARY, NEVER),
    processes: () => iptables.ran.filter(({ file }) => file === 'iptables').length,
    close: () => look.close(),
  };
  return made;
}

function flush({ iptables }: World): void {
  iptables.kernels.IPv4.get('nat')?.delete(CANARY.chain);
}

describe('a look at a chain', () => {
  it('is a question to nftables where the tool writes there', async () => {
    const made = await world('iptables v1.8.9 (nf_tables)\n');
    assert.equal(made.tools.variant, 'nft');
    assert.deepEqual(made.opened, [], 'nothing is opened before the first look');
    assert.equal(await made.look(), true);
    made.kernel = false;
    assert.equal(await made.look(), false);
    assert.deepEqual([made.opened, made.processes(), made.problems], [['nft IPv4'], 0, []]);
  });

  it('is one process with the legacy variant, until the numbers of the table are others', async () => {
    const made = await world('iptables v1.8.9 (legacy)\n');
    assert.equal(made.tools.variant, 'legacy');
    made.kernel = '17 entries';
    for (let i = 0; i < 3; i++) assert.equal(await made.look(), true);
    assert.deepEqual([made.opened, made.processes()], [['legacy IPv4'], 1]);
    // Another program added a rule of its own.
    made.kernel = '18 entries';
    for (let i = 0; i < 3; i++) assert.equal(await made.look(), true);
    assert.equal(made.processes(), 2);
    // And now it flushes: what is not there is looked for each time.
    flush(made);
    made.kernel = '5 entries';
    for (let i = 0; i < 2; i++) assert.equal(await made.look(), false);
    assert.equal(made.processes(), 4);
    // Numbers of a time when it stood count no more once it was seen gone.
    made.kernel = '18 entries';
    assert.equal(await made.look(), false);
  });

  it('knows nothing by numbers from before a write of ours', async () => {
    const made = await world('iptables v1.8.9 (legacy)\n');
    made.kernel = '17 entries';
    await made.look();
    await made.tools.restore(ADD, NEVER);
    flush(made);
    assert.equal(await made.look(), false);
    await made.tools.restore(ADD, NEVER);
    for (let i = 0; i < 2; i++) assert.equal(await made.look(), true);
    assert.equal(made.processes(), 3);
  });

  it('sees next time what changes between the numbers and the look by a process', async () => {
    const made = await world('iptables v1.8.9 (legacy)\n');
    made.kernel = '17 entries';
    made.iptables.options = {
      intercept: () => {
        flush(made);
        made.kernel = '5 entries';
        return { exitCode: 0, stdout: '', stderr: '' };
      },
    };
    assert.equal(await made.look(), true, 'it stood just now');
    made.iptables.options = {};
    assert.equal(await made.look(), false);
  });

  it('knows each chain of each table by itself', async () => {
    const made = await world('iptables v1.8.9 (legacy)\n');
    made.kernel = 'the same';
    const look = rulesProbe({
      tools: made.tools,
      onProblem: assert.fail,
      open: () => Promise.resolve({ ask: () => 'the same', close: () => undefined }),
    });
    assert.equal(await look.hasChain(CANARY, NEVER), true);
    assert.equal(await look.hasChain({ ...CANARY, table: 'filter' }, NEVER), false);
  });

  it('is a process, and no problem, with a tool that does not say its variant, or was not asked', async () => {
    for (const said of ['iptables v1.6.1\n', '']) {
      const made = await world(said);
      assert.equal(made.tools.variant, undefined);
      assert.equal(await made.look(), true);
      flush(made);
      assert.equal(await made.look(), false);
      assert.deepEqual([made.opened, made.processes(), made.problems], [[], 2, []]);
    }
  });

  it('is a process where the kernel cannot be asked, which is said once for each cause, and tried again', async () => {
    const made = await world('iptables v1.8.9 (nf_tables)\n');
    made.kernel = new Error('EPERM: operation not permitted');
    for (let i = 0; i < 3; i++) assert.equal(await made.look(), true);
    flush(made);
    assert.equal(await made.look(), false);
    made.kernel = new Error('ENOBUFS: no buffer space available');
    assert.equal(await made.look(), false);
    assert.equal(made.problems.length, 2);
    assert.match(made.problems[0] ?? '', /^IPv4: .*EPERM: operation not permitted$/);
    assert.match(made.problems[1] ?? '', /ENOBUFS/);
    assert.deepEqual([made.opened.length, made.closed], [5, 5], 'after trouble the socket is another');
    made.kernel = true;
    const before = made.processes();
    assert.equal(await made.look(), true);
    assert.equal(made.processes(), before);
  });

  it('is a process where the kernel lets nobody in', async () => {
    const made = await world('iptables v1.8.9 (legacy)\n', () => Promise.reject(new Error('socket: EAFNOSUPPORT')));
    for (let i = 0; i < 2; i++) assert.equal(await made.look(), true);
    assert.equal(made.processes(), 2);
    assert.equal(made.problems.length, 1);
    assert.match(made.problems[0] ?? '', /socket: EAFNOSUPPORT/);
  });

  it('tells what the process runs into as its own trouble', async () => {
    const made = await world('iptables v1.8.9 (legacy)\n');
    made.kernel = '17 entries';
    made.iptables.options = { intercept: () => ({ exitCode: 3, stdout: '', stderr: 'Permission denied' }) };
    await assert.rejects(made.look(), /iptables -t nat -S KUBE-PROXY-CANARY failed .*Permission denied/);
    assert.deepEqual(made.problems, []);
  });

  it('lets go of the kernel once', async () => {
    const made = await world('iptables v1.8.9 (nf_tables)\n');
    made.close();
    await made.look();
    made.close();
    made.close();
    await breath();
    assert.equal(made.closed, 1);
  });

  it('opens it once, whoever asks first, and leaves none open that is let go of meanwhile', async () => {
    const made = await world('iptables v1.8.9 (nf_tables)\n');
    await Promise.all([made.look(), made.look()]);
    assert.equal(made.opened.length, 1);
    made.close();
    const asking = made.look();
    made.close();
    await asking;
    await breath();
    assert.deepEqual([made.opened.length, made.closed], [2, 2]);
  });
});

describe('packets that rules counted', () => {
  const QUERY = { table: 'filter', chain: 'KUBE-FORWARD' };
  const LISTED = [
    '-N KUBE-FORWARD',
    '-A KUBE-FORWARD -m conntrack --ctstate INVALID -c 12 720 -j DROP',
    '-A KUBE-FORWARD -m comment --comment "a \\"b\\" -c 5 5 -j X" -c 3 180 -j ACCEPT',
    '-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -c 7 420',
    '',
  ].join('\n');

  async function made(said: string, listed = { exitCode: 0, stdout: LISTED, stderr: '' }) {
    const runs: string[] = [];
    const answer = { ...listed };
    const iptables = new FakeIptables({
      intercept: ({ file, args }) => {
        if (args[0] === '--version') return { exitCode: 0, stdout: said, stderr: '' };
        runs.push([file, ...args].join(' '));
        return answer;
      },
    });
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    await tools.version(NEVER);
    const clock = new FakeClock();
    const socket = { ask: () => true, counters: () => [1, 2], close: () => undefined };
    const { counters: _, ...legacy } = socket;
    const open: OpenRules = (variant) => Promise.resolve(variant === 'nft' ? socket : legacy);
    const look = rulesProbe({ tools, onProblem: assert.fail, open, clock });
    return { runs, answer, clock, count: () => look.counters(QUERY, NEVER) };
  }

  it('are asked of nftables itself: no process is started', async () => {
    const { count, runs } = await made('iptables v1.8.9 (nf_tables)\n');
    assert.deepEqual(await count(), [1, 2]);
    assert.deepEqual(runs, []);
  });

  it('are read by a process with the legacy variant, four times a minute at most', async () => {
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

  it('are none of a chain that is not there; another trouble is told, and tried again', async () => {
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
