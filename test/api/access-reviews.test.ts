/** Who the API server admits: what is asked of it, how often, and what is kept. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { AccessReviews, type AccessReviewsOptions } from '../../src/api/access-reviews.ts';
import { apiClient } from '../../src/api/client.ts';
import { loadCredentials } from '../../src/api/credentials.ts';
import { ApiServer } from '../helpers/api-server.ts';
import { FakeClock } from '../helpers/fake-clock.ts';
import { NEVER } from '../helpers/rig.ts';
import { until } from '../helpers/until.ts';

const FLEET = 'system:serviceaccount:kube-system:slicewire-fleet';
const PATH = '/programmed';

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
  const ask = (token: string, path = PATH, signal = NEVER) => access.verdict({ token, path }, signal);
  const count = (kind: string) => reviews.asked.filter((one) => one.kind === kind).length;
  const counts = () => [count('TokenReview'), count('SubjectAccessReview')];
  return { server, reviews, clock, access, ask, counts };
}

describe('access reviews', () => {
  test('ask whose the token is, and whether that user may get the path', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    assert.deepEqual(await ask('good'), { kind: 'allowed', user: FLEET });
    assert.deepEqual(reviews.asked, [
      { kind: 'TokenReview', spec: { token: 'good', audiences: ['slicewire-agent'] } },
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
    reviews.account('good', ['shop', 'web'], 'slicewire-agent');
    reviews.allowed.add(`system:serviceaccounts ${PATH}`);
    assert.equal((await ask('good')).kind, 'allowed');
    assert.equal((await ask('good', '/other')).kind, 'forbidden');
  });

  test('refuse a token that nobody knows, and one for another audience', async (t) => {
    const { reviews, ask, counts } = await start(t);
    reviews.account('other', ['kube-system', 'slicewire-fleet']);
    reviews.allowed.add(`${FLEET} ${PATH}`);
    assert.deepEqual(await ask('bad'), { kind: 'unknown token', why: 'invalid bearer token' });
    const other = await ask('other');
    assert.ok(other.kind === 'unknown token' && /invalid for the target audiences/.test(other.why), other.kind);
    assert.deepEqual(counts(), [2, 0]);
  });

  test('refuse a token of an API server that knows no audiences: it is made for the API server', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.knowsAudiences = false;
    reviews.account('good', ['kube-system', 'slicewire-fleet']);
    reviews.allowed.add(`${FLEET} ${PATH}`);
    assert.deepEqual(await ask('good'), {
      kind: 'unknown token',
      why: 'it is not made for the audience slicewire-agent',
    });
  });

  test("accept one audience or the other, and the API server's own where that is asked for", async (t) => {
    const { reviews, ask } = await start(t, { audiences: ['slicewire-fleet', ''] });
    reviews.account('own', ['shop', 'web']);
    reviews.account('made', ['shop', 'web'], 'slicewire-fleet');
    reviews.account('else', ['shop', 'web'], 'vault');
    reviews.allowed.add(`system:serviceaccounts ${PATH}`);
    assert.equal((await ask('own')).kind, 'allowed');
    assert.equal((await ask('made')).kind, 'allowed');
    assert.equal((await ask('else')).kind, 'unknown token');
    const specs = reviews.asked.filter(({ kind }) => kind === 'TokenReview').map(({ spec }) => spec);
    assert.deepEqual(specs, [
      { token: 'own', audiences: ['slicewire-fleet'] },
      { token: 'own' },
      { token: 'made', audiences: ['slicewire-fleet'] },
      { token: 'else', audiences: ['slicewire-fleet'] },
      { token: 'else' },
    ]);
  });

  test('keep a yes for a minute, for each path apart', async (t) => {
    const { reviews, clock, ask, counts } = await start(t);
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
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
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
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
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
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
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
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
    const { reviews, clock, ask, counts } = await start(t);
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    await ask('good');
    const flood = await Promise.all(Array.from({ length: 6000 }, (_, index) => ask(`flood-${index}`)));
    assert.equal(flood.filter(({ kind }) => kind === 'unknown token').length, 199);
    assert.deepEqual(flood.at(-1), {
      kind: 'undecided',
      why: 'too many new tokens came at once: ask again in a second',
    });
    assert.deepEqual(counts(), [200, 1]);
    assert.equal((await ask('good')).kind, 'allowed');
    assert.deepEqual(counts(), [200, 1]);
    clock.advance(1000);
    const more = await Promise.all(Array.from({ length: 100 }, (_, index) => ask(`more-${index}`)));
    assert.equal(more.filter(({ kind }) => kind === 'unknown token').length, 50);
  });

  test('are made for those who were admitted before, also in a flood of unknown tokens', async (t) => {
    const { reviews, clock, ask } = await start(t);
    reviews.account('good', ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add(`${FLEET} ${PATH}`);
    await ask('good');
    clock.advance(60_000);
    await Promise.all(Array.from({ length: 300 }, (_, index) => ask(`flood-${index}`)));
    assert.equal((await ask('good')).kind, 'allowed');
    // A token that is not known any more has no such right.
    reviews.tokens.delete('good');
    clock.advance(60_000);
    assert.equal((await ask('good')).kind, 'unknown token');
    clock.advance(1000);
    await Promise.all(Array.from({ length: 300 }, (_, index) => ask(`more-${index}`)));
    assert.equal((await ask('good')).kind, 'undecided');
  });

  test('repeat no token in what they say', async () => {
    const token = 'eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl';
    // Some gateways before API servers repeat the body of a request that they refuse, and a webhook may say what it likes.
    const answers = [
      async () => Promise.reject(new Error(`bad body: {"token":"${token}"}`)),
      async () => ({ status: { authenticated: false, error: `${token} is not known` } }),
    ];
    const said = await Promise.all(
      answers.map(async (write) => {
        const client = async () => ({ write });
        const access = new AccessReviews({ client, audiences: [''], clock: new FakeClock(), signal: NEVER });
        return await access.verdict({ token, path: PATH }, NEVER);
      }),
    );
    assert.deepEqual(said, [
      { kind: 'undecided', why: 'the API server gave no review: bad body: {"token":"(the token)"}' },
      { kind: 'unknown token', why: '(the token) is not known' },
    ]);
  });
});
