/** Who may ask a server that other machines reach: over real connections, with tokens that the test API server reviews. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import test, { describe, type TestContext } from 'node:test';
import type { Address } from '../../src/base/address.ts';
import { AccessReviews } from '../../src/cluster/api/access-reviews.ts';
import { apiClient } from '../../src/cluster/api/client.ts';
import { loadCredentials } from '../../src/cluster/api/credentials.ts';
import { type AuthOptions, authOf } from '../../src/serve/auth.ts';
import { type HttpRequest, HttpServer, NOT_FOUND, textAnswer } from '../../src/serve/http.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { madeToken } from '../helpers/cluster/api/api-reviews.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const GOOD = madeToken('good', 'slicewire-agent');
const FLAG = '--programmed-authentication';
const ELSEWHERE = '192.0.2.7';

interface Given {
  readonly host?: string;
  readonly site?: string;
  readonly authorization?: string;
  /** The client's address as the server is told it; undefined: as it is, a loopback address. */
  readonly remote?: string | undefined;
}

async function start(t: TestContext, options: Partial<AuthOptions> = {}) {
  const api = await ApiServer.start();
  t.after(() => api.stop());
  const clock = new FakeClock();
  const credentials = await loadCredentials({ kubeconfig: await api.kubeconfig(), master: undefined });
  const client = apiClient(credentials, { userAgent: 'test' });
  t.after(() => client.close());
  const reviews = new AccessReviews({
    ...{ client: async () => client, audiences: ['slicewire-agent'], clock, signal: NEVER },
  });
  const refuses = authOf({ isOn: () => true, access: () => reviews, flag: FLAG, ...options });
  let remote: string | undefined;
  const server = await HttpServer.open({ address: '127.0.0.1' as Address, port: 0 }, async (asked: HttpRequest) => {
    const from: HttpRequest = {
      ...asked,
      remote: remote ?? asked.remote,
      local: remote === undefined ? asked.local : '10.0.0.1',
    };
    if (!asked.path.startsWith('/programmed')) return NOT_FOUND;
    return (await refuses(from)) ?? textAnswer(200, 'answered\n');
  });
  t.after(() => server.close());
  const ask = (path: string, { host = 'localhost', site, authorization, remote: from = ELSEWHERE }: Given = {}) => {
    remote = from === '' ? undefined : from;
    const headers = [
      `host: ${host}`,
      ...(site === undefined ? [] : [`sec-fetch-site: ${site}`]),
      ...(authorization === undefined ? [] : [`authorization: ${authorization}`]),
    ];
    return textOf(server.port, `GET ${path} HTTP/1.1\r\n${headers.join('\r\n')}\r\nconnection: close\r\n\r\n`);
  };
  return { api, reviews: api.reviews, clock, ask };
}

function textOf(port: number, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(request));
    socket.on('data', (data) => (text += data.toString()));
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}

/** This machine. */
const HERE = { remote: '' };

