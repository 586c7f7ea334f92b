import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Tracker } from '../../../src/proxy/reconcile/tracker.ts';

const numbers = () => new Tracker<string, number>((a, b) => a === b);

describe('Tracker', () => {
  it('refuses to plan before the kernel was read (invariant 2)', () => {
    const tracker = numbers();
    tracker.desire('a', 1);
    assert.throws(() => tracker.delta(), /not known/);
    tracker.observe(new Map());
    tracker.forget();
    assert.throws(() => tracker.delta(), /not known/);
  });

  it('returns creates, updates and removes', () => {
    const tracker = numbers();
    tracker.desire('new', 1);
    tracker.desire('other', 2);
    tracker.desire('same', 3);
    tracker.observe(
      new Map([
        ['other', 20],
        ['same', 3],
        ['gone', 4],
      ]),
    );
    const { create, update, remove } = tracker.delta();
    assert.deepEqual([...create], [['new', 1]]);
    assert.deepEqual([...update], [['other', { from: 20, to: 2 }]]);
    assert.deepEqual([...remove], [['gone', 4]]);
  });

  it('believes a write only after `wrote` (invariant 4)', () => {
    const tracker = numbers();
    tracker.observe(new Map());
    tracker.desire('a', 1);
    assert.equal(tracker.delta().create.size, 1);
    assert.equal(tracker.delta().create.size, 1);
    tracker.wrote('a', 1);
    assert.equal(tracker.delta().create.size, 0);
  });

  it('keeps a key pending when the written value is not the desired one', () => {
    const tracker = numbers();
    tracker.observe(new Map());
    tracker.desire('a', 2);
    tracker.wrote('a', 1);
    assert.deepEqual([...tracker.delta().update], [['a', { from: 1, to: 2 }]]);
  });

  it('forgets a change that was reverted', () => {
    const tracker = numbers();
    tracker.observe(new Map([['a', 1]]));
    tracker.desire('a', 1);
    tracker.desire('b', 1);
    tracker.desire('b', undefined);
    const { create, update, remove } = tracker.delta();
    assert.equal(create.size + update.size + remove.size, 0);
  });

  it('finds drift when the kernel is read again', () => {
    const tracker = numbers();
    tracker.desire('a', 1);
    tracker.observe(new Map([['a', 1]]));
    assert.equal(tracker.delta().update.size, 0);
    tracker.observe(new Map([['foreign', 9]]));
    const { create, remove } = tracker.delta();
    assert.deepEqual([...create.keys(), ...remove.keys()], ['a', 'foreign']);
  });
});

describe('the order of a plan', () => {
  it('follows the changes, however the kernel lists its objects', () => {
    const orders = [
      ['a', 'b', 'c'],
      ['c', 'b', 'a'],
    ].map((listed) => {
      const tracker = new Tracker<string, number>((a, b) => a === b);
      for (const key of ['a', 'b', 'c']) tracker.desire(key, 1);
      tracker.observe(new Map(listed.map((key) => [key, 1])));
      tracker.delta();
      for (const key of ['b', 'c', 'a']) tracker.desire(key, 2);
      tracker.observe(new Map(listed.map((key) => [key, 1])));
      return [...tracker.delta().update.keys()];
    });
    assert.deepEqual(orders, [
      ['b', 'c', 'a'],
      ['b', 'c', 'a'],
    ]);
  });
});
