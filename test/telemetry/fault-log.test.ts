/** Faults in the log: the first of a kind one by one, the rest by their number, and new ones again later. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Fault } from '../../src/model/objects.ts';
import { FaultLog, SEE_ALL_OF_AGENT } from '../../src/telemetry/fault-log.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { FakeClock } from '../helpers/fake-clock.ts';

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
  /** How many of these are told by themselves. */
  const tell = (count: number, of: (n: number) => Fault = fault) =>
    Array.from({ length: count }, (_, n) => faults.log(of(n))).filter((isReported) => isReported).length;
  return { lines, clock, faults, tell };
}

const KIND = 'Service spec.ports (object set aside)';

describe('faults in the log', () => {
  it('of one kind are twenty lines and one with the number of the rest', () => {
    const { lines, clock, tell } = made();
    assert.equal(tell(10_000), 20);
    assert.deepEqual(lines[0], 'warn Service default/s0: spec.ports[0].port: 0: is wrong (object set aside)');
    clock.advance(1000);
    assert.equal(lines.length, 21);
    assert.equal(lines[20], `warn ${KIND}: 9980 more faults of this kind are not logged one by one: ${SEE_ALL_OF_AGENT}`);
    clock.finishWaits();
    assert.equal(lines.length, 21);
    assert.equal(clock.pending, 0);
  });

  it('of another object, part or consequence are of another kind; a key that somebody chose makes none', () => {
    const { tell } = made();
    tell(100);
    assert.equal(
      tell(100, (n) => fault(n, { kind: 'EndpointSlice' })),
      20,
    );
    assert.equal(
      tell(100, (n) => fault(n, { field: 'spec.type' })),
      20,
    );
    assert.equal(
      tell(100, (n) => fault(n, { effect: 'part left out' })),
      20,
    );
    assert.equal(
      tell(100, (n) => fault(n, { field: `spec.ports[${n}].nodePort` })),
      0,
    );
    assert.equal(
      tell(100, (n) => fault(n, { field: `metadata.labels.key-${n}` })),
      20,
    );
    assert.equal(
      tell(100, (n) => fault(n, { kind: 'file', field: `line ${n}` })),
      20,
    );
    assert.equal(
      tell(100, (n) => fault(n, { kind: 'file', field: `object ${n}: metadata.name` })),
      20,
    );
    assert.equal(
      tell(100, (n) => fault(n, { kind: 'file', field: '' })),
      20,
    );
  });

  it('are told again as time goes on, and their number once a minute at most', () => {
    const { lines, clock, tell } = made();
    tell(30);
    clock.advance(1000);
    const numbers = () => lines.filter((line) => line.includes(' more fault'));
    assert.equal(numbers().length, 1);
    for (let second = 0; second < 120; second++) {
      clock.advance(1000);
      tell(1, () => fault(second + 1000));
    }
    assert.equal(lines.length - 20 - numbers().length, 4, 'one each half minute');
    clock.advance(60_000);
    const counts = numbers().map((line) => Number(/(\d+) more/.exec(line)?.[1]));
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      10 + 120 - 4,
      'each is told or counted',
    );
    assert.ok(counts.length <= 4, `${counts.length} lines in three minutes`);
    clock.advance(3_600_000);
    assert.equal(tell(100), 20, 'all of the first lines again after a quiet while');
  });

  it('that are no mistake are told as such, and what was only counted is told at the end', () => {
    const { lines, faults, clock, tell } = made();
    tell(21, (n) => fault(n, { effect: 'no effect here' }));
    tell(25);
    faults.flush();
    assert.equal(lines.length, 42);
    assert.match(
      lines[40] ?? '',
      /^info Service spec\.ports \(no effect here\): 1 more fault of this kind is not told/,
    );
    assert.match(lines[41] ?? '', /^warn .*: 5 more faults of this kind are not logged one by one: /);
    assert.equal(clock.pending, 0);
    faults.flush();
    assert.equal(lines.length, 42);
  });
});
