/** Slices that follow from Pods and Endpoints in manifests: a folder with nothing but Services and Pods is enough. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { describe } from 'node:test';
import { realClock } from '../../../../src/base/clock.ts';
import { Cache } from '../../../../src/cluster/cache/cache.ts';
import { ManifestStore } from '../../../../src/cluster/source/manifests/manifest-store.ts';
import { manifestsSource } from '../../../../src/cluster/source/manifests/source.ts';
import type { SourceEvent } from '../../../../src/proxy/model/events.ts';
import { type Fault, faultText } from '../../../../src/proxy/model/objects.ts';
import { until } from '../../../helpers/base/until.ts';
import { setText } from '../../../helpers/cluster/documents/documents.ts';
import { MANIFESTS } from '../../../messages/manifests.ts';
import { problemIn } from '../../../messages/row.ts';

const SERVICE = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.10
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
`;

function pod(name: string, ip: string, more = ''): string {
  return `apiVersion: v1
kind: Pod
metadata: {name: ${name}, labels: {app: web}}
spec:
  nodeName: node-a
  containers: [{name: main, ports: [{name: http, containerPort: 8080}]}]
status: {podIP: ${ip}${more}}
`;
}

const docs = (...parts: string[]) => parts.join('---\n');

/** A store with the cache behind it. */
class Folder {
  readonly cache = new Cache();
  readonly reported: Fault[] = [];
  readonly events: SourceEvent[] = [];
  readonly #store = new ManifestStore('node-a', (event) => {
    this.events.push(event);
    this.reported.push(...this.cache.take(event));
  });

  set(files: Readonly<Record<string, string>>): void {
    for (const [file, text] of Object.entries(files)) setText(this.#store, file, text);
    this.#store.flush();
  }

  remove(file: string): void {
    this.#store.remove(file);
    this.#store.flush();
  }

  /** `address:port ready|not`, sorted, of a Service. */
  endpoints(service = 'default/web'): string[] {
    return this.cache
      .slicesOf(service)
      .flatMap(({ ports, endpoints }) =>
        endpoints.map(({ address, ready, zoneHints }) =>
          [`${address}:${ports.map(({ port }) => port).join()}`, ready ? 'ready' : 'not', ...zoneHints].join(' '),
        ),
      )
      .sort();
  }
}

