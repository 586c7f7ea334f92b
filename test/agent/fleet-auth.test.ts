/** Who may read /programmed of an agent, by its configuration. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { programmedAuth } from '../../src/agent/fleet-auth.ts';
import { realPlatform } from '../../src/agent/platform.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import type { HttpRequest } from '../../src/serve/http.ts';
import { madeToken } from '../helpers/cluster/api/api-reviews.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const PATH = '/programmed/live';
const GOOD = madeToken('good', 'slicewire-agent');
/** The address of the fleet's Pod. */
const FLEET = '10.244.1.7';

async function start(t: TestContext) {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  server.reviews.account(GOOD, ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
  server.reviews.allowed.add(`system:serviceaccounts ${PATH}`);
  return { server, kubeconfig: await server.kubeconfig() };
}

function asking(t: TestContext, flags: Record<string, string>) {
  const stop = new AbortController();
  t.after(() => stop.abort());
  let config = configFromFlags(flags);
  const isTrusted = (address: string) => address === FLEET;
  const auth = programmedAuth(() => config, { signal: stop.signal, platform: realPlatform, isTrusted });
  const use = (other: Record<string, string>) => {
    config = configFromFlags(other);
  };
  const status = async (authorization?: string, remote = '192.0.2.7') => {
    const asked: HttpRequest = {
      ...{ method: 'GET', path: PATH, query: new URLSearchParams(), host: 'localhost', authorization, signal: NEVER },
      ...{ local: remote === '127.0.0.1' ? remote : '10.0.0.1', remote, body: async () => '' },
    };
    return (await auth(asked))?.status;
  };
  return { use, status };
}

describe('who may read /programmed', () => {
  test('is known by the API server of the objects, which is not connected to before', async (t) => {
    const { server, kubeconfig } = await start(t);
    const { status } = asking(t, { kubeconfig });
    assert.deepEqual([await status(undefined, '127.0.0.1'), await status()], [undefined, 401]);
    assert.equal(await server.connections(), 0);
    assert.equal(await status(`Bearer ${GOOD}`), undefined);
    assert.deepEqual(server.reviews.asked[0], {
      kind: 'TokenReview',
      spec: { token: GOOD, audiences: ['slicewire-agent'] },
    });
    assert.equal(await status(`Bearer ${madeToken('bad', 'slicewire-agent')}`), 401);
  });

  test('follows the configuration: another API server knows other tokens', async (t) => {
    const { server, kubeconfig } = await start(t);
    const other = await start(t);
    other.server.reviews.tokens.clear();
    const { use, status } = asking(t, { kubeconfig });
    assert.equal(await status(`Bearer ${GOOD}`), undefined);
    use({ kubeconfig, minSyncPeriod: '5s' });
    assert.equal(await status(`Bearer ${GOOD}`), undefined);
    assert.equal(server.reviews.asked.length, 2);
    use({ kubeconfig: other.kubeconfig });
    assert.equal(await status(`Bearer ${GOOD}`), 401);
    use({ kubeconfig: other.kubeconfig, programmedAuthentication: 'false' });
    assert.equal(await status(), undefined);
  });

  test('costs the API server few reviews, whatever tokens somebody makes up', async (t) => {
    const { server, kubeconfig } = await start(t);
    const { status } = asking(t, { kubeconfig });
    const madeUp = (i: number) => `Bearer ${madeToken(`made-up-${i}`, 'slicewire-agent')}`;
    const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => status(madeUp(i), `10.244.9.${i}`)));
    const reviews = server.reviews.asked.length;
    assert.equal(answers.filter((each) => each === 401).length, reviews);
    assert.ok(reviews >= 20 && reviews < 50, `${reviews} reviews`);
    assert.equal(answers.filter((each) => each === 503).length, 100 - reviews);
    assert.equal(await status(`Bearer ${GOOD}`, FLEET), undefined, 'the fleet is admitted all the same');
  });

  test('is this machine alone where manifests are read', async (t) => {
    const { status } = asking(t, { manifests: '/m' });
    assert.deepEqual([await status(`Bearer ${GOOD}`), await status(`Bearer ${GOOD}`, '127.0.0.1')], [403, undefined]);
  });

  test('is nobody while the kubeconfig cannot be read, until it can', async (t) => {
    const { kubeconfig } = await start(t);
    const { use, status } = asking(t, { kubeconfig: '/nowhere/kubeconfig' });
    assert.equal(await status(`Bearer ${GOOD}`), 503);
    use({ kubeconfig });
    assert.equal(await status(`Bearer ${GOOD}`), undefined);
  });
});
