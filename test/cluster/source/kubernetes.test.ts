/** The source as a whole: from a kubeconfig to events. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test, { describe, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { apiClient } from '../../../src/cluster/api/client.ts';
import { KubeconfigUnusable, loadCredentials } from '../../../src/cluster/api/credentials.ts';
import { type KubernetesOptions, kubernetesSource } from '../../../src/cluster/source/kubernetes.ts';
import type { SourceEvent, SourceKind, WatchStatus } from '../../../src/proxy/model/events.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { until } from '../../helpers/base/until.ts';
import { makeCertificate } from '../../helpers/cluster/api/api-certificate.ts';
import { ApiServer, type ApiServerOptions } from '../../helpers/cluster/api/api-server.ts';
import { service, serviceCidr, slice } from '../../helpers/cluster/objects.ts';
import { KUBECONFIGS } from '../../messages/kubeconfigs.ts';
import { messageIn } from '../../messages/row.ts';

interface Running {
  readonly events: SourceEvent[];
  /** `services 4711`, without the other events. */
  readonly reached: readonly string[];
  readonly log: { level: string; facts: Record<string, unknown>; text: string }[];
  readonly clock: FakeClock;
  readonly watches: () => readonly WatchStatus[];
  readonly cannotFollow: (of: SourceKind) => boolean;
  readonly stop: () => Promise<void>;
}

async function start(t: TestContext, options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await ApiServer.start(options);
  t.after(() => server.stop());
  return server;
}

function run(t: TestContext, options: Partial<KubernetesOptions>): Running {
  const clock = new FakeClock();
  const events: SourceEvent[] = [];
  const log: Running['log'] = [];
  const note = (level: string) => (facts: object, text: string) => {
    log.push({ level, facts: facts as Record<string, unknown>, text });
  };
  const source = kubernetesSource({
    kubeconfig: undefined,
    master: undefined,
    nodeName: 'node-a',
    hasServiceCidrs: false,
    readsProtobuf: true,
    streamsLists: false,
    userAgent: 'slicewire/test',
    clock,
    log: { info: note('info'), v2: note('v2'), warn: note('warn') },
    ...options,
  });
  const abort = new AbortController();
  const reached: string[] = [];
  const emit = (event: SourceEvent) => {
    if (event.kind === 'reached') reached.push(`${event.of} ${event.resourceVersion}`);
    else events.push(event);
  };
  const ended = source.run(emit, abort.signal);
  const stop = () => {
    abort.abort();
    return ended;
  };
  t.after(stop);
  return {
    events,
    reached,
    log,
    clock,
    watches: () => source.watches?.() ?? [],
    cannotFollow: (of) => source.cannotFollow?.(of) ?? false,
    stop,
  };
}

async function running(t: TestContext, server: ApiServer, options: Partial<KubernetesOptions> = {}): Promise<Running> {
  const source = run(t, { kubeconfig: await server.kubeconfig(), ...options });
  await until('three watches', () => server.watches === 3);
  return source;
}

function texts(events: readonly SourceEvent[]): string[] {
  return events.map((event) => {
    if (event.kind === 'reached') return `reached ${event.of}`;
    if (event.kind === 'synced') return `synced ${event.of}`;
    const value = event.kind === 'service' ? event.service : event.kind === 'slice' ? event.slice : undefined;
    const isThere = value !== undefined || (event.kind === 'node' && event.node !== undefined);
    return `${event.kind} ${event.key} ${isThere ? 'set' : 'gone'}`;
  });
}

function fill(server: ApiServer): void {
  server.put({ kind: 'Node', metadata: { name: 'node-a', labels: { 'topology.kubernetes.io/zone': 'z' } } });
  server.put({ kind: 'Node', metadata: { name: 'node-b' } });
  server.put(service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }));
  server.put(service({ name: 'head', spec: { clusterIP: 'None', ports: [{ port: 80 }] } }));
  const label = 'service.kubernetes.io/service-proxy-name';
  server.put(service({ name: 'other', labels: { [label]: 'x' }, spec: { clusterIP: '10.96.0.2' } }));
  server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.0.0.1'] }));
}

