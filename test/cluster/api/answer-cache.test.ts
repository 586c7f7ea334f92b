/** Answers that are kept: for how long, and how many. */
import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { AnswerCache } from '../../../src/cluster/api/access-reviews.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

function start(maxEntries: number) {
  const clock = new FakeClock();
  const cache = new AnswerCache<string>({ clock, maxEntries, ttl: (answer) => (answer === 'no' ? 1000 : 60_000) });
  const known = async (key: string) => await cache.get(key);
  return { clock, cache, known };
}

describe('kept answers', () => {
  test('count as long as their kind says', async () => {
    const { clock, cache, known } = start(10);
    await cache.load('a', async () => 'yes');
    await cache.load('b', async () => 'no');
    assert.deepEqual([await known('a'), await known('b'), await known('c')], ['yes', 'no', undefined]);
    clock.advance(1000);
    assert.deepEqual([await known('a'), await known('b')], ['yes', undefined]);
    clock.advance(59_000);
    assert.equal(await known('a'), undefined);
  });

  test('are bounded: those whose time is over go first, then the oldest', async () => {
    const { clock, cache, known } = start(3);
    await cache.load('a', async () => 'yes');
    await cache.load('b', async () => 'no');
    await cache.load('c', async () => 'yes');
    clock.advance(1000);
    await cache.load('d', async () => 'yes');
    assert.deepEqual([cache.size, await known('a'), await known('b')], [3, 'yes', undefined]);
    await cache.load('e', async () => 'yes');
    assert.deepEqual([cache.size, await known('a'), await known('c'), await known('e')], [3, undefined, 'yes', 'yes']);
    // Asked anew, it is the youngest.
    await cache.load('c', async () => 'yes');
    await cache.load('f', async () => 'yes');
    assert.deepEqual([cache.size, await known('c'), await known('d')], [3, 'yes', undefined]);
  });

  test('are waited for by all who ask before they come, and a question that fails is forgotten', async () => {
    const { cache } = start(3);
    const { promise, reject } = Promise.withResolvers<string>();
    const answer = cache.load('a', () => promise);
    assert.equal(cache.get('a'), answer);
    reject(new Error('gone'));
    await assert.rejects(answer, /gone/);
    assert.deepEqual([cache.get('a'), cache.size], [undefined, 0]);
  });
});
