/** Our own reading of a kubeconfig means the same as client-node's. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { KubeConfig } from '@kubernetes/client-node';
import { applyPlain, plainAccess, podAccess } from '../../../src/cluster/api/credentials.ts';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credentials-'));
  for (const name of ['ca.crt', 'client.crt', 'client.key', 'token'])
    await writeFile(join(folder, name), `the text of ${name}\n`);
});
after(async () => {
  await rm(folder, { recursive: true });
});

const base64 = (text: string) => Buffer.from(text).toString('base64');

function kubeconfig(cluster: object, user: object | undefined): object {
  return {
    clusters: [
      { name: 'other', cluster: { server: 'https://other:6443' } },
      { name: 'c', cluster: { server: 'https://10.0.0.1:6443/', ...cluster } },
    ],
    users: [{ name: 'u', user }, { name: 'other' }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
}

async function byClientNode(file: object): Promise<{ server: string | undefined; options: RequestOptions }> {
  const config = new KubeConfig();
  config.loadFromString(JSON.stringify(file));
  config.makePathsAbsolute(folder);
  const options: RequestOptions = { headers: {} };
  await config.applyToHTTPSOptions(options);
  return { server: config.getCurrentCluster()?.server, options };
}

/** What decides about a request: names of headers in any case, and no agent. */
function meaning({ agent: _, headers, ...options }: RequestOptions): object {
  const pairs = Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...options, headers: Object.fromEntries(pairs) };
}

const PLAIN: Readonly<Record<string, readonly [object, object | undefined]>> = {
  'no credentials': [{}, {}],
  'a user without fields': [{}, undefined],
  'a token': [{}, { token: 'abc' }],
  'certificates in files': [
    { 'certificate-authority': 'ca.crt' },
    { 'client-certificate': 'client.crt', 'client-key': 'client.key' },
  ],
  'certificates in the file': [
    { 'certificate-authority-data': base64('ca') },
    { 'client-certificate-data': base64('cert'), 'client-key-data': base64('key') },
  ],
  'a file and data': [{ 'certificate-authority': 'ca.crt', 'certificate-authority-data': base64('ca') }, {}],
  'a server that is not verified': [{ 'insecure-skip-tls-verify': true }, {}],
  'a server name': [{ 'tls-server-name': 'kubernetes' }, {}],
  'a password': [{}, { username: 'me', password: 'secret' }],
  'another user in the place of this one': [{}, { token: 'abc', as: 'somebody' }],
  'empty texts': [
    { 'certificate-authority': '', 'proxy-url': '' },
    { token: '', username: '' },
  ],
};

describe('a plain kubeconfig means what client-node reads', () => {
  for (const [name, [cluster, user]] of Object.entries(PLAIN)) {
    test(name, async () => {
      const file = kubeconfig(cluster, user);
      const access = plainAccess(file, join(folder, 'kubeconfig'));
      assert.ok(access !== undefined);
      const options: RequestOptions = { headers: {} };
      await applyPlain(access, options);
      const expected = await byClientNode(file);
      assert.equal(access.server, expected.server);
      assert.deepEqual(meaning(options), meaning(expected.options));
    });
  }
});

const LEFT: Readonly<Record<string, object>> = {
  'an exec credential': kubeconfig({}, { exec: { command: 'x' } }),
  'an auth-provider': kubeconfig({}, { 'auth-provider': { name: 'gcp' } }),
  'a proxy': kubeconfig({ 'proxy-url': 'http://proxy:3128' }, {}),
  'client-node’s token-file': kubeconfig({}, { 'token-file': 'token' }),
  'a username without a password': kubeconfig({}, { username: 'me' }),
  'a token that is a number': kubeconfig({}, { token: 12 }),
  'a server that is a number': kubeconfig({ server: 12 }, {}),
  'a context without a user': { ...kubeconfig({}, {}), contexts: [{ name: 'x', context: { cluster: 'c' } }] },
  'no such context': { ...kubeconfig({}, {}), 'current-context': 'y' },
  'no lists': {},
  'an entry without a name': { ...kubeconfig({}, {}), users: [{ name: 'u', user: {} }, { user: {} }] },
};

describe('client-node reads everything else', () => {
  for (const [name, file] of Object.entries(LEFT)) {
    test(name, () => assert.equal(plainAccess(file, '/kubeconfig'), undefined));
  }
});

describe('a pod', () => {
  for (const [host, port, server] of [
    ['10.96.0.1', '443', 'https://10.96.0.1:443'],
    ['fd00::1', '6443', 'https://[fd00::1]:6443'],
    ['127.0.0.1', '8080', 'http://127.0.0.1:8080'],
  ] as const) {
    test(`${host} and ${port}`, () => {
      const env = { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port };
      assert.equal(podAccess(env).server, server);
    });
  }

  test('its token and its certificate are read for each request', async () => {
    const access = podAccess({}, folder);
    const options: RequestOptions = {};
    await applyPlain(access, options);
    assert.deepEqual(options.headers, { authorization: 'Bearer the text of token' });
    assert.equal(String(options.ca), 'the text of ca.crt\n');
    await writeFile(join(folder, 'token'), 'renewed');
    await applyPlain(access, options);
    assert.deepEqual(options.headers, { authorization: 'Bearer renewed' });
  });
});
