/** Checks after a notice of the kernel. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Agent } from '../../src/agent/agent.ts';
import { KernelWatch, ReadBudget } from '../../src/agent/kernel-watch.ts';
import { breath } from '../../src/base/clock.ts';
import { createMutex } from '../../src/base/mutex.ts';
import type { Config } from '../../src/config/config.ts';
import type { Heard, KernelProbe, Mode } from '../../src/proxy/modes/mode.ts';
import type { Health } from '../../src/serve/health.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

const CONFIG = { mode: 'iptables', syncPeriod: 60_000 } as Config;
const nothing = () => undefined;
const NOTHING: Heard = { kind: 'nothing' };

interface Watched {
  readonly of?: Partial<Mode>;
  /** Asks the machine which facts changed. */
  readonly changes?: () => Promise<readonly never[]>;
  readonly timesAsked?: () => number;
}

/** A watch over these answers of the mode; `losses` are the times at which it asked for a repair. */
function watched(
  probe: Partial<KernelProbe>,
  { of = {}, changes = async () => [], timesAsked = () => 0 }: Watched = {},
) {
  const clock = new FakeClock();
  const losses: number[] = [];
  const noticed: string[] = [];
  const lines: string[] = [];
  const line = (_facts: unknown, text: string) => void lines.push(text);
  let notice = nothing;
  const inspection = { lastWriter: async () => undefined };
  const mode = { isObserved: true, isObservedInPart: true, isWaiting: false, probe, inspection, ...of };
  const onNode = {
    notices: {
      listen: nothing,
      onCommit: (call: () => undefined) => {
        notice = call;
        return nothing;
      },
    },
    changes,
  };
  let isDistrusted = false;
  const distrust = () => {
    isDistrusted = true;
  };
  const agent = { clock, mode, onNode, loop: { distrust } } as unknown as Agent;
  const readBudget = new ReadBudget(clock, CONFIG);
  const mutex = createMutex();
  const stop = new AbortController();
  const watch = new KernelWatch(agent, {
    config: CONFIG,
    log: { info: nothing, warn: line, error: line, debug: nothing, v2: nothing } as unknown as Log,
    health: { checked: nothing, verified: nothing, notVerified: nothing, fights: nothing } as unknown as Health,
    signal: stop.signal,
    mutex,
    readBudget,
    timesAsked,
    onLoss: () => losses.push(clock.now()),
    onWaiting: nothing,
    onNoticed: (touched) => noticed.push(touched),
    onOutdated: nothing,
  });
  const running = watch.run();
  const pass = async (milliseconds: number) => {
    for (let passed = 0; passed < milliseconds; passed += 100) {
      clock.advance(100);
      for (let n = 0; n < 5; n++) await breath();
    }
  };
  const end = async () => {
    stop.abort();
    await running;
  };
  /** Something else has the mutex, until the result is called. */
  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const held = mutex(() => promise);
    return async () => {
      resolve();
      await held;
    };
  };
  /** A sync, to be called with the mutex: resolves with whether it reads the kernel. */
  const sync = async () => {
    await watch.syncBegins();
    const reads = isDistrusted;
    isDistrusted = false;
    return reads;
  };
  return { hold, sync, noticed, lines, clock, losses, readBudget, mutex, notice: () => notice(), pass, end };
}

it('repairs rules that are gone within a second, also when all readings are spent, and reads nothing', async () => {
  let isInstalled = true;
  let reads = 0;
  const { clock, losses, readBudget, notice, pass, end } = watched({
    heard: async () => ({ kind: 'unknown' }),
    isInstalled: async () => isInstalled,
    mayDiffer: async () => true,
    differs: async () => {
      reads += 1;
      return false;
    },
  });
  for (let n = 0; n < 2; n++) readBudget.checkTook(60_000);
  await pass(1000);
  notice();
  await pass(3000);
  assert.deepEqual([losses, reads], [[], 0], 'they are in place, as far as can be seen');
  isInstalled = false;
  const goneAt = clock.now();
  await pass(1000);
  assert.ok(losses.length > 0 && (losses[0] ?? 0) - goneAt <= 1000, `${losses} after ${goneAt}`);
  assert.equal(reads, 0);
  await end();
});

