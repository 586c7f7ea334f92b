/** One agent in a network namespace: what a second one does, by what has the name. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CannotRun } from '../../src/agent/cannot-run.ts';
import { holdName, mustHaveModeOfAgent } from '../../src/agent/singleton.ts';
import type { HeldName, HolderAnswer, NameService } from '../../src/kernel/agent-name.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { until } from '../helpers/base/until.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const SINCE = '2026-11-21T10:00:00.000Z';
const ROOT = { pid: 4711, uid: 0 };
const lineOf = (more: object = {}) =>
  JSON.stringify({ pid: 1, since: SINCE, mode: 'nftables', isStopping: false, ...more });
const says = (line: string, peer = ROOT): HolderAnswer => ({ kind: 'line', peer, line });
const running = says(lineOf());
const stopping = says(lineOf({ isStopping: true }));
const nobody: HolderAnswer = { kind: 'no connection', cause: 'ECONNREFUSED' };

interface Tried {
  readonly held: HeldName | undefined;
  readonly error: unknown;
  readonly log: readonly string[];
  readonly clock: FakeClock;
  readonly line: (() => string) | undefined;
}

interface World {
  /** Answers in turn; the name is free after the last one, unless it is `forever`. */
  readonly answers: readonly HolderAnswer[];
  readonly forever?: HolderAnswer;
  readonly uid?: number;
  readonly take?: NameService['take'];
  readonly signal?: AbortSignal;
  readonly onAsk?: () => void;
}

async function tryIn({ answers, forever, uid = 0, take, signal = NEVER, onAsk }: World): Promise<Tried> {
  const log: string[] = [];
  const say = (level: string) => (text: string) => log.push(`${level}: ${text}`);
  const left = [...answers];
  const clock = new FakeClock({ hurried: true });
  let line: (() => string) | undefined;
  const names: NameService = {
    uid,
    take:
      take ??
      ((own) => {
        line = own;
        return Promise.resolve(
          left.length > 0 || forever !== undefined ? undefined : { release: () => Promise.resolve() },
        );
      }),
    ask: () => {
      onAsk?.();
      return Promise.resolve(left.shift() ?? forever ?? nobody);
    },
  };
  let held: HeldName | undefined;
  let error: unknown;
  try {
    const to = { info: say('info'), warn: say('warn') } as unknown as Log;
    held = await holdName({ log: to, clock, signal, names, mode: () => 'ipvs' });
  } catch (thrown) {
    error = thrown;
  }
  return { held, error, log, clock, line };
}

async function refused(world: World): Promise<{ readonly text: string; readonly waited: number }> {
  const { error, clock } = await tryIn(world);
  assert.ok(error instanceof CannotRun, String(error));
  assert.match(error.message, /This one wrote nothing, and exits: a node has one agent\. Stop the other one first/);
  return { text: error.message, waited: clock.now() };
}