describe('ServiceCIDRs', () => {
  const cidr = (cidrs: unknown) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs },
  });

  test('are followed where they are wanted, and faults of one are reported', async (t) => {
    const server = await start(t);
    const { events, watches } = run(t, { kubeconfig: await server.kubeconfig(), hasServiceCidrs: true });
    await until('four watches', () => server.watches === 4);
    const reported = () => events.flatMap((event) => (event.kind === 'serviceCidr' ? [event] : []));
    server.put(cidr(['10.96.0.0/12', 'x', 'fd00:96::/112']));
    await until('it is reported', () => reported().length === 1);
    assert.deepEqual(reported()[0]?.cidrs, ['10.96.0.0/12', 'fd00:96::/112']);
    assert.match(JSON.stringify(reported()[0]?.faults), /spec\.cidrs\[1\].*must be a CIDR/);
    server.delete('ServiceCIDR', 'kubernetes');
    await until('it is gone', () => reported().length === 2);
    assert.equal(reported()[1]?.cidrs, undefined);
    assert.deepEqual(
      watches().map(({ of }) => of),
      ['services', 'slices', 'nodes'],
      'they say nothing of health',
    );
  });
});

describe('an API server without ServiceCIDRs of v1', () => {
  const V1 = '/apis/networking.k8s.io/v1/servicecidrs';
  const BETA = '/apis/networking.k8s.io/v1beta1/servicecidrs';
  const HOUR = 3_600_000;

  /** The paths by which ServiceCIDRs were asked for. */
  const asked = (server: ApiServer) =>
    server.requests({ resource: 'servicecidrs' }).map(({ path, query }) => (query.watch ? `watch ${path}` : path));

  async function without(t: TestContext) {
    const server = await start(t, { missing: ['servicecidrs'] });
    fill(server);
    const source = run(t, { kubeconfig: await server.kubeconfig(), hasServiceCidrs: true });
    await until('it is known', () => source.log.length > 0 && source.clock.pending === 1);
    return { server, ...source };
  }

  test('is asked once for v1 and v1beta1 where it has neither (Kubernetes 1.30), and once again an hour later; the log says it once', async (t) => {
    const { server, log, clock, cannotFollow, watches } = await without(t);
    await until('all others are followed', () => server.watches === 3);
    assert.deepEqual(asked(server), [V1, BETA]);
    assert.equal(cannotFollow('servicecidrs'), true);
    for (let hour = 0; hour < 3; hour++) {
      clock.advance(1.5 * HOUR);
      await until('it is asked again', () => asked(server).length === 2 * (hour + 2) && clock.pending === 1);
    }
    assert.deepEqual(asked(server).slice(-2), [V1, BETA]);
    assert.deepEqual(
      log.map(({ level, text }) => [level, text]),
      [
        [
          'info',
          'the API server has no servicecidrs; rules stay as they are; asking again in an hour, and when slicewire starts',
        ],
      ],
    );
    assert.ok(watches().every(({ failure }) => failure === undefined));
  });

  test('that is upgraded is followed within the hour', async (t) => {
    const { server, log, clock, events, cannotFollow } = await without(t);
    server.missing.clear();
    server.put(serviceCidr('10.96.0.0/12'));
    clock.advance(1.5 * HOUR);
    await until('it is followed', () => events.some(({ kind }) => kind === 'serviceCidr'));
    assert.equal(cannotFollow('servicecidrs'), false);
    assert.equal(log.at(-1)?.text, 'following servicecidrs again');
  });

  test('that had them and is downgraded lacks them from then on', async (t) => {
    const server = await start(t);
    server.put(serviceCidr('10.96.0.0/12'));
    const { clock, cannotFollow, log } = run(t, { kubeconfig: await server.kubeconfig(), hasServiceCidrs: true });
    await until('four watches', () => server.watches === 4);
    clock.advance(2000);
    assert.equal(cannotFollow('servicecidrs'), false);
    server.missing.add('servicecidrs');
    server.closeWatches();
    await until('it is known', () => log.length > 0);
    assert.equal(log.at(-1)?.text.startsWith('the API server has no servicecidrs'), true);
    assert.equal(cannotFollow('servicecidrs'), true);
  });

  test('is followed by v1beta1 where it has that (1.31 and 1.32)', async (t) => {
    const server = await start(t, { missing: [V1] });
    server.put(serviceCidr('10.96.0.0/12'));
    const { events, log } = run(t, { kubeconfig: await server.kubeconfig(), hasServiceCidrs: true });
    await until('four watches', () => server.watches === 4);
    assert.deepEqual(asked(server), [V1, BETA, `watch ${BETA}`]);
    assert.ok(events.some((event) => event.kind === 'serviceCidr' && event.cidrs?.[0] === '10.96.0.0/12'));
    assert.deepEqual(log, []);
  });

  test('that is upgraded from v1beta1 to v1 is followed at once', async (t) => {
    const server = await start(t, { missing: [V1] });
    server.put(serviceCidr('10.96.0.0/12'));
    const { clock, log } = run(t, { kubeconfig: await server.kubeconfig(), hasServiceCidrs: true });
    await until('four watches', () => server.watches === 4);
    clock.advance(2000);
    server.missing.clear();
    server.missing.add(BETA);
    server.closeWatches();
    await until('it is followed, or waited for', () => asked(server).includes(`watch ${V1}`) || log.length > 0);
    assert.deepEqual(asked(server).slice(-3), [`watch ${BETA}`, V1, `watch ${V1}`]);
    assert.deepEqual(log, []);
  });

  test('one that forbids them is asked again as after a failure, and the log says it once', async (t) => {
    const server = await start(t);
    server.failNext(1000, 403, {}, { resource: 'servicecidrs' });
    const { log, clock } = run(t, { kubeconfig: await server.kubeconfig(), hasServiceCidrs: true });
    await until('three tries', () => {
      clock.finishWaits();
      return asked(server).length >= 3;
    });
    assert.deepEqual([...new Set(asked(server))], [V1]);
    assert.equal(log.filter(({ level }) => level === 'warn').length, 1);
    assert.match(log[0]?.text ?? '', /^cannot follow servicecidrs since .*: 403 /);
  });
});

