/** /statusz and /flagz in the form of Kubernetes 1.36 (k8s.io/apiserver, pkg/server/statusz and flagz). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Address } from '../../src/base/address.ts';
import { controllerHandler } from '../../src/controller/monitoring.ts';
import { HttpServer } from '../../src/serve/http.ts';
import { zpageAnswer } from '../../src/serve/zpages.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { OWN_FACTS } from '../helpers/serve/own-facts.ts';

const LOOPBACK = '127.0.0.1' as Address;
const WARNING =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.';
const STATUSZ = 'application/json;v=v1beta1;g=config.k8s.io;as=Statusz';

describe('/statusz and /flagz', () => {
  let server: HttpServer;
  before(async () => {
    const handler = controllerHandler({
      feed: { isSynced: true, watches: [] },
      metrics: { contentType: 'text/plain', text: async () => 'a 1\n' },
      clock: new FakeClock(),
      component: OWN_FACTS,
      isLocal: true,
    });
    server = await HttpServer.open({ address: LOOPBACK, port: 0 }, handler);
  });
  after(() => server.close());
  const ask = async (path: string, accept = '') => {
    const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers: { accept } });
    return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() };
  };
  const object = async (path: string, accept: string) => {
    const { status, type, text } = await ask(path, accept);
    assert.deepEqual([status, type], [200, 'application/json'], text);
    return JSON.parse(text) as unknown;
  };

  it('are text for people, with a warning', async () => {
    const { status, type, text } = await ask('/statusz');
    assert.deepEqual([status, type], [200, 'text/plain; charset=utf-8']);
    assert.deepEqual(text.split('\n'), [
      ...['', 'slicewire-controller statusz', WARNING, ''],
      'Started= Mon Nov  2 03:04:05 UTC 2026',
      'Up= 24 hr 01 min 01 sec',
      `Node.js version= ${process.versions.node}`,
      'Binary version= 9.9.9',
      'Paths= /flagz /healthz /livez /metrics /readyz /statusz',
      '',
    ]);
    const flags = await ask('/flagz');
    assert.deepEqual(flags.text.split('\n'), [
      ...['', 'slicewire-controller flagz', WARNING, ''],
      ...['master=https://CLASSIFIED@192.0.2.1', 'mode=nftables', ''],
    ]);
  });

  it('have another sign between name and value by chance, as in Kubernetes', () => {
    const request = { method: 'GET', path: '/flagz', query: new URLSearchParams(), host: 'localhost' };
    const asked = { ...request, local: '127.0.0.1', remote: '127.0.0.1', body: async () => '' };
    const rows = [0, 0.25, 0.5, 0.75, 0.999].map((chance) => {
      const component = {
        ...OWN_FACTS,
        random: () => chance,
        name: 'a',
        paths: () => [],
        isLocal: () => true,
        flag: '',
      };
      const body = zpageAnswer(component, { ...asked, signal: AbortSignal.timeout(1000) })?.body;
      return String(body).split('\n').at(-2);
    });
    assert.deepEqual(rows, ['mode:nftables', 'mode: nftables', 'mode=nftables', 'mode nftables', 'mode nftables']);
  });

  it('are objects for a client that names group, version and kind', async () => {
    assert.deepEqual(await object('/statusz', STATUSZ), {
      kind: 'Statusz',
      apiVersion: 'config.k8s.io/v1beta1',
      metadata: { name: 'slicewire-controller' },
      startTime: '2026-11-02T03:04:05Z',
      uptimeSeconds: 86_461,
      binaryVersion: '9.9.9',
      paths: ['/flagz', '/healthz', '/livez', '/metrics', '/readyz', '/statusz'],
    });
    assert.deepEqual(await object('/flagz', 'application/json; as=Flagz; g=config.k8s.io; v=v1alpha1'), {
      kind: 'Flagz',
      apiVersion: 'config.k8s.io/v1alpha1',
      metadata: { name: 'slicewire-controller' },
      flags: { master: 'https://CLASSIFIED@192.0.2.1', mode: 'nftables' },
    });
  });

  for (const [accept, type] of [
    ['*/*', 'text/plain; charset=utf-8'],
    ['text/*', 'text/plain; charset=utf-8'],
    ['text/html,application/xhtml+xml,*/*;q=0.8', 'text/plain; charset=utf-8'],
    [`${STATUSZ}, text/plain`, 'application/json'],
    [`${STATUSZ};q=0.5, text/plain`, 'text/plain; charset=utf-8'],
    [`application/yaml, ${STATUSZ}`, 'application/json'],
  ] as const) {
    it(`answer Accept: ${accept}`, async () => {
      const { status, type: given } = await ask('/statusz', accept);
      assert.deepEqual([status, given], [200, type]);
    });
  }

  for (const accept of [
    'application/json',
    'application/json;v=v1beta1;g=config.k8s.io;as=Flagz',
    'application/json;v=v2;g=config.k8s.io;as=Statusz',
    'application/json;v=v1beta1;as=Statusz',
    'application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz',
    'text/plain;v=v1beta1;g=config.k8s.io;as=Statusz',
    `${STATUSZ};q=0`,
    ';;;=,,q=x',
  ]) {
    it(`refuse Accept: ${accept}`, async () => {
      const { status, text } = await ask('/statusz', accept);
      assert.deepEqual([status, text], [406, `/statusz is served as text/plain, and as ${STATUSZ}\n`]);
    });
  }

  it('are answered to those alone who may ask questions', async () => {
    const { hostname } = new URL('http://evil.example');
    for (const path of ['/statusz', '/flagz']) {
      const asked = {
        ...{
          method: 'GET',
          path,
          query: new URLSearchParams(),
          body: async () => '',
          signal: AbortSignal.timeout(1000),
        },
        ...{ host: hostname, local: '127.0.0.1', remote: '127.0.0.1' },
      };
      const component = { ...OWN_FACTS, name: 'a', paths: () => [], isLocal: () => true, flag: '--bind-address' };
      const refused = [
        zpageAnswer(component, asked),
        zpageAnswer(component, { ...asked, host: '192.0.2.7', local: '192.0.2.7', remote: '198.51.100.1' }),
      ];
      assert.deepEqual(
        refused.map((answer) => answer?.status),
        [403, 403],
      );
      assert.match(String(refused[1]?.body), /; --bind-address opens them to others/);
      assert.doesNotMatch(refused.map((answer) => String(answer?.body)).join(), /nftables|9\.9\.9/);
    }
  });
});