it('charges a check that got no answer like any other: after the first second it rests nine times as long as it took', async () => {
  let tries = 0;
  const heard = async (): Promise<Heard> => {
    tries += 1;
    watch.clock.advance(1000);
    throw new Error('recv: ENOBUFS');
  };
  const watch = watched({ heard });
  await watch.pass(1000);
  watch.notice();
  await watch.pass(30_000);
  assert.ok(tries >= 2 && tries <= 5, `${tries} tries`);
  await watch.end();
});

it('hears of a family that was read beside one that cannot be', async () => {
  const heard = async (): Promise<Heard> => ({ kind: 'something', by: undefined });
  const { sync, losses, notice, pass, end } = watched({ heard }, { of: { isObserved: false } });
  await pass(1000);
  notice();
  await pass(100);
  assert.equal(await sync(), true, 'the next sync reads what was touched');
  await end();
  assert.equal(losses.length, 1);
});

it('a sync that waited beside a check for the kernel reads it where the check finds rules that are gone', async () => {
  const { hold, sync, mutex, losses, pass, end } = watched({ isInstalled: async () => false });
  const release = hold();
  await pass(CONFIG.syncPeriod + 1000);
  const reads = mutex(async () => [losses.length, await sync()]);
  await release();
  assert.deepEqual(await reads, [1, true], 'it takes the repair, and the name of the other program, along');
  await end();
});

it('a sync that begins before a notice was looked at reads the kernel only where the notice is about objects of ours', async () => {
  let found: Heard | Error = { kind: 'something', by: undefined };
  const heard = async () => {
    if (found instanceof Error) throw found;
    return found;
  };
  const { hold, sync, notice, pass, end } = watched({ heard });
  assert.equal(await sync(), false, 'without a notice nothing is asked');
  const release = hold();
  // The watch is in the check of a syncPeriod, which waits, so the notice does too.
  await pass(CONFIG.syncPeriod + 1000);
  notice();
  assert.equal(await sync(), true);
  found = { kind: 'nothing', by: undefined };
  assert.equal(await sync(), false);
  found = new Error('recv: ENOBUFS');
  assert.equal(await sync(), false);
  await release();
  await end();
});

it('a reading of all rules that fails is made again soon', async () => {
  let readings = 0;
  const differs = () =>
    new Promise<boolean>((resolve, reject) => {
      readings += 1;
      const isFirst = readings === 1;
      watch.clock.after(100, () => (isFirst ? reject(new Error('iptables-save: exit status 4')) : resolve(true)));
    });
  const heard = async (): Promise<Heard> => ({ kind: 'unknown' });
  const watch = watched({ heard, isInstalled: async () => true, mayDiffer: async () => true, differs });
  const { losses, clock, notice, pass, end } = watch;
  await pass(1000);
  const at = clock.now();
  notice();
  await pass(3000);
  await end();
  assert.ok((losses[0] ?? Number.POSITIVE_INFINITY) - at <= 1000, `${losses} after ${at}`);
});

it('a notice that a sync has asked about asks for no sync, and counts once', async () => {
  let questions = 0;
  const answers: Heard[] = [
    { kind: 'something', by: { pid: 4711, name: 'nft' } },
    { kind: 'nothing', by: { pid: 4711, name: 'nft' } },
  ];
  const heard = async () => answers[questions++] ?? { kind: 'nothing' as const };
  const { sync, mutex, noticed, losses, notice, pass, end } = watched({ heard });
  await pass(1000);
  for (const reads of [true, false]) {
    const synced = mutex(sync);
    notice();
    assert.equal(await synced, reads);
    await pass(1000);
  }
  await end();
  assert.deepEqual([noticed, losses], [['ours', 'nothing of ours'], []]);
});