describe('lists in protobuf', () => {
  const DROP = ';drop=metadata.managedFields';
  const JSON_TYPE = `application/json${DROP}, application/json;q=0.5`;
  const TYPE = `application/vnd.kubernetes.protobuf${DROP}, ${JSON_TYPE}`;
  const lists = (server: ApiServer) =>
    server.requests({ kind: 'list' }).map(({ path, headers }) => `${path.split('/').at(-1)} ${headers.accept}`);

  test('are asked for of Services and EndpointSlices, unless JSON is wanted; the events are the same', async (t) => {
    const reported: SourceEvent[][] = [];
    for (const readsProtobuf of [true, false]) {
      const server = await start(t);
      for (const object of [
        service({
          name: 'web',
          createdAt: '2026-11-21T00:27:50Z',
          spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] },
        }),
        service({ name: 'bad', spec: { clusterIP: 'nowhere', ports: [{ port: 80 }] } }),
        slice({ name: 'web-1', service: 'web', endpoints: ['10.0.0.1', 'nowhere'] }),
      ]) {
        const { metadata } = object as { metadata: object };
        server.put({ ...object, metadata: { ...metadata, uid: 'c5f33a0a-6490-4017-946a-8d35a8e292f1' } });
      }
      const { events } = await running(t, server, { readsProtobuf });
      assert.deepEqual(lists(server).sort(), [
        `endpointslices ${readsProtobuf ? TYPE : JSON_TYPE}`,
        `nodes ${JSON_TYPE}`,
        `services ${readsProtobuf ? TYPE : JSON_TYPE}`,
      ]);
      reported.push(events.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)));
    }
    assert.equal(reported[0]?.length, 6);
    assert.deepEqual(reported[0], reported[1]);
  });

  test('that cannot be read are asked for as JSON from then on', async (t) => {
    const server = await start(t);
    fill(server);
    server.garbleProtobuf = true;
    const { log, clock, events } = run(t, { kubeconfig: await server.kubeconfig() });
    await until('two retries wait', () => clock.pending >= 2);
    clock.advance(2000);
    await until('three watches', () => server.watches === 3);
    assert.ok(texts(events).includes('service default/web set'));
    const warned = log
      .filter(({ level }) => level === 'warn')
      .map(({ facts, text }) => `${text} ${JSON.stringify(facts)}`);
    assert.match(warned.join('\n'), /the protobuf answer cannot be read: .*requesting JSON from now on/);
    const asked = server.requests({ kind: 'list', resource: 'services' }).map(({ headers }) => headers.accept);
    assert.deepEqual(asked, [TYPE, JSON_TYPE]);
  });
});

