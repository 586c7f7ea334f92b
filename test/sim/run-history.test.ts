/** One history of the simulator: it is the same each time, and it fails where something is wrong. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SimMode } from './history/actions.ts';
import { type HistoryPlan, planOf } from './history/plan.ts';
import { shrink } from './history/shrink.ts';
import { failureText, runHistory } from './run-history.ts';

const MODES: readonly SimMode[] = ['nftables', 'iptables', 'ipvs'];

/** Without faults, and with nobody who disturbs. */
function quiet(mode: SimMode): HistoryPlan {
  const plan = planOf(3, { mode });
  const steps = plan.steps.filter(({ at, action: { kind } }) => at === 0 || kind === 'put' || kind === 'delete');
  return { ...plan, source: 'api', steps: steps.slice(0, 30), faultRate: 0 };
}

describe('a history', () => {
  for (const mode of MODES) {
    it(`holds in ${mode} mode, and is the same each time`, async () => {
      const first = await runHistory(quiet(mode));
      const { failure } = first;
      assert.equal(failure, undefined, failure === undefined ? '' : failureText(quiet(mode), failure));
      assert.ok(first.commits > 3 && first.calls > 100, `${first.commits} commits, ${first.calls} calls`);
      const second = await runHistory(quiet(mode));
      assert.equal(second.digest, first.digest);
    });
  }

  it('leaves nothing in memory: ten thousand are run in one process', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const kernels: WeakRef<object>[] = [];
    for (const seed of [9, 10, 11, 12]) {
      await runHistory(planOf(seed), { onKernel: (kernel) => void kernels.push(new WeakRef(kernel)) });
    }
    collect();
    const left = kernels.filter((kernel) => kernel.deref() !== undefined).length;
    assert.ok(left <= 1, `${left} of ${kernels.length} are left`);
  });

  it('is the same each time with faults, kills and controllers as well', async () => {
    const plan: HistoryPlan = { ...planOf(9), faultRate: 0.02 };
    const [first, second] = [await runHistory(plan), await runHistory(plan)];
    assert.ok(first.faults.length > 5);
    assert.deepEqual(second, first);
    // Planned by their numbers, the same faults happen.
    const third = await runHistory({ ...plan, faults: first.faults });
    assert.equal(third.digest, first.digest);
  });

  it('is made shorter as long as it fails', async () => {
    const plan = planOf(9);
    const [first, second] = [plan.steps[3], plan.steps.at(-1)];
    const faults = [7, 9, 12, 40].map((call) => ({ call, dice: 0.5 }));
    let runs = 0;
    const stillFails = async ({ steps, faults: left = [] }: HistoryPlan) => {
      runs += 1;
      return [first, second].every((step) => step && steps.includes(step)) && left.some(({ call }) => call === 12);
    };
    const shorter = await shrink({ ...plan, faults }, stillFails, 500);
    assert.deepEqual(shorter.steps, [first, second]);
    assert.deepEqual(shorter.faults, [{ call: 12, dice: 0.5 }]);
    assert.ok(runs < 500, `${runs} runs`);
    const log = ['12.000 agent 1: {"level":"warn","msg":"cannot follow services"}'];
    const failure = {
      kind: 'stray',
      text: 'pod -> TCP 10.96.0.10:80 goes to 10.244.9.9:80',
      at: 12_345,
      step: second,
      log,
    };
    const text = failureText(shorter, failure);
    for (const part of ['stray: pod', 'at 12.345 s', 'seed 9', 'calls: 12', 'agent 1: warn cannot follow services'])
      assert.ok(text.includes(part), `${part} is missing in ${text}`);
  });
});