describe('the second agent of a network namespace', () => {
  it('takes a free name at once, and says who it is', async () => {
    const { held, log, clock, line } = await tryIn({ answers: [] });
    assert.ok(held !== undefined);
    assert.deepEqual([log, clock.now()], [[], 0]);
    const said = JSON.parse(line?.() ?? '') as object;
    assert.deepEqual(said, { pid: process.pid, since: '2026-11-21T00:00:00.000Z', mode: 'ipvs', isStopping: false });
  });

  it('names the agent that runs: by the pid of the kernel, or by its own where that is not seen from here', async () => {
    const { text, waited } = await refused({ answers: [running] });
    assert.match(
      text,
      /^another slicewire agent runs in this network namespace: pid 4711, since 2026-11-21T10:00:00\.000Z, in nftables mode\./,
    );
    assert.equal(waited, 0);
    const unseen = await refused({ answers: [says(lineOf(), { pid: 0, uid: 0 })] });
    assert.match(unseen.text, /: pid 1 in a pid namespace that this process does not see, since /);
  });

  it('waits for an agent that ends, says so once, and starts at once when it has ended', async () => {
    const { held, log, clock } = await tryIn({ answers: [...Array(30).fill(stopping), nobody] });
    assert.ok(held !== undefined);
    assert.match(log.join('\n'), /^info: another slicewire agent is ending \(pid 4711, [^\n]*\): waiting for it$/);
    assert.ok(clock.now() < 31 * 50 + 1);
  });

  it('waits no longer than an agent may take to end', async () => {
    const { text, waited } = await refused({ answers: [], forever: stopping });
    assert.match(text, /received the signal to end, and still runs after 20 s/);
    assert.ok(waited >= 20_000 && waited < 21_000);
  });

  it('starts right after an agent that was killed', async () => {
    const { held, log } = await tryIn({ answers: [{ kind: 'closed', peer: ROOT }, nobody] });
    assert.ok(held !== undefined);
    assert.deepEqual(log, []);
  });

  it('says that the holder does not answer', async () => {
    const { text } = await refused({ answers: [{ kind: 'silent', peer: ROOT }] });
    assert.match(
      text,
      /^the process with pid 4711 \(uid 0\) holds the name .* did not answer within 1 s: probably another slicewire agent that was stopped \(SIGSTOP\) or hangs/,
    );
    const closing = await refused({ answers: [], forever: { kind: 'closed', peer: ROOT } });
    assert.match(closing.text, /did not answer within 1 s/);
    assert.ok(closing.waited >= 1000);
  });

  for (const [what, line] of Object.entries({
    'no JSON': 'hello \u001b[31m',
    'a pid that is none': lineOf({ pid: -1 }),
    'a mode that is none': lineOf({ mode: 'x'.repeat(30) }),
    'a moment that is none': lineOf({ since: 'yesterday' }),
    'a line without an end': 'x'.repeat(1025),
  })) {
    it(`shows an answer that is not an agent's, bounded and without control characters: ${what}`, async () => {
      const { text } = await refused({ answers: [says(line)] });
      assert.match(text, /its answer is not that of an agent: "/);
      assert.ok(text.length < 400 && !text.includes('\u001b'));
    });
  }

  for (const [what, answer] of Object.entries({
    'answers like an agent': says(lineOf(), { pid: 99, uid: 1000 }),
    'does not answer': { kind: 'silent', peer: { pid: 99, uid: 1000 } } as const,
    'closes each connection': { kind: 'closed', peer: { pid: 99, uid: 1000 } } as const,
  })) {
    it(`is not kept from starting by a process of another user, which ${what}`, async () => {
      const { held, error, log } = await tryIn({ answers: [], forever: answer });
      assert.equal(error, undefined);
      assert.equal(log.length, 1);
      assert.match(
        log[0] ?? '',
        /^warn: the process with pid 99 \(uid 1000\) holds the name .* runs as another user\. This agent goes on/,
      );
      await held?.release();
    });
  }

  it('takes a process of its own user for an agent, when it is not root', async () => {
    const { text } = await refused({ answers: [says(lineOf(), { pid: 99, uid: 1000 })], uid: 1000 });
    assert.match(text, /another slicewire agent runs/);
  });

  it('is not kept from starting by a name that nobody listens to, or whose queue is full', async () => {
    for (const cause of ['ECONNREFUSED', 'EAGAIN']) {
      const { held, log, clock } = await tryIn({ answers: [], forever: { kind: 'no connection', cause } });
      assert.match(
        log.join('\n'),
        new RegExp(`^warn: a process holds the name .* takes no connections \\(${cause}\\)`),
      );
      assert.ok(clock.now() >= 1000 && clock.now() < 1100);
      await held?.release();
    }
  });

  it('takes the name later, when the process of another user is gone', async () => {
    let isFree = false;
    let released = 0;
    const release = () => {
      released += 1;
      return Promise.resolve();
    };
    const { held, log } = await tryIn({
      answers: [],
      forever: says('', { pid: 99, uid: 1000 }),
      take: () => Promise.resolve(isFree ? { release } : undefined),
    });
    isFree = true;
    await until('the name is taken', () => log.some((line) => line.includes('was free: this agent has it now')));
    await held?.release();
    assert.equal(released, 1);
  });

  it('goes on where the kernel refuses the socket, and says so', async () => {
    const take = () => Promise.reject(new Error('listen EACCES: permission denied'));
    const { held, log } = await tryIn({ answers: [], take });
    assert.ok(held !== undefined);
    assert.match(log.join('\n'), /^warn: cannot make sure that this is the only agent of the node: listen EACCES/);
  });

  it('ends when it is asked to, while it waits', async () => {
    const stop = new AbortController();
    const reason = new Error('received SIGTERM');
    const { error, clock } = await tryIn({
      answers: [],
      forever: stopping,
      signal: stop.signal,
      onAsk: () => stop.abort(reason),
    });
    assert.equal(error, reason);
    assert.equal(clock.pending, 0);
  });
});

describe('run --once beside an agent', () => {
  const once = async (answer: HolderAnswer, uid = 0) => {
    const names: NameService = { uid, take: () => assert.fail('it takes no name'), ask: () => Promise.resolve(answer) };
    await mustHaveModeOfAgent(names, 'ipvs');
  };

  it('of another mode writes nothing, and names the agent and its mode', async () => {
    await assert.rejects(once(running), (error: Error) => {
      assert.ok(error instanceof CannotRun);
      assert.match(error.message, /^the agent of this node \(pid 4711\) runs in nftables mode, and --once would write/);
      assert.match(error.message, /use --mode=nftables, or stop the agent first/);
      return true;
    });
  });

  it('that wrote while the agent changed its mode says what follows', async () => {
    const names: NameService = { uid: 0, take: () => assert.fail('it takes no name'), ask: async () => running };
    await assert.rejects(mustHaveModeOfAgent(names, 'iptables', { hasWritten: true }), {
      message:
        /^the agent of this node \(pid 4711\) runs in nftables mode now, and --once wrote rules of iptables mode: .*, restart it/,
    });
  });

  it('goes on beside one of its mode, one that ends, and a process of another user', async () => {
    await once(says(lineOf({ mode: 'ipvs' })));
    await once(stopping);
    await once(nobody);
    await once(says('no agent says that'));
    await once(says(lineOf(), { pid: 12, uid: 1000 }));
  });
});