describe('a cluster', () => {
  for (const tls of [false, true]) {
    test(`over ${tls ? 'TLS with a token' : 'plain HTTP'} gives Services, slices and the own Node, and says when each is complete`, async (t) => {
      const server = await start(t, tls ? { tls, token: 'secret' } : {});
      fill(server);
      const { events, log } = await running(t, server);
      assert.deepEqual(texts(events).sort(), [
        'node node-a set',
        'service default/web set',
        'slice default/web-1 set',
        'synced nodes',
        'synced services',
        'synced slices',
      ]);
      server.delete('Service', 'default/web');
      server.delete('EndpointSlice', 'default/web-1');
      server.delete('Node', 'node-a');
      await until('three events', () => events.length === 9);
      assert.deepEqual(texts(events.slice(6)).sort(), [
        'node node-a gone',
        'service default/web gone',
        'slice default/web-1 gone',
      ]);
      assert.deepEqual(log, []);
    });
  }

  test("is asked with kube-proxy's selectors, in lists and watches alike", async (t) => {
    const server = await start(t);
    await running(t, server);
    const asked = (kind: 'list' | 'watch') =>
      server
        .requests({ kind })
        .map(({ path, query }) => `${path} ${query.labelSelector ?? ''} ${query.fieldSelector ?? ''}`)
        .sort();
    const served = '!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless';
    const wanted = [
      '/api/v1/nodes  metadata.name=node-a',
      `/api/v1/services ${served} spec.clusterIP!=None`,
      `/apis/discovery.k8s.io/v1/endpointslices ${served} `,
    ];
    assert.deepEqual(asked('list'), wanted);
    assert.deepEqual(asked('watch'), wanted);
  });

  test('with a Service or slice that gets a label of those left alone drops it, and has it again without', async (t) => {
    const server = await start(t);
    const { events } = await running(t, server);
    const spec = { clusterIP: '10.96.0.1', ports: [{ port: 80 }] };
    const wanted: string[] = [];
    const reported = async (object: object, text: string) => {
      server.put(object);
      wanted.push(text);
      await until(text, () => texts(events).filter((one) => !one.startsWith('synced')).length === wanted.length);
    };
    const owner = { 'kubernetes.io/service-name': 'web' };
    const endpoints = slice({ name: 'web-1', service: 'web', endpoints: ['10.0.0.1'] });
    const metadata = { name: 'web-1', namespace: 'default' };
    for (const label of ['service.kubernetes.io/headless', 'service.kubernetes.io/service-proxy-name']) {
      await reported(service({ name: 'web', spec }), 'service default/web set');
      await reported(service({ name: 'web', labels: { [label]: '' }, spec }), 'service default/web gone');
      await reported(endpoints, 'slice default/web-1 set');
      await reported(
        { ...endpoints, metadata: { ...metadata, labels: { ...owner, [label]: 'x' } } },
        'slice default/web-1 gone',
      );
    }
    await reported(service({ name: 'web', spec }), 'service default/web set');
    assert.deepEqual(
      texts(events).filter((one) => !one.startsWith('synced')),
      wanted,
    );
  });

  test('one object that is broken has its fault, and the rest is there', async (t) => {
    const server = await start(t);
    server.put(service({ name: 'bad', spec: { clusterIP: '10.96.0.9', ports: [{ port: 70_000 }] } }));
    server.put(service({ name: 'worse', spec: { clusterIP: 7 } }));
    fill(server);
    const { events } = await running(t, server);
    const services = events.filter((event) => event.kind === 'service');
    assert.deepEqual(
      services.map(({ key, service: value, faults }) => [key, value !== undefined, faults.map(({ field }) => field)]),
      [
        ['default/bad', false, ['spec.ports[0].port']],
        ['default/web', true, []],
        ['default/worse', false, ['spec.clusterIP']],
      ],
    );
  });

  test('of 3000 slices comes in pages and leaves no connections behind', async (t) => {
    const server = await start(t, { tls: true });
    for (let i = 0; i < 3000; i += 1) {
      server.put(slice({ name: `s-${i}`, service: 'web', endpoints: [`10.0.${i >> 8}.${i & 255}`] }));
    }
    const { events } = await running(t, server, { pageSize: 100 });
    assert.equal(server.requests({ kind: 'list', resource: 'endpointslices' }).length, 30);
    assert.equal(events.filter(({ kind }) => kind === 'slice').length, 3000);
    let count = 99;
    await until('only the watches are connected', () => {
      void server.connections().then((now) => {
        count = now;
      });
      return count <= 6;
    });
  });

  test('that refuses is logged with the kind, the time and the cause; so is its recovery', async (t) => {
    const server = await start(t);
    server.failNext(2, 403, {}, { resource: 'services' });
    const { log, clock } = run(t, { kubeconfig: await server.kubeconfig() });
    await until('the first failure', () => log.length === 1 && clock.pending === 1);
    clock.advance(60_000);
    await until('the second failure', () => log.length === 2 && clock.pending === 1);
    clock.finishWaits();
    await until('three watches', () => server.watches === 3);
    const since = '2026-11-21T00:00:00.000Z';
    assert.deepEqual(
      log.map(({ level, facts }) => [level, facts]),
      [
        ['warn', { of: 'services', since, failures: 1 }],
        ['v2', { of: 'services', since, failures: 2 }],
        ['info', { of: 'services', since, failures: 2 }],
      ],
    );
    assert.match(
      log[0]?.text ?? '',
      /^cannot follow services since 2026.*: \/api\/v1\/services: 403 .*; rules stay as they are/,
    );
  });

  test('whose token is refused is tried again', async (t) => {
    const server = await start(t, { token: 'secret' });
    const file = await kubeconfig(t, { clusters: [{ name: 'c', cluster: { server: server.url } }] });
    const { log, events } = run(t, { kubeconfig: file });
    await until('three failures', () => log.length === 3);
    for (const { text } of log) assert.match(text, /401 Unauthorized/);
    assert.deepEqual(events, []);
  });

  test('whose certificate is not trusted is refused, with the reason', async (t) => {
    const server = await start(t, { tls: true });
    const file = await kubeconfig(t, { clusters: [{ name: 'c', cluster: { server: server.url } }] });
    const { log } = run(t, { kubeconfig: file });
    await until('three failures', () => log.length === 3);
    for (const { text } of log)
      assert.match(text, /cannot be reached: its certificate .*\(DEPTH_ZERO_SELF_SIGNED_CERT\)/);
    assert.deepEqual(server.requests(), []);
  });

  test('ends at once when its signal aborts, whether it watches or waits', async (t) => {
    const server = await start(t);
    server.failNext(100, 503, {}, { resource: 'nodes' });
    const { stop, clock } = run(t, { kubeconfig: await server.kubeconfig() });
    await until('two watches and a wait', () => server.watches === 2 && clock.pending === 1);
    await stop();
    assert.equal(clock.pending, 0);
  });
});