describe('authentication of requests', () => {
  test('lets programs of this machine in without a token, and asks nobody', async (t) => {
    const { api, ask } = await start(t);
    assert.match(await ask('/programmed', HERE), /^HTTP\/1.1 200 /);
    assert.match(await ask('/programmed', { ...HERE, authorization: 'Bearer anything' }), /^HTTP\/1.1 200 /);
    assert.equal(api.requests().length, 0);
  });

  test('takes no page of a browser for a program of this machine', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.account(GOOD, ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add('system:serviceaccounts /programmed');
    const rebound = await ask('/programmed', { ...HERE, host: 'evil.example' });
    assert.match(rebound, /^HTTP\/1.1 401 .*must be localhost or 127.0.0.1: ask by address, not by a name, or send/s);
    assert.match(await ask('/programmed', { ...HERE, site: 'cross-site' }), /^HTTP\/1.1 401 .*another site asks/s);
    // A page has no token; a program that was sent by a name may have one.
    const named = await ask('/programmed', { ...HERE, host: 'node-a', authorization: `Bearer ${GOOD}` });
    assert.match(named, /^HTTP\/1.1 200 /);
  });

  test('asks others for a token: 401 without one, and in any other form', async (t) => {
    const { api, ask } = await start(t);
    for (const authorization of [
      undefined,
      'Bearer',
      'Bearer ',
      'Basic dXNlcjpwYXNz',
      'Bearer two tokens',
      'Bearer "quoted"',
      'Bearer =',
      'good',
    ]) {
      const answer = await ask('/programmed', authorization === undefined ? {} : { authorization });
      assert.match(answer, /^HTTP\/1.1 401 Unauthorized\r\n/, `${authorization}`);
      assert.match(answer, /\r\nwww-authenticate: Bearer\r\n/);
      const words =
        'a request from 192.0.2.7 needs a token: send a token of a ServiceAccount (Authorization: Bearer TOKEN)';
      assert.ok(answer.includes(`"kind":"Problem","message":"${words}"`), answer);
      assert.doesNotMatch(answer, /access-control/i);
    }
    assert.equal(api.requests().length, 0);
  });

  test('answers who may get the path, by each of the forms of a token that there are', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.account(GOOD, ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
    reviews.allowed.add('system:serviceaccount:kube-system:slicewire-fleet /programmed');
    for (const authorization of [`Bearer ${GOOD}`, `bearer ${GOOD}`, `Bearer  ${GOOD}`, `Bearer ${GOOD} `]) {
      const answer = await ask('/programmed?service=shop/web', { authorization });
      assert.match(answer, /^HTTP\/1.1 200 [\s\S]*answered\n$/, authorization);
    }
  });

  test('says 401 to a token that is not valid, and 403 with what is missing to who may not ask', async (t) => {
    const { reviews, ask } = await start(t);
    reviews.account(GOOD, ['shop', 'web'], 'slicewire-agent');
    const secret = madeToken('c2VjcmV0', 'slicewire-agent');
    const unknown = await ask('/programmed', { authorization: `Bearer ${secret}` });
    assert.match(unknown, /^HTTP\/1.1 401 /);
    assert.match(unknown, /\r\nwww-authenticate: Bearer error="invalid_token"\r\n/);
    assert.match(unknown, /"the token is not valid: invalid bearer token"/);
    assert.ok(!unknown.includes(secret), unknown);
    const words =
      'system:serviceaccount:shop:web may not ask /programmed/live: a ClusterRole must allow it the verb get on the nonResourceURL /programmed/live';
    const refused = await ask('/programmed/live', { authorization: `Bearer ${GOOD}` });
    assert.match(refused, /^HTTP\/1.1 403 /);
    assert.ok(refused.includes(words), refused);
  });

  test('says 503 while the API server does not answer', async (t) => {
    const { api, ask } = await start(t);
    api.failNext(1, 500);
    const answer = await ask('/programmed', { authorization: `Bearer ${GOOD}` });
    assert.match(answer, /^HTTP\/1.1 503 /);
    assert.match(answer, /\r\nretry-after: 1\r\n/);
    assert.match(
      answer,
      /the token could not be checked, so the request is not answered: the API server gave no review: /,
    );
  });

  test('without an API server answers this machine alone', async (t) => {
    const { ask } = await start(t, { access: () => undefined });
    assert.match(await ask('/programmed', HERE), /^HTTP\/1.1 200 /);
    assert.match(await ask('/programmed', { ...HERE, host: 'evil.example' }), /^HTTP\/1.1 403 .*Host/s);
    const words =
      'a request from 192.0.2.7 is not answered, because there is no API server that could check a token: ask on this machine, or set --programmed-authentication=false to answer every client';
    const answer = await ask('/programmed', { authorization: `Bearer ${GOOD}` });
    assert.match(answer, /^HTTP\/1.1 403 /);
    assert.ok(answer.includes(words), answer);
  });

  test('that is off answers everybody, and asks nobody', async (t) => {
    let isOn = false;
    const { api, ask } = await start(t, { isOn: () => isOn });
    assert.match(await ask('/programmed'), /^HTTP\/1.1 200 /);
    assert.equal(api.requests().length, 0);
    isOn = true;
    assert.match(await ask('/programmed'), /^HTTP\/1.1 401 /);
  });

  test('lets in what needs no token for another reason', async (t) => {
    const { ask } = await start(t, { needsNone: async ({ query }) => query.has('service') });
    assert.match(await ask('/programmed?service=shop/web'), /^HTTP\/1.1 200 /);
    assert.match(await ask('/programmed'), /^HTTP\/1.1 401 /);
  });
});
