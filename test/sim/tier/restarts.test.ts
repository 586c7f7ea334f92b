/**
 * A thousand restarts leave nothing behind: no timer, no open socket, no memory. They are by SIGTERM: what a killed process held goes with it.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type HistoryPlan, planOf } from '../history/plan.ts';
import { runHistory } from '../run-history.ts';

const RESTARTS = 1000;
/** The first ones fill caches, and compile code. */
const WARM = 200;
/** Bytes that the heap may grow by in the others: what one restart leaves would be seen eight hundred times. */
const MAX_GROWTH = 8 * 2 ** 20;

it('memory is flat over a thousand restarts', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const plan = planOf(3, { mode: 'nftables' });
  const objects = plan.steps.filter(({ at }) => at === 0);
  const restarts = Array.from({ length: RESTARTS }, (_, i) => ({
    at: 5000 + i * 4000,
    action: { kind: 'agent', what: 'restart' } as const,
  }));
  const long: HistoryPlan = { ...plan, source: 'api', steps: [...objects, ...restarts], faultRate: 0, faults: [] };
  const heap: number[] = [];
  const marks = [`agent ${WARM} `, `agent ${RESTARTS} `];
  const trace = (line: string) => {
    const [mark] = marks;
    if (mark === undefined || !line.includes(mark)) return;
    marks.shift();
    collect();
    heap.push(process.memoryUsage().heapUsed);
  };
  const { failure, starts } = await runHistory(long, { trace });
  assert.equal(failure, undefined, failure?.text ?? '');
  assert.equal(starts, RESTARTS + 1);
  const [before = 0, after = Number.POSITIVE_INFINITY] = heap;
  const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
  t.diagnostic(`heap after ${WARM} restarts ${megabytes(before)} MB, after ${RESTARTS} ${megabytes(after)} MB`);
  assert.ok(after - before < MAX_GROWTH, `the heap grew from ${megabytes(before)} to ${megabytes(after)} MB`);
});