describe('credentials', () => {
  // The kubeconfig that kubeadm gives to kube-proxy names its token so.
  for (const end of ['', '\n']) {
    test(`a token in a file${end && ' that ends in a line end'} is sent; its path is relative to the kubeconfig`, async (t) => {
      const server = await start(t, { token: 'secret' });
      const file = await kubeconfig(t, {
        clusters: [{ name: 'c', cluster: { server: server.url } }],
        users: [{ name: 'u', user: { tokenFile: 'token' } }],
      });
      await writeFile(join(dirname(file), 'token'), `secret${end}`);
      const { log } = run(t, { kubeconfig: file });
      await until('an answer', () => server.watches === 3 || log.length > 0);
      assert.deepEqual(
        log.map(({ text }) => text),
        [],
      );
    });
  }

  test('a client certificate that is renewed in its file is used from the next connection on', async (t) => {
    const file = await kubeconfig(t, {});
    const folder = dirname(file);
    const options = { ...(await makeCertificate(folder, 'server')), requestCert: true, rejectUnauthorized: false };
    const seen: unknown[] = [];
    const server = https.createServer(options, (request, response) => {
      seen.push((request.socket as TLSSocket).getPeerCertificate().subject?.CN);
      response.end('{}');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.after(() => server.close());
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'x',
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: url, 'certificate-authority': 'tls.crt' } }],
      users: [{ name: 'u', user: { 'client-certificate': 'client/tls.crt', 'client-key': 'client/tls.key' } }],
    };
    await writeFile(file, JSON.stringify(config));
    await mkdir(join(folder, 'client'));
    await makeCertificate(join(folder, 'client'), 'first');
    const client = apiClient(await loadCredentials({ kubeconfig: file, master: undefined }), { userAgent: 'test' });
    await client.get('/', {}, new AbortController().signal);
    await makeCertificate(join(folder, 'client'), 'second');
    await client.get('/', {}, new AbortController().signal);
    assert.deepEqual(seen, ['first', 'second']);
  });
});