describe('Pods in manifests', () => {
  test('are the endpoints of the Services that select them, wherever they stand', () => {
    const folder = new Folder();
    folder.set({ 'a.yaml': pod('web-1', '10.244.1.11'), 'b.yaml': docs(SERVICE, pod('web-2', '10.244.1.12')) });
    assert.deepEqual(folder.endpoints(), ['10.244.1.11:8080 ready', '10.244.1.12:8080 ready']);
    folder.remove('a.yaml');
    assert.deepEqual(folder.endpoints(), ['10.244.1.12:8080 ready']);
    folder.remove('b.yaml');
    assert.deepEqual(folder.endpoints(), []);
    assert.deepEqual(folder.reported, []);
  });

  test('make slices for another proxy, which are not read, and again for this one without the label', () => {
    const folder = new Folder();
    const labelled = SERVICE.replace(
      '{name: web}',
      '{name: web, labels: {service.kubernetes.io/service-proxy-name: x}}',
    );
    folder.set({ 'a.yaml': labelled, 'b.yaml': pod('web-1', '10.0.0.1') });
    assert.deepEqual(folder.endpoints(), []);
    folder.set({ 'a.yaml': SERVICE });
    assert.deepEqual(folder.endpoints(), ['10.0.0.1:8080 ready']);
    folder.set({ 'a.yaml': labelled });
    assert.deepEqual(folder.endpoints(), []);
    // The label of headless Services is never copied to slices: what the Service is decides there.
    folder.set({
      'a.yaml': SERVICE.replace('{name: web}', '{name: web, labels: {service.kubernetes.io/headless: ""}}'),
    });
    assert.deepEqual(folder.endpoints(), ['10.0.0.1:8080 ready']);
  });

  test('that say that they are not ready, end, or are finished, count as such', () => {
    const folder = new Folder();
    const unready = `, conditions: [{type: Ready, status: "False"}]`;
    const leaving = pod('web-3', '10.244.1.13').replace(
      '{name: web-3,',
      '{name: web-3, deletionTimestamp: "2026-11-21T00:00:00Z",',
    );
    const done = pod('web-4', '10.244.1.14', ', phase: Succeeded');
    folder.set({ 'a.yaml': docs(SERVICE, pod('web-1', '10.244.1.11', unready), leaving, done) });
    assert.deepEqual(folder.endpoints(), ['10.244.1.11:8080 not', '10.244.1.13:8080 not']);
  });

  test('without an address are reported, and are no endpoints', () => {
    const folder = new Folder();
    folder.set({ 'a.yaml': docs(SERVICE, pod('web-1', '10.244.1.11'), pod('web-2', '""')) });
    assert.deepEqual(folder.endpoints(), ['10.244.1.11:8080 ready']);
    assert.deepEqual(folder.reported.map(faultText), [
      `Pod default/web-2: status.podIP: ${problemIn(MANIFESTS, 'Pod default/web-1: status.podIP', 'is missing')} (no effect here)`,
    ]);
  });

  test('that an edit broke stay as they were, and the fault is reported', () => {
    const folder = new Folder();
    folder.set({ 'a.yaml': docs(SERVICE, pod('web-1', '10.244.1.11')) });
    folder.set({
      'a.yaml': docs(SERVICE, pod('web-1', '10.244.1.11').replace('containerPort: 8080', 'containerPort: many')),
    });
    assert.deepEqual(folder.endpoints(), ['10.244.1.11:8080 ready']);
    assert.match(
      folder.reported.map(faultText).join(),
      /^Pod default\/web-1: spec\.containers\[0\]\.ports\[0\]\.containerPort: many:/,
    );
  });

  test('get zones and hints from the Nodes of the folder', () => {
    const folder = new Folder();
    const node = (name: string, zone: string) => `apiVersion: v1
kind: Node
metadata: {name: ${name}, labels: {topology.kubernetes.io/zone: ${zone}}}
`;
    const close = SERVICE.replace('  ports', '  trafficDistribution: PreferClose\n  ports');
    const other = pod('web-2', '10.244.2.12').replace('node-a', 'node-b');
    folder.set({ 'a.yaml': docs(close, pod('web-1', '10.244.1.11'), other, node('node-a', 'a'), node('node-b', 'b')) });
    assert.deepEqual(folder.endpoints(), ['10.244.1.11:8080 ready a', '10.244.2.12:8080 ready b']);
    assert.equal(folder.cache.node?.name, 'node-a');
  });

  test('beside slices that a person wrote: both count', () => {
    const folder = new Folder();
    const slice = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.9.9]}]
`;
    folder.set({ 'a.yaml': docs(SERVICE, slice, pod('web-1', '10.244.1.11')) });
    assert.deepEqual(folder.endpoints(), ['10.244.1.11:8080 ready', '10.244.9.9:8080 ready']);
  });

  test('more than a hundred are in several slices, and one change writes one of them', () => {
    const folder = new Folder();
    const pods = Array.from({ length: 250 }, (_, i) => pod(`web-${i}`, `10.244.${i % 5}.${Math.floor(i / 5) + 1}`));
    folder.set({ 'service.yaml': SERVICE, ...Object.fromEntries(pods.map((text, i) => [`${i}.yaml`, text])) });
    assert.equal(folder.endpoints().length, 250);
    assert.equal(folder.cache.slicesOf('default/web').length, 3);
    const before = folder.events.length;
    folder.remove('7.yaml');
    const slices = folder.events.slice(before).filter(({ kind }) => kind === 'slice');
    assert.equal(slices.length, 1);
    assert.equal(folder.endpoints().length, 249);
  });
});

describe('Endpoints in manifests', () => {
  const OUTSIDE = `apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {clusterIP: 10.96.0.30, ports: [{port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: outside}
subsets:
- addresses: [{ip: 192.168.4.100}, {ip: 192.168.4.254}]
  ports: [{port: 8081}]
`;

  test('of a Service without a selector are its endpoints: two objects are enough', () => {
    const folder = new Folder();
    folder.set({ 'outside.yaml': OUTSIDE });
    assert.deepEqual(folder.endpoints('default/outside'), ['192.168.4.100:8081 ready', '192.168.4.254:8081 ready']);
    folder.set({ 'outside.yaml': OUTSIDE.replace('{ip: 192.168.4.100}, ', '') });
    assert.deepEqual(folder.endpoints('default/outside'), ['192.168.4.254:8081 ready']);
  });

  test('of a Service with a selector count for nothing: its Pods do', () => {
    const folder = new Folder();
    folder.set({ 'outside.yaml': OUTSIDE.replace('spec: {', 'spec: {selector: {app: web}, ') });
    assert.deepEqual(folder.endpoints('default/outside'), []);
  });
});

test('a folder that is followed: Pods come and go', async (t) => {
  const path = await mkdtemp(join(tmpdir(), 'slicewire-pods-'));
  t.after(() => rm(path, { recursive: true }));
  const cache = new Cache();
  const abort = new AbortController();
  t.after(() => abort.abort());
  await writeFile(join(path, 'a.yaml'), docs(SERVICE, pod('web-1', '10.244.1.11')));
  const running = manifestsSource({ path, nodeName: 'node-a', clock: realClock, once: false }).run((event) => {
    // All that follows from the folder is there before it is complete (invariant 1).
    if (event.kind === 'synced') assert.equal(cache.slicesOf('default/web')[0]?.endpoints.length, 1);
    cache.take(event);
  }, abort.signal);
  const count = () => cache.slicesOf('default/web').flatMap(({ endpoints }) => endpoints).length;
  await until('the first', () => cache.isSynced && count() === 1);
  await writeFile(join(path, 'b.yaml'), pod('web-2', '10.244.1.12'));
  await until('the second', () => count() === 2);
  await rm(join(path, 'a.yaml'));
  await until('none without the Service but what it had', () => count() === 0);
  abort.abort();
  await running;
});
