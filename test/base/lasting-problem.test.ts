/** A problem that lasts is told when it begins, when its cause changes, and every ten minutes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LastingProblem, LastingProblems, MAX_CAUSES, REPORT_PERIOD_MS } from '../../src/base/lasting-problem.ts';

describe('a problem that lasts', () => {
  it('is told when it begins, changes, begins again, and every ten minutes', () => {
    const problem = new LastingProblem();
    const told: [string, number][] = [];
    const met = (cause: string, now: number) => problem.met(cause, now) && told.push([cause, now]);
    for (let now = 0; now < REPORT_PERIOD_MS; now += 1000) met('a', now);
    met('a', REPORT_PERIOD_MS);
    met('b', REPORT_PERIOD_MS + 1);
    met('b', REPORT_PERIOD_MS + 2);
    assert.equal(problem.over(), true);
    assert.equal(problem.over(), false);
    met('b', REPORT_PERIOD_MS + 3);
    assert.deepEqual(told, [
      ['a', 0],
      ['a', REPORT_PERIOD_MS],
      ['b', REPORT_PERIOD_MS + 1],
      ['b', REPORT_PERIOD_MS + 3],
    ]);
  });

  it('whose causes alternate is told once for each of them in a period', () => {
    const problem = new LastingProblem();
    const told: [string, number][] = [];
    const servers = ['ECONNREFUSED 192.0.2.1:6443', 'ECONNREFUSED 192.0.2.2:6443'];
    for (let now = 0; now <= REPORT_PERIOD_MS; now += 1000)
      for (const cause of servers) if (problem.met(cause, now)) told.push([cause, now]);
    assert.deepEqual(
      told,
      [0, REPORT_PERIOD_MS].flatMap((now) => servers.map((cause) => [cause, now])),
    );
  });

  it('forgets the cause that was told first when it has had too many', () => {
    const problem = new LastingProblem();
    for (let n = 0; n <= MAX_CAUSES; n++) assert.ok(problem.met(`cause ${n}`, n));
    assert.equal(problem.met('cause 1', 20), false);
    assert.equal(problem.met('cause 0', 20), true);
  });

  it('without a period is told once for each cause, until it is over', () => {
    const problem = new LastingProblem(Number.POSITIVE_INFINITY);
    const told = [0, REPORT_PERIOD_MS, 100 * REPORT_PERIOD_MS].map((now) => problem.met('a', now));
    assert.deepEqual(told, [true, false, false]);
    problem.over();
    assert.ok(problem.met('a', 101 * REPORT_PERIOD_MS));
  });

  it('of many objects is told for each of them, and objects that are gone are forgotten', () => {
    const problems = new LastingProblems();
    for (let n = 0; n < 1000; n++) assert.ok(problems.met(`service ${n}`, 'refused', 0));
    for (let n = 0; n < 1000; n++) assert.ok(!problems.met(`service ${n}`, 'refused', 5));
    problems.keep(new Set(['service 1']));
    assert.deepEqual([problems.over('service 1'), problems.over('service 2')], [true, false]);
    problems.met('service 3', 'refused', 10);
    problems.met('service 4', 'refused', 10 + REPORT_PERIOD_MS);
    assert.deepEqual([problems.over('service 3'), problems.over('service 4')], [false, true]);
  });
});