async function kubeconfig(t: TestContext, part: object | string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'config');
  const whole = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: 'https://10.0.0.1:6443' } }],
    users: [{ name: 'u', user: {} }],
  };
  await writeFile(file, typeof part === 'string' ? part : JSON.stringify({ ...whole, ...part }));
  return file;
}

describe('a kubeconfig', () => {
  async function unusable(config: { kubeconfig?: string; master?: string }, message: RegExp): Promise<void> {
    await assert.rejects(loadCredentials({ kubeconfig: undefined, master: undefined, ...config }), (error: unknown) => {
      assert.ok(error instanceof KubeconfigUnusable, String(error));
      assert.equal(error.code, 'KUBECONFIG_UNUSABLE');
      assert.match(error.message, message);
      return true;
    });
  }

  test('that is not there, or is a folder', async () => {
    await unusable(
      { kubeconfig: '/nowhere/config' },
      /^--kubeconfig \/nowhere\/config: there is no such file or folder$/,
    );
    await unusable({ kubeconfig: tmpdir() }, /: it is a folder, not a regular file$/);
  });

  test('that is no kubeconfig', async (t) => {
    for (const text of ['', 'a: [', '7', '{}', 'kind: Service\n']) {
      await unusable({ kubeconfig: await kubeconfig(t, text) }, /^--kubeconfig \/.*: ./);
    }
  });

  test('whose context is not there, or names no cluster', async (t) => {
    await unusable({ kubeconfig: await kubeconfig(t, { 'current-context': 'y' }) }, /: current-context/);
    await unusable({ kubeconfig: await kubeconfig(t, { clusters: [] }) }, /: current-context/);
  });

  for (const server of ['10.0.0.1:6443', 'unix:///run/api.sock', '']) {
    test(`whose server is "${server}"`, async (t) => {
      const file = await kubeconfig(t, { clusters: [{ name: 'c', cluster: { server } }] });
      await unusable({ kubeconfig: file }, /--kubeconfig .*/);
    });
  }

  test('whose server is the placeholder of deploy/base', async (t) => {
    const server = 'https://control-plane.example:6443';
    const file = await kubeconfig(t, { clusters: [{ name: 'c', cluster: { server } }] });
    const message = `--kubeconfig ${file}: server of the cluster: ${server}: control-plane.example is the placeholder of deploy/base/kubeconfig.conf; put the address of your control plane in its place`;
    await assert.rejects(loadCredentials({ kubeconfig: file, master: undefined }), { message });
    const deployed = await readFile(new URL('../../../deploy/base/kubeconfig.conf', import.meta.url), 'utf8');
    assert.ok(deployed.includes(`server: ${server}\n`));
  });

  test('is overruled by --master, and either may stand alone', async (t) => {
    const file = await kubeconfig(t, {});
    const server = async (kubeconfig: string | undefined, master: string | undefined) =>
      (await loadCredentials({ kubeconfig, master })).server;
    assert.equal(await server(file, undefined), 'https://10.0.0.1:6443');
    assert.equal(await server(file, 'https://10.0.0.2:6443'), 'https://10.0.0.2:6443');
    assert.equal(await server(undefined, 'http://127.0.0.1:8080'), 'http://127.0.0.1:8080');
    await unusable({ master: '10.0.0.2:6443' }, /^--master 10\.0\.0\.2:6443: must be a URL such as https/);
  });

  test('is missing outside of a cluster', async (t) => {
    const before = process.env.KUBERNETES_SERVICE_HOST;
    delete process.env.KUBERNETES_SERVICE_HOST;
    t.after(() => before !== undefined && Object.assign(process.env, { KUBERNETES_SERVICE_HOST: before }));
    await unusable({}, new RegExp(`^${RegExp.escape(messageIn(KUBECONFIGS, 'no source of objects'))}$`));
  });

  test('that is unusable ends the source', async () => {
    const log = { info: () => undefined, v2: () => undefined, warn: () => undefined };
    const options = {
      kubeconfig: '/nowhere',
      master: undefined,
      nodeName: 'n',
      hasServiceCidrs: false,
      readsProtobuf: true,
      streamsLists: false,
      userAgent: 'slicewire/test',
      clock: new FakeClock(),
      log,
    };
    await assert.rejects(
      kubernetesSource(options).run(() => undefined, new AbortController().signal),
      KubeconfigUnusable,
    );
  });
});

