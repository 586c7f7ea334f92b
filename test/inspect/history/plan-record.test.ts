/** The record of a plan: its digest, and what it costs. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isLong, planRecord } from '../../../src/inspect/history/records.ts';
import { planText, type Step } from '../../../src/proxy/reconcile/step.ts';

/** Steps of so many lines of 80 characters; `made` counts the lines that were asked for. */
function stepsOf(count: number, lines: number): { readonly steps: readonly Step[]; readonly made: () => number } {
  let made = 0;
  const step = (n: number): Step => ({
    ...{ key: `IPv4 elements of default/web-${n}`, family: 'IPv4', kind: 'rules', action: 'create' },
    phase: 'create servers, destinations, chains and rules',
    owner: `default/web-${n}`,
    concerns: () => [],
    lines: () => {
      made += lines;
      return Array.from({ length: lines }, (_, i) => `+ backends ${n} ${i}`.padEnd(80, '.'));
    },
  });
  return { steps: Array.from({ length: count }, (_, n) => step(n)), made: () => made };
}

describe('the record of a plan', () => {
  it('has a digest that is that of the same text alone', () => {
    const [one, same, other] = [stepsOf(20, 5), stepsOf(20, 5), stepsOf(20, 6)].map(({ steps }) =>
      planRecord({ steps }),
    );
    assert.match(one?.digest ?? '', /^[0-9a-f]{32}$/);
    assert.deepEqual(one, same);
    assert.notEqual(one?.digest, other?.digest);
  });

  it('has none for a plan of a long text, which is not made to its end', () => {
    const { steps, made } = stepsOf(500, 50);
    assert.deepEqual(planRecord({ steps }), { steps: 500, digest: '' });
    assert.ok(made() < 6000, `${made()} lines`);
  });

  it('has none for one of many parts, whose steps need not be kept', () => {
    const { steps, made } = stepsOf(20, 5);
    assert.equal(isLong({ steps, isPart: true }), true);
    assert.deepEqual([planRecord({ steps, isPart: true }), made()], [{ steps: 20, digest: '' }, 0]);
  });

  it('is of the text that people see', () => {
    const { steps } = stepsOf(2, 1);
    assert.equal(planText({ steps }).split('\n').at(-1), '2 to create, 0 to change, 0 to remove');
    assert.equal(planText({ steps: [] }), 'nothing to do');
  });
});
