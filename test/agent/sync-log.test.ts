/** Syncs in the log: which have a line of their own, and the summary of the others. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SWEEP_FAILED, SyncLog } from '../../src/agent/sync-log.ts';
import type { Drift } from '../../src/proxy/model/drift.ts';
import type { FailedStep } from '../../src/proxy/reconcile/step.ts';
import type { SweepReport } from '../../src/proxy/sync/flow-sweeper.ts';
import type { SyncReport } from '../../src/proxy/sync/sync-results.ts';
import { type LogLevel, levelOf, logInto } from '../../src/telemetry/log.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

interface Line {
  readonly level: string;
  readonly v?: number;
  readonly msg: string;
  readonly [fact: string]: unknown;
}

const WORK = { services: 0, rendered: 0, compared: 0, steps: 0 };

function report(more: Partial<SyncReport> = {}): SyncReport {
  return {
    ...{ outcome: 'complete', applied: 2, failed: [], skipped: [], drift: [] },
    ...{ duration: 10, reading: 0, desiring: 0, writing: 0, work: WORK },
    ...more,
  };
}

function refused(n: number): FailedStep {
  const owner = `default/web-${n}`;
  const step = { key: `IPv4 elements of ${owner}`, family: 'IPv4', kind: 'rules', owner } as const;
  return { ...step, line: undefined, blame: 'content', cause: 'EINVAL: invalid argument' };
}

function swept(deleted: number): SweepReport {
  const count = { seen: 10, deleted, deletedIn: new Map(), owners: new Set(['default/dns:dns']) };
  return { kinds: new Map([['udp', count]]), duration: 5, worked: 5, outcome: 'complete', cause: undefined };
}

function made(level: LogLevel = 'info') {
  const lines: Line[] = [];
  const clock = new FakeClock();
  const log = new SyncLog(logInto({ write: (line: string) => void lines.push(JSON.parse(line)) }, level), clock);
  let isFirst = true;
  const sync = (more: Partial<SyncReport> = {}) => {
    log.synced(report(more), { isFirst, faults: {} });
    if (more.outcome === undefined) isFirst = false;
  };
  return { lines, clock, log, sync, said: () => lines.map(({ level: at, msg }) => `${at} ${msg}`) };
}

describe('syncs in the log', () => {
  it('of 40 minutes, one each second, are the first, a summary each ten minutes, and one at the end', () => {
    const { lines, clock, log, sync, said } = made();
    for (let second = 0; second < 2400; second++) {
      sync({ duration: 10 + (second % 10) });
      log.swept(swept(second % 60 === 0 ? 1 : 0));
      clock.advance(1000);
    }
    log.summarize();
    assert.deepEqual(said(), [
      'info synced',
      'info 601 syncs in 10 min: 1,202 changes written, 14 ms in the median, 19 ms the slowest, 0 incomplete, 10 stale flows deleted',
      'info 600 syncs in 10 min: 1,200 changes written, 15 ms in the median, 19 ms the slowest, 0 incomplete, 10 stale flows deleted',
      'info 600 syncs in 10 min: 1,200 changes written, 15 ms in the median, 19 ms the slowest, 0 incomplete, 10 stale flows deleted',
      'info 599 syncs in 10 min: 1,198 changes written, 15 ms in the median, 19 ms the slowest, 0 incomplete, 10 stale flows deleted',
    ]);
    const { syncs, steps, incomplete, seconds, median, slowest, staleFlows } = lines[1] as Line;
    assert.deepEqual([syncs, steps, incomplete, seconds, median, slowest, staleFlows], [601, 1202, 0, 600, 14, 19, 10]);
    assert.equal(clock.waits.length, 0, 'no timer wakes an idle machine');
    log.summarize();
    assert.equal(lines.length, 5, 'nothing happened since');
  });

  it('of an idle machine have the first line alone, however often it finds nothing to do', () => {
    const { clock, log, sync, said } = made();
    sync();
    for (let hour = 0; hour < 24; hour++) {
      clock.advance(3_600_000);
      sync({ applied: 0 });
    }
    log.summarize();
    assert.deepEqual(said(), ['info synced']);
  });

  it('have a line each at -v 2, with the level debug', () => {
    const { lines, log, sync } = made(levelOf(2));
    sync();
    sync();
    sync({ applied: 0 });
    log.swept(swept(3));
    assert.deepEqual(
      lines.map(({ level, v, msg }) => [level, v, msg]),
      [
        ['info', undefined, 'synced'],
        ['debug', 2, 'synced'],
        ['debug', 2, 'synced, nothing to do'],
        ['debug', 2, 'deleted 3 stale UDP flows'],
      ],
    );
  });

  it('that take more than a second and ten times the median are told, with the median', () => {
    const { lines, sync } = made();
    for (const duration of [5000, 200, 200, 200, 1900, 2100, 990]) sync({ duration });
    assert.deepEqual(
      lines.map(({ milliseconds, median }) => [milliseconds, median]),
      [
        [5000, undefined],
        [2100, 200],
      ],
    );
    const slow = made();
    for (const duration of [4000, 4000, 4500, 3900]) slow.sync({ duration });
    assert.equal(slow.lines.length, 1, 'on a slow node it is no news');
    const quick = made();
    for (let n = 0; n < 20; n++) quick.sync({ duration: 1 });
    quick.sync({ duration: 900 });
    assert.equal(quick.lines.length, 1, 'below a second it is no news');
  });

  it('that fail for the same cause are told once, again after ten minutes, and when all is written', () => {
    const { clock, sync, said } = made();
    sync();
    const failing = () => sync({ outcome: 'partial', failed: [refused(1)] });
    for (let n = 0; n < 500; n++) {
      failing();
      clock.advance(50);
    }
    const line = 'error Service default/web-1 is set aside: IPv4 elements of default/web-1: EINVAL: invalid argument';
    const incomplete = 'error sync incomplete; it will be retried';
    assert.deepEqual(said(), ['info synced', line, incomplete]);
    sync({ outcome: 'partial', failed: [refused(1), refused(2)] });
    assert.deepEqual(said().slice(3), [line.replaceAll('web-1', 'web-2'), incomplete], 'another Service is news');
    sync();
    assert.deepEqual(said().slice(5), ['info everything is written again, after 501 incomplete syncs']);
    failing();
    assert.deepEqual(said().slice(6), [line, incomplete], 'it began again');
    clock.advance(700_000);
    failing();
    const [again, still, summary] = said().slice(8);
    assert.deepEqual([again, still], [line, incomplete], 'it lasts');
    assert.match(summary ?? '', /^info 505 syncs in 12 min: .*, 503 incomplete$/);
  });

  it('that is the last has all that failed, however often it was told', () => {
    const { log, said } = made();
    for (const isLast of [false, false, true])
      log.synced(report({ outcome: 'partial', failed: [refused(1)] }), { isFirst: true, isLast, faults: {} });
    const line = 'error Service default/web-1 is set aside: IPv4 elements of default/web-1: EINVAL: invalid argument';
    assert.deepEqual(said(), [
      ...[line, 'error sync incomplete; it will be retried'],
      ...[line, 'error sync incomplete; it is not tried again'],
    ]);
  });

  it('that found drift say so each time, but in a fight', () => {
    const { lines, log } = made();
    const drift: Drift = {
      ...{ family: 'IPv4', kind: 'chain', table: 'nat', name: 'KUBE-SERVICES', target: '' },
      difference: { kind: 'gone' },
    };
    for (const isFight of [false, true, true])
      log.synced(report({ drift: [drift] }), { isFirst: false, faults: {}, by: 'nft, pid 4', isFight });
    assert.deepEqual(
      lines.map(({ level, msg }) => [level, msg]),
      [['warn', 'another program (nft, pid 4) changed rules of ours: IPv4 nat KUBE-SERVICES (gone)']],
    );
  });

  it('an error beside them, and a table that cannot be read, are told as long as they last', () => {
    const { log, clock, said } = made();
    for (let n = 0; n < 50; n++) {
      log.failedBeside('the report of a sync failed', 'a bug', 'the sync runs again');
      log.swept({ kinds: new Map(), duration: 1, worked: 1, outcome: 'failed', cause: 'EPERM' });
      clock.advance(1000);
    }
    log.swept(swept(0));
    log.workedBeside('the report of a sync failed', 'syncs are reported again');
    log.workedBeside('the report of a sync failed', 'syncs are reported again');
    log.failedBeside(SWEEP_FAILED, 'a bug');
    log.swept(swept(0));
    log.swept(swept(0));
    log.failedBeside(SWEEP_FAILED, 'a bug');
    log.failedBeside('the report of a sync failed', 'a bug');
    assert.deepEqual(said(), [
      'error the report of a sync failed: a bug; the sync runs again',
      'error cannot read the conntrack table: EPERM; stale flows stay until they time out or a later sweep succeeds',
      'info the conntrack table can be read again',
      'info syncs are reported again',
      'error the sweep of stale flows failed: a bug',
      'info stale flows can be swept again',
      'error the sweep of stale flows failed: a bug',
      'error the report of a sync failed: a bug',
    ]);
  });
});

describe('levels of the log', () => {
  it('each number of -v has its level of the log', () => {
    assert.deepEqual([0, 1, 2, 3, 4, 10].map(levelOf), ['info', 'v1', 'v2', 'v2', 'debug', 'debug']);
  });
});
