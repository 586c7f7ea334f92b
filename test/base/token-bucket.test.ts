/** A rate limit: a burst, then one token for each refill. */
import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { TokenBucket, TokenQueue } from '../../src/base/token-bucket.ts';

describe('a token bucket', () => {
  test('gives its burst at once, then one token for each refill', () => {
    const bucket = new TokenBucket({ burst: 3, refill: 100 }, 0);
    const given = Array.from({ length: 1001 }, (_, now) => now).filter((now) => bucket.take(now));
    assert.deepEqual(given, [0, 1, 2, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
  });

  test('returns the wait for the next token', () => {
    const bucket = new TokenBucket({ burst: 1, refill: 100 }, 0);
    assert.ok(bucket.take(30));
    assert.ok(!bucket.take(40));
    assert.equal(bucket.untilNext(40), 60);
    assert.ok(bucket.take(100));
  });
});

describe('a queue for tokens', () => {
  test('gives its burst at once, and then each caller a later turn, as far as tokens are not there again', () => {
    const queue = new TokenQueue({ burst: 2, refill: 100 });
    assert.deepEqual(
      Array.from({ length: 4 }, () => queue.take(0)),
      [0, 0, 100, 200],
    );
    assert.equal(queue.take(250), 50);
    assert.equal(queue.take(10_000), 0);
  });
});
