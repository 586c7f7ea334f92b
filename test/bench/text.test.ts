import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { median, quantile } from './text.ts';

describe('a quantile', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i);

  it('is the least value that this share of all does not exceed', () => {
    assert.deepEqual([quantile(hundred, 0.99), quantile(hundred, 1), quantile(hundred, 0)], [99, 100, 1]);
    assert.equal(median([30, 10, 20]), 20);
  });

  it('of nothing is no number', () => {
    assert.equal(quantile([], 0.5), Number.NaN);
  });
});
