/** The kubeconfig of a person: found, merged and overridden as kubectl does it. */
import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type UserFlags, userCredentials } from '../../../src/cluster/api/user-kubeconfig.ts';

interface Parts {
  readonly clusters?: Readonly<Record<string, object>>;
  readonly users?: Readonly<Record<string, object>>;
  readonly contexts?: Readonly<Record<string, object>>;
  readonly current?: string;
}

function config({ clusters = {}, users = {}, contexts = {}, current }: Parts): string {
  const list = (of: Readonly<Record<string, object>>, field: string) =>
    Object.entries(of).map(([name, value]) => ({ name, [field]: value }));
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: list(clusters, 'cluster'),
    users: list(users, 'user'),
    contexts: list(contexts, 'context'),
    ...(current === undefined ? {} : { 'current-context': current }),
  });
}

describe('the kubeconfig of a person', () => {
  let home = '';
  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'user-kubeconfig-'));
    await mkdir(join(home, '.kube'));
    await mkdir(join(home, 'b'));
    const one = {
      clusters: { prod: { server: 'http://prod.example:80' }, test: { server: 'http://test.example:80' } },
      users: { alice: { token: 'of-alice' }, bob: { token: 'of-bob' } },
      contexts: { prod: { cluster: 'prod', user: 'alice' }, test: { cluster: 'test', user: 'bob' } },
      current: 'prod',
    };
    await writeFile(join(home, '.kube/config'), config(one));
    await writeFile(join(home, 'a'), config({ clusters: one.clusters, contexts: one.contexts }));
    const users = {
      alice: { tokenFile: 'token' },
      program: {
        exec: { apiVersion: 'client.authentication.k8s.io/v1', command: './login', interactiveMode: 'Never' },
      },
    };
    const clusters = { prod: { server: 'http://second.example:80' } };
    const contexts = { program: { cluster: 'prod', user: 'program' } };
    await writeFile(join(home, 'b/config'), config({ clusters, users, contexts, current: 'prod' }));
    await writeFile(join(home, 'b/token'), 'from-a-file\n');
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'from-a-program' },
    };
    await writeFile(join(home, 'b/login'), `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`);
    await chmod(join(home, 'b/login'), 0o755);
  });
  after(() => rm(home, { recursive: true }));

  /** The server, and the headers of a request. */
  async function access(flags: UserFlags, env: NodeJS.ProcessEnv = {}) {
    const credentials = await userCredentials(flags, { HOME: home, ...env });
    const options: RequestOptions = { headers: {} };
    await credentials.apply(options);
    const headers = Object.entries(options.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value] as const);
    return { server: credentials.server, ...Object.fromEntries(headers) };
  }

  it('is ~/.kube/config, with its current context', async () => {
    assert.deepEqual(await access({}), { server: 'http://prod.example:80', authorization: 'Bearer of-alice' });
  });

  it('is a context, a cluster or a user that a flag names', async () => {
    const test = 'http://test.example:80';
    assert.deepEqual(await access({ context: 'test' }), { server: test, authorization: 'Bearer of-bob' });
    assert.deepEqual(await access({ cluster: 'test' }), { server: test, authorization: 'Bearer of-alice' });
    assert.deepEqual(await access({ context: 'test', user: 'alice', as: 'carol' }), {
      server: test,
      authorization: 'Bearer of-alice',
      'impersonate-user': 'carol',
    });
  });

  it('is made of the files of KUBECONFIG, the first of a name counts, and names of files begin at their file', async () => {
    const env = { KUBECONFIG: `${join(home, 'a')}:${join(home, 'missing')}::${join(home, 'b/config')}` };
    assert.deepEqual(await access({}, env), { server: 'http://prod.example:80', authorization: 'Bearer from-a-file' });
    assert.deepEqual(await access({ context: 'program' }, env), {
      server: 'http://prod.example:80',
      authorization: 'Bearer from-a-program',
    });
  });

  it('is the file of the flag, whatever KUBECONFIG says', async () => {
    const { server } = await access(
      { kubeconfig: join(home, 'b/config'), cluster: 'prod', user: 'alice' },
      { KUBECONFIG: '/nowhere' },
    );
    assert.equal(server, 'http://second.example:80');
  });

  const refusals: readonly (readonly [string, UserFlags, NodeJS.ProcessEnv, RegExp])[] = [
    [
      'no file',
      {},
      { HOME: '/nowhere' },
      /^no kubeconfig: \/nowhere\/\.kube\/config does not exist; name a file with --kubeconfig$/,
    ],
    [
      'no file of several',
      {},
      { KUBECONFIG: '/nowhere:/there' },
      /^no kubeconfig: \/nowhere and \/there do not exist; /,
    ],
    ['a missing file', { kubeconfig: '/nowhere' }, {}, /^--kubeconfig \/nowhere: there is no such file or folder$/],
    [
      'an unknown context',
      { context: 'x' },
      {},
      /^--context x: the kubeconfig .*config has no such context; it has prod, test$/,
    ],
    [
      'an unknown cluster',
      { cluster: 'x' },
      {},
      /^--cluster x: the kubeconfig .* has no such cluster; it has prod, test$/,
    ],
    ['an unknown user', { user: 'x' }, {}, /^--user x: the kubeconfig .* has no such user; it has alice, bob$/],
  ];
  for (const [name, flags, env, message] of refusals) {
    it(`refuses ${name}`, async () => {
      await assert.rejects(access(flags, env), { code: 'KUBECONFIG_UNUSABLE', message });
    });
  }

  it('refuses a file that is none', async () => {
    const path = join(home, 'broken');
    await writeFile(path, 'clusters: [');
    await assert.rejects(access({ kubeconfig: path }), {
      code: 'KUBECONFIG_UNUSABLE',
      message: /broken: line 1, column /,
    });
  });
});
