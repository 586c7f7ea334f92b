/** The servers of a controller: one for probes and questions of its node, and one for Prometheus that has metrics alone. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { runController } from '../../src/cli/controller.ts';
import { controllerConfig } from '../../src/config/controller-config.ts';
import type { Answer, Handler, OpenServer } from '../../src/serve/http.ts';
import { logInto } from '../../src/telemetry/log.ts';
import { until } from '../helpers/base/until.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';

/** Handlers by the address that was opened. */
async function started(t: TestContext, flags: Readonly<Record<string, string>>): Promise<ReadonlyMap<string, Handler>> {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  const opened = new Map<string, Handler>();
  const open: OpenServer = async ({ address, port }, handler) => {
    opened.set(`${address}:${port}`, handler);
    return { close: async () => undefined };
  };
  const stop = new AbortController();
  const all = { kubeconfig: await server.kubeconfig(), leaderElect: 'false', ...flags };
  const running = runController(controllerConfig(all), logInto({ write: () => undefined }, 'silent'), stop.signal, {
    open,
    flags: all,
  });
  t.after(async () => {
    stop.abort(new Error('stopped'));
    await running;
  });
  await until('an open server', () => opened.size > 0);
  return opened;
}

/** `local`: where the question arrives; it comes from loopback. */
async function ask(handler: Handler | undefined, path: string, accept?: string): Promise<Answer> {
  assert.ok(handler !== undefined);
  return await handler({
    ...{ method: 'GET', path, query: new URLSearchParams(), host: 'localhost', accept },
    ...{ local: '127.0.0.1', remote: '127.0.0.1', body: async () => '', signal: AbortSignal.timeout(10_000) },
  });
}

describe('a controller', () => {
  it('serves metrics alone where Prometheus asks', async (t) => {
    const opened = await started(t, { scrapeBindAddress: '192.0.2.7' });
    assert.deepEqual([...opened.keys()], ['127.0.0.1:10261', '192.0.2.7:10261']);
    const [own, scrape] = [...opened.values()];
    for (const handler of [own, scrape]) {
      const { status, body } = await ask(handler, '/metrics');
      assert.equal(status, 200);
      assert.match(String(body), /^leader_election_master_status\{name=""\} 1$/m);
      assert.match(String(body), /^slicewire_watch_failing\{kind="\w+"\} 0$/m);
    }
    for (const path of ['/healthz', '/livez', '/readyz', '/statusz', '/flagz']) {
      assert.notEqual((await ask(own, path)).status, 404, path);
      assert.equal((await ask(scrape, path)).status, 404, path);
    }
  });

  it('tells its flags, and opens one address without the flag', async (t) => {
    const opened = await started(t, { concurrentEndpointSyncs: '7' });
    assert.deepEqual([...opened.keys()], ['127.0.0.1:10261']);
    const { body } = await ask(
      opened.get('127.0.0.1:10261'),
      '/flagz',
      'application/json;v=v1beta1;g=config.k8s.io;as=Flagz',
    );
    const { metadata, flags } = JSON.parse(String(body));
    assert.deepEqual(
      [metadata.name, flags['concurrent-endpoint-syncs'], flags['leader-elect'], flags['bind-address']],
      ['slicewire-controller', '7', 'false', '127.0.0.1:10261'],
    );
  });
});
