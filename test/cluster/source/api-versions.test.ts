/** What agent and controller ask an API server for is in Kubernetes 1.30 to 1.37, and no list goes back in time. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import test, { type TestContext } from 'node:test';
import { apiClient } from '../../../src/cluster/api/client.ts';
import { kubernetesSource } from '../../../src/cluster/source/kubernetes.ts';
import { ClusterCache } from '../../../src/controller/cluster-cache.ts';
import { ClusterFeed } from '../../../src/controller/cluster-feed.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';
import { ApiServer } from '../../helpers/cluster/api/api-server.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';

/** Versions of the API and the minor of Kubernetes 1.x that has them first (the changelogs of kubernetes/kubernetes). */
const SINCE: Readonly<Record<string, number>> = {
  v1: 0,
  // Reviews of those who ask.
  'authentication.k8s.io/v1': 6,
  'authorization.k8s.io/v1': 6,
  'coordination.k8s.io/v1': 14,
  'events.k8s.io/v1': 19,
  'discovery.k8s.io/v1': 21,
  // Of these ServiceCIDR alone, which servers may lack: see below.
  'networking.k8s.io/v1beta1': 31,
  'networking.k8s.io/v1': 33,
};
/** The oldest minor that is served. */
const OLDEST = 30;
const MAY_LACK = ['networking.k8s.io/v1/servicecidrs', 'networking.k8s.io/v1beta1/servicecidrs'];

/** Paths of the API in the texts of the program: their version, and what follows. */
function pathsAsked(): { readonly version: string; readonly rest: string }[] {
  const source = new URL('../../../src/', import.meta.url);
  const files = globSync('**/*.ts', { cwd: source });
  return files.flatMap((file) => {
    const text = readFileSync(new URL(file, source), 'utf8');
    return [...text.matchAll(/['"`]\/apis?\/([a-z0-9.]+\.k8s\.io\/)?(v\d\w*)\/([^'"`]*)/g)].map(
      ([, group = '', version = '', rest = '']) => ({ version: group + version, rest }),
    );
  });
}

test('every version of the API that is asked for is in Kubernetes 1.30, but for those of ServiceCIDR', () => {
  const asked = pathsAsked();
  assert.deepEqual([...new Set(asked.map(({ version }) => version))].sort(), Object.keys(SINCE).sort());
  const newer = asked.filter(({ version }) => (SINCE[version] ?? Number.POSITIVE_INFINITY) > OLDEST);
  assert.deepEqual([...new Set(newer.map(({ version, rest }) => `${version}/${rest}`))].sort(), MAY_LACK);
  // IPAddress (networking.k8s.io/v1, 1.33) is the API server's own record of the cluster IPs that it gave: a Service has its own.
  assert.ok(!asked.some(({ rest }) => rest.startsWith('ipaddresses')));
});

async function filled(t: TestContext): Promise<ApiServer> {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  server.put(nodeOf(undefined));
  server.put(service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }));
  server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.244.0.1'] }));
  return server;
}

/** No request for a list or an object names a resourceVersion: the answer is the most recent one. Watches go on from a list. */
function assertPresent(server: ApiServer): void {
  for (const { kind, path, query } of server.requests()) {
    if (kind === 'watch') assert.match(query.resourceVersion ?? '', /^[1-9]\d*$/, path);
    else assert.deepEqual([path, query.resourceVersion, query.resourceVersionMatch], [path, undefined, undefined]);
  }
}

const log = { info: () => undefined, v2: () => undefined, warn: () => undefined };

test('the lists of an agent are the most recent ones, also after a restart and after a version that is too old', async (t) => {
  const server = await filled(t);
  for (let starts = 0; starts < 2; starts++) {
    const clock = new FakeClock();
    const abort = new AbortController();
    const about = { nodeName: 'node-a', hasServiceCidrs: true, readsProtobuf: true, streamsLists: false };
    const source = kubernetesSource({
      kubeconfig: undefined,
      master: server.url,
      ...about,
      userAgent: 'test',
      clock,
      log,
    });
    const ended = source.run(() => undefined, abort.signal);
    await until('four watches', () => server.watches === 4);
    clock.advance(1000);
    const lists = server.requests({ kind: 'list' }).length;
    server.compact();
    server.closeWatches();
    await until(
      'the lists again',
      () => server.watches === 4 && server.requests({ kind: 'list' }).length === lists + 4,
    );
    abort.abort();
    await ended;
    await until('no watch', () => server.watches === 0);
  }
  assertPresent(server);
});

test('all versions that the controller asks for are in Kubernetes 1.30', async (t) => {
  const server = await filled(t);
  const clock = new FakeClock();
  const abort = new AbortController();
  const client = apiClient({ server: server.url, apply: () => Promise.resolve() }, { userAgent: 'test' });
  const feed = new ClusterFeed({
    cache: new ClusterCache(),
    client,
    clock,
    log,
    onFault: () => undefined,
  });
  const ended = feed.follow(() => undefined, abort.signal);
  await until('five watches', () => server.watches === 5);
  abort.abort();
  await ended;
  client.close();
  assertPresent(server);
});
