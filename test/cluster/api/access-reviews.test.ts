/** Who the API server admits: what is asked of it, how often, and what is kept. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { AccessReviews, type AccessReviewsOptions } from '../../../src/cluster/api/access-reviews.ts';
import { apiClient } from '../../../src/cluster/api/client.ts';
import { loadCredentials } from '../../../src/cluster/api/credentials.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';
import { madeToken } from '../../helpers/cluster/api/api-reviews.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

const FLEET = 'system:serviceaccount:kube-system:slicewire-fleet';
const PATH = '/programmed';
const TOO_MANY = 'too many new tokens came at once: ask again in a second';
/** Addresses of a flood from many Pods. */
const podAddress = (index: number) => `10.244.${index >> 8}.${index & 255}`;
/** A token of its name. */
const token = (name: string) => madeToken(name, 'slicewire-agent');

async function start(t: TestContext, options: Partial<AccessReviewsOptions> = {}) {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  const clock = new FakeClock();
  const stop = new AbortController();
  const credentials = await loadCredentials({ kubeconfig: await server.kubeconfig(), master: undefined });
  const client = apiClient(credentials, { userAgent: 'test' });
  t.after(() => {
    stop.abort();
    client.close();
  });
  const given = { client: async () => client, audiences: ['slicewire-agent'], clock, signal: stop.signal };
  const access = new AccessReviews({ ...given, ...options });
  const { reviews } = server;
  const ask = (name: string, path = PATH, signal = NEVER, from = '192.0.2.7') =>
    access.verdict({ token: token(name), path, from }, signal);
  const askFrom = (from: string, name: string) => ask(name, PATH, NEVER, from);
  const count = (kind: string) => reviews.asked.filter((one) => one.kind === kind).length;
  const counts = () => [count('TokenReview'), count('SubjectAccessReview')];
  return { server, reviews, clock, access, ask, askFrom, counts };
}