it('a notice that comes while a sync asks about another one is looked at', async () => {
  let questions = 0;
  const heard = async (): Promise<Heard> => {
    questions += 1;
    if (questions === 1) throw new Error('recv: ENOBUFS');
    if (questions > 2) return { kind: 'something' };
    // The answer is about what was there when the question began.
    await breath();
    watch.notice();
    await breath();
    return { kind: 'nothing' };
  };
  const watch = watched({ heard });
  const { sync, mutex, losses, notice, pass, end } = watch;
  await pass(1000);
  notice();
  await pass(100);
  assert.equal(questions, 1, 'the check that failed waits before it asks again');
  assert.equal(await mutex(sync), false);
  await pass(1000);
  await end();
  assert.equal(losses.length, 1);
});

it('a look at the facts that hangs is told of, once', async () => {
  const changes = () => new Promise<never[]>(() => undefined);
  const probe = { isInstalled: async () => true, mayDiffer: async () => false };
  const { lines, pass, end } = watched(probe, { changes });
  await pass(4 * CONFIG.syncPeriod);
  await end();
  assert.deepEqual(lines, ['cannot look whether the Node or this machine changed: no answer within 60 s']);
});

it('a sync asks what a notice is about also where a check that waits behind it will ask, too', async () => {
  const heard = async (): Promise<Heard> => ({ kind: 'something', by: undefined });
  const { hold, sync, mutex, losses, notice, pass, end } = watched({ heard });
  await pass(1000);
  const release = hold();
  const reads = mutex(sync);
  notice();
  await pass(300);
  await release();
  assert.equal(await reads, true);
  await pass(100);
  await end();
  assert.equal(losses.length, 1);
});

it('looks at a notice also while the facts of the machine are not told', async () => {
  const heard = async (): Promise<Heard> => ({ kind: 'something', by: undefined });
  const changes = () => new Promise<never[]>(() => undefined);
  const { losses, notice, pass, end } = watched({ heard, isInstalled: async () => true }, { changes });
  await pass(CONFIG.syncPeriod + 1000);
  notice();
  await pass(100);
  await end();
  assert.equal(losses.length, 1);
});