describe('the watch status of a kind', () => {
  const slices = ({ watches }: Running) => watches().find(({ of }) => of === 'slices') ?? assert.fail();

  test('shows when the server sent something last', async (t) => {
    const server = await start(t);
    const source = await running(t, server);
    source.clock.advance(50_000);
    assert.deepEqual(slices(source), { of: 'slices', heardAt: 0, failure: undefined });
    server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.244.0.1'] }));
    await until('it is heard', () => slices(source).heardAt === 50_000);
    // For the rest of an hour nothing happens, and nothing is wrong.
    for (let minute = 1; minute < 60; minute += 1) source.clock.advance(60_000);
    assert.deepEqual(
      source.watches().map(({ failure }) => failure),
      [undefined, undefined, undefined],
    );
  });

  test('tells a refusal from a server that is away, and shows since when', async (t) => {
    const server = await start(t);
    const source = await running(t, server);
    source.clock.advance(10_000);
    server.failNext(1000, 403);
    server.cutConnections();
    const refused = () => slices(source).failure?.cause.includes('403') === true;
    while (!refused()) {
      source.clock.finishWaits();
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual([slices(source).failure?.since, slices(source).failure?.isServers], [10_000, false]);
    server.recover();
    while (slices(source).failure !== undefined) {
      source.clock.finishWaits();
      await new Promise((resolve) => setImmediate(resolve));
      source.clock.advance(1000);
    }
    // A quiet watch that stands is well, though nothing was heard on it yet.
    assert.equal(slices(source).failure, undefined);
  });

  test('is well again and again where something on the way ends what is silent, as gateways do after a minute', async (t) => {
    const server = await start(t);
    const source = await running(t, server);
    for (let times = 1; times <= 6; times++) {
      source.clock.advance(60_000);
      const broke = source.clock.now();
      server.cutConnections();
      await until('the watches broke', () => slices(source).failure !== undefined);
      // Not since the first time: it was followed meanwhile.
      assert.equal(slices(source).failure?.since, source.clock.now());
      await until('they stand again', () => {
        source.clock.finishWaits();
        return source.watches().every(({ heardAt }) => heardAt > broke);
      });
    }
    // Nor is the list read again for it.
    assert.equal(server.requests({ kind: 'list' }).length, 3);
  });

  test('shows that the server does not answer', async (t) => {
    const source = run(t, { master: 'http://127.0.0.1:9' });
    await until('it failed', () => slices(source).failure !== undefined);
    assert.equal(slices(source).failure?.isServers, true);
  });
});

describe('the resourceVersion up to which changes were emitted', () => {
  test('is told after a whole list, each event and each bookmark, and taken back when versions go back', async (t) => {
    const server = await start(t);
    for (let n = 0; n < 3; n++) server.put(service({ name: `web-${n}`, spec: { clusterIP: `10.96.0.${n}` } }));
    server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.1'] }));
    const backup = server.version;
    const { reached, clock, events } = await running(t, server, { pageSize: 1 });
    assert.deepEqual(
      [...reached].sort(),
      [`services ${backup}`, `slices ${backup}`],
      'no page tells it before the last',
    );
    const changed = server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.2'] }));
    await until('the change', () => reached.includes(`slices ${changed}`));
    assert.equal(events.at(-1)?.kind, 'slice', 'the change comes first');
    server.delete('EndpointSlice', 'default/web-1');
    const gone = server.version;
    await until('the deletion', () => reached.includes(`slices ${gone}`));
    server.touch();
    server.bookmark();
    await until('the bookmark', () => reached.includes(`slices ${server.version}`));
    const before = reached.length;
    server.restore(backup);
    server.failNext(1, 410, {}, { kind: 'watch', resource: 'endpointslices' });
    await until('the list', () => {
      clock.advance(1000);
      return reached.slice(before).includes(`slices ${backup}`);
    });
    const slices = reached.slice(before).filter((one) => one.startsWith('slices'));
    assert.deepEqual(slices, ['slices ', `slices ${backup}`]);
  });
});

for (const readsProtobuf of [true, false]) {
  test(`events have the resourceVersion of their object, from ${readsProtobuf ? 'protobuf' : 'JSON'} and from watches`, async (t) => {
    const server = await start(t);
    server.put(service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }));
    server.put(slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.1'] }));
    const { events } = await running(t, server, { readsProtobuf });
    server.put(service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 81 }] } }));
    const versions = () =>
      events.flatMap((event) => ('resourceVersion' in event ? [`${event.kind} ${event.resourceVersion}`] : []));
    await until('the change', () => versions().filter((text) => text.startsWith('service ')).length === 2);
    for (const text of versions()) assert.match(text, /^(service|slice|node) \d+$/);
    assert.equal(new Set(versions()).size, 3);
  });
}
