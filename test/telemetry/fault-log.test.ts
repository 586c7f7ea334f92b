/** Faults in the log: the first of a kind have a line each, the rest share a line with their number, and later ones have lines again. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Fault } from '../../src/proxy/model/objects.ts';
import { FaultLog, SEE_ALL_OF_AGENT } from '../../src/telemetry/fault-log.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

function fault(n: number, more: Partial<Fault> = {}): Fault {
  const own = { field: 'spec.ports[0].port', value: '0', problem: 'is wrong', effect: 'object set aside' } as const;
  return { kind: 'Service', object: `default/s${n}`, ...own, ...more };
}

function made() {
  const lines: string[] = [];
  const clock = new FakeClock();
  const say = (level: string) => (_facts: object, text: string) => void lines.push(`${level} ${text}`);
  const log = { info: say('info'), warn: say('warn'), debug: () => undefined } as unknown as Log;
  const faults = new FaultLog({ log, clock });
  /** The number of these that have a line of their own. */
  const logAll = (count: number, of: (n: number) => Fault = fault) =>
    Array.from({ length: count }, (_, n) => faults.log(of(n))).filter((isReported) => isReported).length;
  return { lines, clock, faults, logAll };
}

const KIND = 'Service spec.ports (object set aside)';

describe('faults in the log', () => {
  it('of one kind are twenty lines and one with the number of the rest', () => {
    const { lines, clock, logAll } = made();
    assert.equal(logAll(10_000), 20);
    assert.deepEqual(lines[0], 'warn Service default/s0: spec.ports[0].port: 0: is wrong (object set aside)');
    clock.advance(1000);
    assert.equal(lines.length, 21);
    assert.equal(
      lines[20],
      `warn ${KIND}: 9980 more faults of this kind are not logged one by one: ${SEE_ALL_OF_AGENT}`,
    );
    clock.finishWaits();
    assert.equal(lines.length, 21);
    assert.equal(clock.pending, 0);
  });

  it('of another object, part or consequence are of another kind; a key that somebody chose makes none', () => {
    const { logAll } = made();
    logAll(100);
    assert.equal(
      logAll(100, (n) => fault(n, { kind: 'EndpointSlice' })),
      20,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { field: 'spec.type' })),
      20,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { effect: 'part left out' })),
      20,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { field: `spec.ports[${n}].nodePort` })),
      0,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { field: `metadata.labels.key-${n}` })),
      20,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { kind: 'file', field: `line ${n}` })),
      20,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { kind: 'file', field: `object ${n}: metadata.name` })),
      20,
    );
    assert.equal(
      logAll(100, (n) => fault(n, { kind: 'file', field: '' })),
      20,
    );
  });

  it('are logged again as time goes on, and their number at most once a minute', () => {
    const { lines, clock, logAll } = made();
    logAll(30);
    clock.advance(1000);
    const numbers = () => lines.filter((line) => line.includes(' more fault'));
    assert.equal(numbers().length, 1);
    for (let second = 0; second < 120; second++) {
      clock.advance(1000);
      logAll(1, () => fault(second + 1000));
    }
    assert.equal(lines.length - 20 - numbers().length, 4, 'one each half minute');
    clock.advance(60_000);
    const counts = numbers().map((line) => Number(/(\d+) more/.exec(line)?.[1]));
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      10 + 120 - 4,
      'each is logged or counted',
    );
    assert.ok(counts.length <= 4, `${counts.length} lines in three minutes`);
    clock.advance(3_600_000);
    assert.equal(logAll(100), 20, 'all of the first lines again after a quiet while');
  });

  it('that are no mistake are informative, and counted faults are logged at the end', () => {
    const { lines, faults, clock, logAll } = made();
    logAll(21, (n) => fault(n, { effect: 'no effect here' }));
    logAll(25);
    faults.flush();
    assert.equal(lines.length, 42);
    assert.match(
      lines[40] ?? '',
      /^info Service spec\.ports \(no effect here\): 1 more fault of this kind is not logged/,
    );
    assert.match(lines[41] ?? '', /^warn .*: 5 more faults of this kind are not logged one by one: /);
    assert.equal(clock.pending, 0);
    faults.flush();
    assert.equal(lines.length, 42);
  });
});
