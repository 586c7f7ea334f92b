/** Moments and spans as people write them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseMoment, parseSince } from '../../src/inspect/wire/parse.ts';

const NOW = new Date(2026, 10, 22, 12, 3, 4, 500).getTime();
const local = (...[day, hours, minutes, seconds, rest]: readonly [number, number, number, number, number]) =>
  new Date(2026, 10, day, hours, minutes, seconds, rest).getTime();

describe('moments', () => {
  it('are times of day of this machine, the last time that its clock showed them', () => {
    assert.equal(parseMoment('12:03:04', NOW), local(22, 12, 3, 4, 0));
    assert.equal(parseMoment('12:03:04.25', NOW), local(22, 12, 3, 4, 250));
    assert.equal(parseMoment('9:05', NOW), local(22, 9, 5, 0, 0));
    assert.equal(parseMoment('23:59:59', NOW), local(21, 23, 59, 59, 0));
  });

  it('are RFC 3339, or a time before now', () => {
    assert.equal(parseMoment('2026-01-02T03:04:05.678Z', NOW), Date.UTC(2026, 0, 2, 3, 4, 5, 678));
    assert.equal(parseMoment('2026-01-02 03:04:05+02:00', NOW), Date.UTC(2026, 0, 2, 1, 4, 5));
    assert.equal(parseMoment('-5m', NOW), NOW - 300_000);
    assert.equal(parseMoment('-1h30m', NOW), NOW - 5_400_000);
    assert.equal(parseMoment('-0', NOW), NOW);
  });

  it('are nothing else, and not later than now', () => {
    const texts = [
      '',
      '5m',
      '-',
      '--5m',
      '24:00',
      '12:60',
      '12',
      '12:03:04.1234',
      '2026-13-01T00:00:00Z',
      '2027-01-01T00:00:00Z',
      '2026-11-22',
      'now',
      '12:03:04Z',
    ];
    for (const text of texts) assert.equal(parseMoment(text, NOW), undefined, text);
  });

  it('begin a span that ends now', () => {
    assert.equal(parseSince('10m', NOW), NOW - 600_000);
    assert.equal(parseSince('-10m', NOW), NOW - 600_000);
    assert.equal(parseSince('12:00', NOW), local(22, 12, 0, 0, 0));
    for (const text of ['0', '10', 'ever']) assert.equal(parseSince(text, NOW), undefined, text);
  });
});