describe('access reviews', () => {
  test('ask whose the token is, and whether that user may get the path', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    assert.deepEqual(await ask('good'), { kind: 'allowed', user: FLEET });
    assert.deepEqual(reviews.asked, [
      { kind: 'TokenReview', spec: { token: token('good'), audiences: ['slicewire-agent'] } },
      {
        kind: 'SubjectAccessReview',
        spec: {
          user: FLEET,
          uid: `uid of ${FLEET}`,
          groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
          extra: { 'authentication.kubernetes.io/pod-name': ['a'] },
          nonResourceAttributes: { path: PATH, verb: 'get' },
        },
      },
    ]);
  });

  test('allow what a group of the user may', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.account(token('good'), ['shop', 'web'], 'slicewire-agent');
    reviews.allowed.add(`system:serviceaccounts ${PATH}`);
    assert.equal((await ask('good')).kind, 'allowed');
    assert.equal((await ask('good', '/other')).kind, 'forbidden');
  });

  test('refuse a token that nobody knows, and one for another audience', async (t) => {
    const { reviews, ask, counts } = await start(t);
    reviews.account(token('other'), ['kube-system', 'slicewire-fleet']);
    reviews.allowed.add(`${FLEET} ${PATH}`);
    assert.deepEqual(await ask('bad'), { kind: 'unknown token', why: 'invalid bearer token' });
    const other = await ask('other');
    assert.ok(other.kind === 'unknown token' && /invalid for the target audiences/.test(other.why), other.kind);
    assert.deepEqual(counts(), [2, 0]);
  });

  test('refuse a token of an API server that knows no audiences: it is made for the API server', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.knowsAudiences = false;
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet']);
    reviews.allowed.add(`${FLEET} ${PATH}`);
    assert.deepEqual(await ask('good'), {
      kind: 'unknown token',
      why: 'it is not made for the audience slicewire-agent',
    });
  });

  test("accept one audience or the other, and the API server's own where that is asked for", async (t) => {
    const { reviews, ask } = await start(t, { audiences: ['slicewire-fleet', ''] });
    reviews.account(token('own'), ['shop', 'web']);
    reviews.account(token('made'), ['shop', 'web'], 'slicewire-fleet');
    reviews.account(token('else'), ['shop', 'web'], 'vault');
    reviews.allowed.add(`system:serviceaccounts ${PATH}`);
    assert.equal((await ask('own')).kind, 'allowed');
    assert.equal((await ask('made')).kind, 'allowed');
    assert.equal((await ask('else')).kind, 'unknown token');
    const specs = reviews.asked.filter(({ kind }) => kind === 'TokenReview').map(({ spec }) => spec);
    assert.deepEqual(specs, [
      { token: token('own'), audiences: ['slicewire-fleet'] },
      { token: token('own') },
      { token: token('made'), audiences: ['slicewire-fleet'] },
      { token: token('else'), audiences: ['slicewire-fleet'] },
      { token: token('else') },
    ]);
  });

  test('keep a yes for a minute, for each path apart', async (t) => {
    const { reviews, clock, ask, counts } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`).add(`${FLEET} ${PATH}/live`);
    await ask('good');
    await ask('good', `${PATH}/live`);
    assert.deepEqual(counts(), [1, 2]);
    clock.advance(59_999);
    reviews.tokens.clear();
    assert.equal((await ask('good')).kind, 'allowed');
    assert.deepEqual(counts(), [1, 2]);
    clock.advance(1);
    assert.equal((await ask('good')).kind, 'unknown token');
  });

  test('keep a no for a second: a right that was just given counts soon', async (t) => {
    const { reviews, clock, ask, counts } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    assert.deepEqual(await ask('good'), { kind: 'forbidden', user: FLEET, why: '' });
    reviews.allowed.add(`${FLEET} ${PATH}`);
    clock.advance(999);
    assert.equal((await ask('good')).kind, 'forbidden');
    assert.deepEqual(counts(), [1, 1]);
    clock.advance(1);
    assert.equal((await ask('good')).kind, 'allowed');
    assert.deepEqual(counts(), [1, 2]);
  });

  test('are asked once by all who ask the same at the same time, and go on when one of them leaves', async (t) => {
    const { reviews, ask, counts } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    const { promise, resolve } = Promise.withResolvers<void>();
    reviews.hold = promise;
    const leaves = new AbortController();
    const first = ask('good', PATH, leaves.signal);
    const others = Array.from({ length: 20 }, () => ask('good'));
    await until('the review', () => reviews.asked.length > 0);
    leaves.abort(new Error('the client is gone'));
    await assert.rejects(first, /the client is gone/);
    resolve();
    for (const verdict of await Promise.all(others)) assert.equal(verdict.kind, 'allowed');
    assert.deepEqual(counts(), [1, 1]);
  });

  test('decide nothing while the API server refuses or cannot be reached, and are asked again after a second', async (t) => {
    const { server, reviews, clock, ask, counts } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    server.failNext(1, 403);
    const refused = await ask('good');
    assert.ok(refused.kind === 'undecided', refused.kind);
    assert.match(refused.why, /tokenreviews: 403 /);
    assert.deepEqual(await ask('good'), refused);
    assert.deepEqual(counts(), [0, 0]);
    clock.advance(1000);
    // A request on a connection that was idle is sent again once.
    server.failNext(2, 0);
    assert.equal((await ask('good')).kind, 'undecided');
    clock.advance(1000);
    assert.equal((await ask('good')).kind, 'allowed');
  });

  test('end after 10 s without an answer', async (t) => {
    const { reviews, clock, ask } = await start(t);
    const { promise, resolve } = Promise.withResolvers<void>();
    t.after(() => resolve());
    reviews.hold = promise;
    const asked = ask('good');
    await until('the review', () => reviews.asked.length > 0);
    clock.advance(10_000);
    assert.deepEqual(await asked, {
      kind: 'undecided',
      why: 'the API server gave no review: no answer within 10 s',
    });
  });

  test('decide nothing where there is no client, and ask for one at the next question', async (t) => {
    let times = 0;
    const client = async () => {
      times += 1;
      throw new Error('--kubeconfig /k: it is empty');
    };
    const { clock, ask } = await start(t, { client });
    const why = 'the API server gave no review: --kubeconfig /k: it is empty';
    assert.deepEqual(await ask('good'), { kind: 'undecided', why });
    clock.advance(1000);
    await ask('good');
    assert.equal(times, 2);
  });

  test('of a flood of unknown tokens are bounded, and those who were admitted before are not asked again', async (t) => {
    const { reviews, clock, ask, askFrom, counts } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    await ask('good');
    const flood = await Promise.all(
      Array.from({ length: 6000 }, (_, index) => askFrom(podAddress(index), `flood-${index}`)),
    );
    assert.equal(flood.filter(({ kind }) => kind === 'unknown token').length, 199);
    assert.deepEqual(flood.at(-1), { kind: 'undecided', why: TOO_MANY });
    assert.deepEqual(counts(), [200, 1]);
    assert.equal((await ask('good')).kind, 'allowed');
    assert.deepEqual(counts(), [200, 1]);
    clock.advance(1000);
    const more = await Promise.all(
      Array.from({ length: 100 }, (_, index) => askFrom(podAddress(index), `more-${index}`)),
    );
    assert.equal(more.filter(({ kind }) => kind === 'unknown token').length, 50);
  });

  test('of one address are bounded, so that its made-up tokens hold up nobody else', async (t) => {
    const { reviews, clock, ask, askFrom, counts } = await start(t);
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    const flood = await Promise.all(
      Array.from({ length: 1000 }, (_, index) => askFrom('10.244.9.9', `flood-${index}`)),
    );
    assert.equal(flood.filter(({ kind }) => kind === 'unknown token').length, 4);
    assert.deepEqual(flood.at(-1), { kind: 'undecided', why: TOO_MANY });
    assert.equal((await ask('good')).kind, 'allowed');
    assert.deepEqual(counts(), [5, 1]);
    clock.advance(15_000);
    const later = await Promise.all(Array.from({ length: 100 }, (_, index) => askFrom('10.244.9.9', `later-${index}`)));
    assert.equal(later.filter(({ kind }) => kind === 'unknown token').length, 3);
  });

  test('are kept for addresses that are trusted, whatever a flood from many others takes', async (t) => {
    const { reviews, askFrom } = await start(t, { isTrusted: (address) => address === '10.244.1.7' });
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    await Promise.all(Array.from({ length: 300 }, (_, index) => askFrom(podAddress(1000 + index), `flood-${index}`)));
    assert.equal((await askFrom('10.244.3.3', 'good')).kind, 'undecided');
    assert.equal((await askFrom('10.244.1.7', 'good')).kind, 'allowed');
  });

  test('are kept for each address that is trusted, whatever a flood from another one of them takes', async (t) => {
    const { reviews, askFrom } = await start(t, { isTrusted: (address) => address.startsWith('10.244.1.') });
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    await Promise.all(Array.from({ length: 300 }, (_, index) => askFrom('10.244.1.9', `flood-${index}`)));
    assert.equal((await askFrom('10.244.1.9', 'good')).kind, 'undecided');
    assert.equal((await askFrom('10.244.1.7', 'good')).kind, 'allowed');
  });

  test('are not asked for where a token cannot be valid by what it says of itself', async (t) => {
    const { access, counts } = await start(t);
    const now = Date.UTC(2026, 10, 21) / 1000;
    const verdict = (given: string) => access.verdict({ token: given, path: PATH, from: '192.0.2.7' }, NEVER);
    const cases: readonly (readonly [string, string])[] = [
      ['c2VjcmV0', 'it is no JSON Web Token (RFC 7519)'],
      ['a.b.c', 'it is no JSON Web Token (RFC 7519)'],
      [`${token('x')}.more`, 'it is no JSON Web Token (RFC 7519)'],
      [madeToken('x', 'vault'), 'it is not made for the audience slicewire-agent'],
      [madeToken('x', ['vault', 'other']), 'it is not made for the audience slicewire-agent'],
      [madeToken('x', 'slicewire-agent', { iss: '' }), 'it names no issuer'],
      [madeToken('x', 'slicewire-agent', { exp: now - 61 }), 'it has expired'],
    ];
    for (const [given, why] of cases) assert.deepEqual(await verdict(given), { kind: 'unknown token', why });
    assert.deepEqual(counts(), [0, 0]);
    await verdict(madeToken('x', ['vault', 'slicewire-agent'], { exp: now - 59 }));
    assert.deepEqual(counts(), [1, 0]);
  });

  test('of tokens of another form are few, where the API server may know them', async (t) => {
    const { reviews, access, clock, counts } = await start(t, { audiences: ['slicewire-fleet', ''] });
    reviews.account('static', ['shop', 'web']);
    reviews.allowed.add(`system:serviceaccounts ${PATH}`);
    const verdict = (given: string, from: string) => access.verdict({ token: given, path: PATH, from }, NEVER);
    assert.equal((await verdict('static', '192.0.2.7')).kind, 'allowed');
    await Promise.all(Array.from({ length: 300 }, (_, index) => verdict(`made-up-${index}`, podAddress(index))));
    // Two audiences are asked for at most, in two reviews.
    assert.ok(
      counts().every((count) => count <= 42),
      counts().join(),
    );
    reviews.account(token('good'), ['shop', 'web']);
    assert.equal((await verdict(token('good'), '10.244.5.5')).kind, 'allowed');
    clock.advance(1000);
    reviews.account('another', ['shop', 'web']);
    assert.equal((await verdict('another', '10.244.5.6')).kind, 'allowed', 'the next second');
  });

  test('of tokens of another form from one address leave those of others their turn', async (t) => {
    const { reviews, access, clock } = await start(t, { audiences: ['slicewire-fleet', ''] });
    reviews.allowed.add(`system:serviceaccounts ${PATH}`);
    const verdict = (given: string, from: string) => access.verdict({ token: given, path: PATH, from }, NEVER);
    let admitted = 0;
    for (let second = 0; second < 20; second += 1) {
      await Promise.all(Array.from({ length: 20 }, (_, i) => verdict(`made-up-${second}-${i}`, '10.244.9.9')));
      reviews.account(`static-${second}`, ['shop', 'web']);
      if ((await verdict(`static-${second}`, podAddress(second))).kind === 'allowed') admitted += 1;
      clock.advance(1000);
    }
    assert.equal(admitted, 20);
  });

  test('are made for those who were admitted before, also in a flood of unknown tokens', async (t) => {
    const { reviews, clock, ask, askFrom } = await start(t);
    const flood = async (name: string) =>
      await Promise.all(Array.from({ length: 300 }, (_, index) => askFrom(podAddress(index), `${name}-${index}`)));
    reviews.account(token('good'), ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    await ask('good');
    clock.advance(60_000);
    await flood('flood');
    assert.equal((await ask('good')).kind, 'allowed');
    // A token that is not known any more has no such right.
    reviews.tokens.delete(token('good'));
    clock.advance(60_000);
    assert.equal((await ask('good')).kind, 'unknown token');
    clock.advance(1000);
    await flood('more');
    assert.equal((await ask('good')).kind, 'undecided');
  });

  test('repeat no token in what they say', async () => {
    const secret = 'eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl';
    // Some gateways before API servers repeat the body of a request that they refuse, and a webhook may say what it likes.
    const answers = [
      async () => Promise.reject(new Error(`bad body: {"token":"${secret}"}`)),
      async () => ({ status: { authenticated: false, error: `${secret} is not known` } }),
    ];
    const said = await Promise.all(
      answers.map(async (write) => {
        const client = async () => ({ write });
        const access = new AccessReviews({ client, audiences: [''], clock: new FakeClock(), signal: NEVER });
        return await access.verdict({ token: secret, path: PATH, from: '192.0.2.7' }, NEVER);
      }),
    );
    assert.deepEqual(said, [
      { kind: 'undecided', why: 'the API server gave no review: bad body: {"token":"(the token)"}' },
      { kind: 'unknown token', why: '(the token) is not known' },
    ]);
  });
});