describe('beside a reading of all rules that does not end', () => {
  /** `found`: what the next notices are about, and whether the canaries are there. */
  function reading() {
    const found: { kind: Heard['kind']; isThere: boolean } = { kind: 'unknown', isThere: true };
    let readings = 0;
    const differs = (signal: AbortSignal) => {
      readings += 1;
      return new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    let questions = 0;
    const heard = async (): Promise<Heard> => {
      questions += 1;
      return { kind: found.kind };
    };
    const watch = watched({ heard, isInstalled: async () => found.isThere, mayDiffer: async () => true, differs });
    return { ...watch, found, readings: () => readings, questions: () => questions };
  }

  it('a notice that names what was touched is repaired at once, and a second reading does not begin', async () => {
    const { found, readings, questions, losses, clock, notice, pass, end } = reading();
    await pass(1000);
    notice();
    await pass(5000);
    notice();
    await pass(5000);
    assert.equal(readings(), 1);
    assert.ok(questions() <= 15, `${questions()} questions`);
    found.kind = 'something';
    const at = clock.now();
    notice();
    await pass(1000);
    await end();
    assert.ok((losses[0] ?? Number.POSITIVE_INFINITY) - at <= 500, `${losses} after ${at}`);
    assert.equal(readings(), 1);
  });

  it('the rules are read again when a reading may go on: what the notice was about is still to be found out', async () => {
    const { found, readings, readBudget, losses, clock, notice, pass, end } = reading();
    await pass(1000);
    notice();
    await pass(35_000);
    assert.equal(readings(), 1);
    await pass(readBudget.mayReadAt - clock.now() + 2000);
    assert.equal(readings(), 2);
    // Until the next reading, which is far, a notice that names what was touched is looked at.
    await pass(60_000);
    found.kind = 'something';
    const at = clock.now();
    notice();
    await pass(5000);
    await end();
    assert.ok((losses[0] ?? Number.POSITIVE_INFINITY) - at <= 1000, `${losses} after ${at}`);
  });

  it('rules that are gone are found within a second, also after it was cut off', async () => {
    const { found, losses, clock, notice, pass, end } = reading();
    await pass(1000);
    notice();
    await pass(90_000);
    found.isThere = false;
    const at = clock.now();
    await pass(2000);
    await end();
    assert.ok((losses[0] ?? Number.POSITIVE_INFINITY) - at <= 1000, `${losses} after ${at}`);
  });
});

it('looks at the rules also where the facts of the machine cannot be read', async () => {
  const changes = () => Promise.reject(new Error('recv: ENOBUFS'));
  const { losses, pass, end } = watched({ isInstalled: async () => false }, { changes });
  await pass(CONFIG.syncPeriod + 1000);
  await end();
  assert.equal(losses.length, 1);
});

/** The journal of a large ruleset, or an event loop that syncs hold. */
const SLOW_CHECK = 300;

it('looks at once after a check that took long: several are paid for by a rest', async () => {
  let found: Heard = { kind: 'nothing', by: undefined };
  const watch = watched({
    heard: async () => {
      watch.clock.advance(SLOW_CHECK);
      return found;
    },
  });
  await watch.pass(1000);
  watch.notice();
  await watch.pass(100);
  found = { kind: 'something', by: undefined };
  const at = watch.clock.now();
  watch.notice();
  await watch.pass(5000);
  assert.equal(watch.losses.length, 1);
  assert.ok((watch.losses[0] ?? 0) - at <= SLOW_CHECK + 100, `${watch.losses} after ${at}`);
  await watch.end();
});

it('does not charge a check for the sync that it waited for', async () => {
  let found: Heard = { kind: 'nothing', by: undefined };
  const watch = watched({ heard: async () => found });
  await watch.pass(1000);
  const release = watch.hold();
  watch.notice();
  await watch.pass(10_000);
  await release();
  await watch.pass(100);
  found = { kind: 'something', by: undefined };
  const at = watch.clock.now();
  watch.notice();
  await watch.pass(5000);
  assert.ok((watch.losses[0] ?? Number.POSITIVE_INFINITY) - at <= 100, `${watch.losses} after ${at}`);
  await watch.end();
});

it('looks again soon, and not at once, where the kernel gave no answer after a notice: the next syncPeriod would be too late', async () => {
  let isFailing = true;
  let tries = 0;
  const heard = async (): Promise<Heard> => {
    tries += 1;
    if (isFailing) throw new Error('recv: ENOBUFS');
    return { kind: 'something', by: undefined };
  };
  const { clock, losses, notice, pass, end } = watched({ heard });
  await pass(1000);
  notice();
  await pass(3000);
  assert.ok(tries >= 3 && tries <= 7, `${tries} tries`);
  isFailing = false;
  const at = clock.now();
  await pass(1000);
  assert.equal(losses.length, 1);
  assert.ok((losses[0] ?? 0) - at <= 600, `${losses} after ${at}`);
  await end();
});

it('reads all rules after another process asked for the agent, as run --once does when it wrote, and again until they could be read', async () => {
  let asked = 0;
  let reads = 0;
  const differs = async () => {
    reads += 1;
    if (reads === 1) throw new Error('the xtables lock is held');
    return true;
  };
  const probe = { heard: async () => NOTHING, isInstalled: async () => true, mayDiffer: async () => false, differs };
  const { losses, pass, end } = watched(probe, { timesAsked: () => asked });
  await pass(CONFIG.syncPeriod + 1000);
  assert.equal(reads, 0);
  asked += 1;
  await pass(2 * CONFIG.syncPeriod);
  assert.deepEqual([reads, losses.length], [2, 1]);
  await pass(2 * CONFIG.syncPeriod);
  assert.equal(reads, 2, 'once for each time');
  await end();
});
