/** A check after a notice, while no reading of the rules may be made: the canaries tell whether all of them are gone. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Agent } from '../../src/agent/agent.ts';
import { KernelWatch, ReadBudget } from '../../src/agent/kernel-watch.ts';
import { breath } from '../../src/base/clock.ts';
import { createMutex } from '../../src/base/mutex.ts';
import type { Config } from '../../src/config/config.ts';
import type { Health } from '../../src/serve/health.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

const CONFIG = { mode: 'iptables', syncPeriod: 3_600_000 } as Config;
const nothing = () => undefined;

it('repairs rules that are gone within a second, also when all readings are spent, and reads nothing', async () => {
  const clock = new FakeClock();
  let isInstalled = true;
  let reads = 0;
  const losses: number[] = [];
  let notice = nothing;
  const mode = {
    isObserved: true,
    isWaiting: false,
    probe: {
      heard: async () => ({ kind: 'unknown' }),
      isInstalled: async () => isInstalled,
      mayDiffer: async () => true,
      differs: async () => {
        reads += 1;
        return false;
      },
    },
    inspection: { lastWriter: async () => undefined },
  };
  const onNode = {
    notices: {
      listen: nothing,
      onCommit: (call: () => undefined) => {
        notice = call;
        return nothing;
      },
    },
    changes: async () => [],
  };
  const agent = { clock, mode, onNode, loop: { distrust: nothing } } as unknown as Agent;
  const readBudget = new ReadBudget(clock, CONFIG);
  for (let n = 0; n < 2; n++) readBudget.checkTook(60_000);
  const stop = new AbortController();
  const watch = new KernelWatch(agent, {
    config: CONFIG,
    log: { info: nothing, warn: nothing, error: nothing, debug: nothing } as unknown as Log,
    health: { checked: nothing, verified: nothing, notVerified: nothing, fights: nothing } as unknown as Health,
    signal: stop.signal,
    mutex: createMutex(),
    readBudget,
    onLoss: () => losses.push(clock.now()),
    onWaiting: nothing,
    onOutdated: nothing,
  });
  const pass = async (milliseconds: number) => {
    for (let passed = 0; passed < milliseconds; passed += 100) {
      clock.advance(100);
      for (let n = 0; n < 5; n++) await breath();
    }
  };
  const running = watch.run();
  await pass(1000);
  notice();
  await pass(3000);
  assert.deepEqual([losses, reads], [[], 0], 'they are in place, as far as can be seen');
  isInstalled = false;
  const goneAt = clock.now();
  await pass(1000);
  assert.ok(losses.length > 0 && (losses[0] ?? 0) - goneAt <= 1000, `${losses} after ${goneAt}`);
  assert.equal(reads, 0);
  stop.abort();
  await running;
});
