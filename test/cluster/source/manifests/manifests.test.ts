/** Manifests in a file or folder, and what becomes of them as they change. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import test, { describe, type TestContext } from 'node:test';
import { type Clock, realClock } from '../../../../src/base/clock.ts';
import { DocumentFiles } from '../../../../src/cluster/documents/files.ts';
import { ManifestStore } from '../../../../src/cluster/source/manifests/manifest-store.ts';
import { ManifestsUnusable, manifestsSource } from '../../../../src/cluster/source/manifests/source.ts';
import type { SourceEvent } from '../../../../src/proxy/model/events.ts';
import { type Fault, faultText } from '../../../../src/proxy/model/objects.ts';
import { until } from '../../../helpers/base/until.ts';
import { readDocuments, setText } from '../../../helpers/cluster/documents/documents.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { MANIFESTS } from '../../../messages/manifests.ts';
import { problemIn } from '../../../messages/row.ts';

const STAYS = problemIn(MANIFESTS, 'file web.yaml', 'cannot be read: permission denied;');
const TWICE = problemIn(MANIFESTS, 'file web.yaml: object 2: Service default/web');
const KIND = problemIn(MANIFESTS, 'file web.yaml: object 1: kind', 'must');
const NO_NAME = problemIn(MANIFESTS, 'file web.yaml: object 1: metadata.name', 'is missing');
const NAME = problemIn(MANIFESTS, 'file web.yaml: object 1: metadata.name: Web_1');

/** Kinds that are reported to be complete. */
const KINDS = ['services', 'slices', 'nodes', 'servicecidrs'];

function web(name = 'web', clusterIP = '10.96.0.1'): object {
  return service({ name, spec: { clusterIP, ports: [{ port: 80 }] } });
}

function yaml(name: string, clusterIP = '10.96.0.1'): string {
  return `apiVersion: v1
kind: Service
metadata:
  name: ${name}
spec:
  clusterIP: ${clusterIP}
  ports:
  - port: 80
`;
}

const BROKEN = 'kind: Service\nmetadata:\n  name: [\n';

/** What events amount to: the objects that are there and the faults that stand. */
class View {
  readonly events: SourceEvent[] = [];
  readonly emit = (event: SourceEvent): void => {
    this.events.push(event);
  };

  /** Cluster IPs of Services, families of slices, names of Nodes, by `kind key`. */
  get objects(): Record<string, string> {
    const found = new Map<string, string | undefined>();
    for (const event of this.events) {
      if (event.kind === 'service') found.set(`service ${event.key}`, event.service?.clusterIPs.join());
      else if (event.kind === 'slice') found.set(`slice ${event.key}`, event.slice?.family);
      else if (event.kind === 'node') found.set(`node ${event.key}`, event.node?.name);
    }
    return Object.fromEntries([...found].filter(([, value]) => value !== undefined).sort()) as Record<string, string>;
  }

  get faults(): string[] {
    const standing = new Map<string, readonly Fault[]>();
    for (const event of this.events) {
      if (event.kind !== 'synced' && event.kind !== 'reached') standing.set(`${event.kind} ${event.key}`, event.faults);
    }
    return [...standing.values()].flat().map(faultText);
  }

  get synced(): string[] {
    return this.events.flatMap((event) => (event.kind === 'synced' ? [event.of] : []));
  }
}

describe('documents', () => {
  test('several of one file, and empty ones between', () => {
    const text = `---\n${yaml('a')}---\n---\n\n---\n${yaml('b')}---\n`;
    const { objects, faults } = readDocuments(text, 'f.yaml');
    assert.deepEqual(faults, []);
    assert.deepEqual(
      objects.map((object) => (object as { metadata: { name: string } }).metadata.name),
      ['a', 'b'],
    );
  });

  test('with the line ends of Windows, and a byte order mark', () => {
    const text = `\ufeff${yaml('a')}---\n${yaml('b')}`.replaceAll('\n', '\r\n');
    const { objects, faults } = readDocuments(text, 'f.yaml');
    assert.deepEqual([objects.length, faults], [2, []]);
  });

  test('JSON, also with a byte order mark', () => {
    for (const mark of ['', '\ufeff']) {
      const { objects, faults } = readDocuments(`${mark}${JSON.stringify(web(), undefined, 2)}\n`, 'f.json');
      assert.deepEqual([objects, faults], [[web()], []]);
    }
  });

  test('JSON and YAML in one file, and YAML in flow style', () => {
    const { objects, faults } = readDocuments(
      `${JSON.stringify(web('a'))}\n---\n{kind: Service}\n---\n${yaml('b')}`,
      'f',
    );
    assert.deepEqual([objects.length, faults], [3, []]);
  });

  test('one that is empty, or has only comments, says nothing', () => {
    for (const text of ['', '\n\n', '---\n', '---\n---\n', '# nothing\n', `# nothing\n---\n${yaml('a')}`]) {
      const { objects, faults } = readDocuments(text, 'f.yaml');
      assert.deepEqual([objects.length, faults], [text.includes('kind') ? 1 : 0, []]);
    }
  });

  test('a marker with a comment or content behind it', () => {
    const { objects, faults } = readDocuments('--- # first\nkind: A\n--- {kind: B}\n', 'f.yaml');
    assert.deepEqual([objects, faults], [[{ kind: 'A' }, { kind: 'B' }], []]);
  });

  test('three hyphens within a text do not end it', () => {
    const { objects, faults } = readDocuments('kind: A\ntext: |\n  ---\n  more\nrest: a---b\n', 'f.yaml');
    assert.deepEqual([objects, faults], [[{ kind: 'A', text: '---\nmore\n', rest: 'a---b' }], []]);
  });

  test('lists are taken apart: List, and ServiceList whose items carry no kind', () => {
    const list = {
      apiVersion: 'v1',
      kind: 'List',
      items: [web('a'), slice({ name: 's', service: 'a', endpoints: [] })],
    };
    const { kind: _, apiVersion: __, ...bare } = web('b') as Record<string, unknown>;
    const services = { apiVersion: 'v1', kind: 'ServiceList', items: [bare, web('c')] };
    const { objects, faults } = readDocuments(`${JSON.stringify(list)}\n---\n${JSON.stringify(services)}`, 'f');
    assert.deepEqual(faults, []);
    assert.deepEqual(
      objects.map((object) => (object as { kind: string }).kind),
      ['Service', 'EndpointSlice', 'Service', 'Service'],
    );
  });

  test('a time that is not quoted stays text', () => {
    const { objects } = readDocuments('metadata:\n  creationTimestamp: 2026-11-21T00:28:06Z\n', 'f.yaml');
    assert.deepEqual(objects, [{ metadata: { creationTimestamp: '2026-11-21T00:28:06Z' } }]);
  });

  for (const [what, text, line] of [
    ['first', `${BROKEN}---\n${yaml('good')}`, 4],
    ['last', `${yaml('good')}---\n${BROKEN}`, 13],
    ['after an empty one', `---\n\n---\n${BROKEN}---\n${yaml('good')}`, 7],
  ] as const) {
    test(`one that is broken, ${what}: its line is named and the rest is read`, () => {
      const { objects, faults } = readDocuments(text, 'f.yaml');
      assert.equal(objects.length, 1);
      assert.equal(faults.length, 1);
      assert.match(
        faultText(faults[0] as Fault),
        /^file f\.yaml: line \d+, column \d+: {1,2}not valid YAML or JSON: .+\(object set aside\)$/,
      );
      assert.match(faults[0]?.field ?? '', new RegExp(`^line ${line}, column \\d+$`));
    });
  }

  test('a line in the middle of a document is named', () => {
    const { faults } = readDocuments(`${yaml('good')}---\nkind: Service\nspec:\n  a: 1\n  a: 2\n`, 'f.yaml');
    assert.match(faults[0]?.problem ?? '', /the key "a" appears twice in one mapping/);
    assert.equal(faults[0]?.field, 'line 13, column 3');
  });

  test('broken JSON names its line', () => {
    const { faults } = readDocuments(
      '{\n  "kind": "Service",\n  "metadata": {"name": "a"\n  "spec": {}\n}\n',
      'f.json',
    );
    assert.equal(faults.length, 1);
    assert.match(faults[0]?.field ?? '', /^line [345], column \d+$/);
  });

  for (const text of ['just text', '7', '- kind: Service\n', '[]', 'true']) {
    test(`one that is no object (${JSON.stringify(text)}) is set aside`, () => {
      const { objects, faults } = readDocuments(`${yaml('a')}---\n${text}`, 'f.yaml');
      assert.equal(objects.length, 1);
      assert.deepEqual(
        faults.map(({ field, problem }) => [field, problem]),
        [['line 9, column 1', 'a document must be a Kubernetes object']],
      );
    });
  }
});

describe('files', () => {
  function store(): { view: View; files: ManifestStore } {
    const view = new View();
    return { view, files: new ManifestStore('node-a', view.emit) };
  }

  test('define Services, slices and the own Node; other kinds are ignored', () => {
    const { view, files } = store();
    const more = [
      slice({ name: 's', service: 'web', endpoints: ['fd00::1'] }),
      { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } },
      { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-b' } },
      { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' } },
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'X' } },
    ];
    setText(files, 'f', [web(), ...more].map((object) => JSON.stringify(object)).join('\n---\n'));
    assert.deepEqual(view.objects, {
      'node node-a': 'node-a',
      'service default/web': '10.96.0.1',
      'slice default/s': 'IPv6',
    });
    assert.deepEqual(view.faults, []);
  });

  test('with a broken document keep what it defined before, and follow the rest', () => {
    const { view, files } = store();
    setText(files, 'f', `${yaml('a')}---\n${yaml('b')}`);
    setText(files, 'f', `${yaml('a', '10.96.0.9')}---\n${BROKEN}`);
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.9', 'service default/b': '10.96.0.1' });
    assert.equal(view.faults.length, 1);
    setText(files, 'f', yaml('a'));
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.1' });
    assert.deepEqual(view.faults, []);
  });

  test('that cannot be read keep their objects, and the reason is reported until they can be read', () => {
    const { view, files } = store();
    setText(files, 'f', yaml('a'));
    files.unreadable('g', 'permission denied');
    assert.deepEqual(view.faults, [
      `file g: ${problemIn(MANIFESTS, 'file web.yaml', 'cannot be read: permission denied (')} (file set aside)`,
    ]);
    files.remove('g');
    files.unreadable('f', 'permission denied');
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.1' });
    assert.deepEqual(view.faults, [`file f: ${STAYS} (file set aside)`]);
    setText(files, 'f', yaml('a'));
    assert.deepEqual(view.faults, []);
  });

  test('that are gone take with them what they defined, and their faults', () => {
    const { view, files } = store();
    setText(files, 'f', `${yaml('a')}---\n${BROKEN}`);
    setText(files, 'g', yaml('b'));
    files.remove('f');
    assert.deepEqual([view.objects, view.faults, files.files], [{ 'service default/b': '10.96.0.1' }, [], ['g']]);
  });

  test('with one object in two: the first by name counts, whichever was read first, and the other is reported', () => {
    for (const order of [
      ['a.yaml', 'b.yaml'],
      ['b.yaml', 'a.yaml'],
    ]) {
      const { view, files } = store();
      for (const file of order) setText(files, file, yaml('web', file === 'a.yaml' ? '10.96.0.1' : '10.96.0.2'));
      assert.deepEqual(view.objects, { 'service default/web': '10.96.0.1' });
      assert.deepEqual(view.faults, [
        'Service default/web: b.yaml: defines it again; the definition in a.yaml is used (part left out)',
      ]);
    }
  });

  test('with one object in two: when the first goes or drops it, the other counts', () => {
    const { view, files } = store();
    setText(files, 'a', yaml('web', '10.96.0.1'));
    setText(files, 'b', yaml('web', '10.96.0.2'));
    files.remove('a');
    assert.deepEqual([view.objects, view.faults], [{ 'service default/web': '10.96.0.2' }, []]);
    setText(files, 'a', yaml('web', '10.96.0.3'));
    assert.deepEqual(view.objects, { 'service default/web': '10.96.0.3' });
    setText(files, 'a', '');
    assert.deepEqual([view.objects, view.faults], [{ 'service default/web': '10.96.0.2' }, []]);
    setText(files, 'b', '');
    assert.deepEqual(view.objects, {});
  });

  test('with an object twice: the first counts', () => {
    const { view, files } = store();
    setText(files, 'f', `${yaml('web')}---\n${yaml('web', '10.96.0.2')}`);
    assert.deepEqual(view.objects, { 'service default/web': '10.96.0.1' });
    assert.deepEqual(view.faults, [`file f: object 2: Service default/web: ${TWICE} (object set aside)`]);
  });

  for (const [object, text] of [
    [{ apiVersion: 'v1', metadata: { name: 'x' } }, `object 2: kind: ${KIND}`],
    [{ ...web('x'), apiVersion: 'v2' }, 'object 2: apiVersion: v2: must be v1 for a Service'],
    [
      { apiVersion: 'discovery.k8s.io/v1beta1', kind: 'EndpointSlice', metadata: { name: 'x' } },
      'object 2: apiVersion: discovery.k8s.io/v1beta1: must be discovery.k8s.io/v1 for an EndpointSlice',
    ],
    [{ ...web(), metadata: {} }, `object 2: metadata.name: ${NO_NAME}`],
    [{ ...web(), metadata: { name: 'a\nb' } }, `object 2: metadata.name: a?b: ${NAME}`],
    [{ ...web(), metadata: { name: '$(x)' } }, `object 2: metadata.name: $(x): ${NAME}`],
  ] as [object, string][]) {
    test(`with an object that has the fault ${text}`, () => {
      const { view, files } = store();
      setText(files, 'f', JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [web(), object, web('c')] }));
      assert.deepEqual(view.faults, [`file f: ${text} (object set aside)`]);
      assert.deepEqual(Object.keys(view.objects), ['service default/c', 'service default/web']);
    });
  }

  for (const item of [null, 7, 'text', []]) {
    test(`with the item ${JSON.stringify(item)} in a list have a fault, and the rest is there`, () => {
      const { view, files } = store();
      setText(files, 'f', JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [item, web()] }));
      assert.deepEqual(Object.keys(view.objects), ['service default/web']);
      assert.equal(view.faults.length, 1);
    });
  }

  for (const kind of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
    test(`with the kind ${kind}, which every object of JavaScript has, are read like any other`, () => {
      const { view, files } = store();
      setText(files, 'f', `kind: ${kind}\nmetadata:\n  name: x\n---\n${yaml('web')}`);
      assert.deepEqual([view.objects, view.faults], [{ 'service default/web': '10.96.0.1' }, []]);
    });
  }

  test('with an alias that leads back to itself have a fault', () => {
    const { view, files } = store();
    const loop = 'apiVersion: v1\nkind: Service\nmetadata:\n  name: loop\nspec:\n  ports: &p\n    again: *p\n';
    setText(files, 'f', `${loop}---\n${yaml('web')}`);
    assert.deepEqual(view.objects, { 'service default/web': '10.96.0.1' });
    assert.match(
      view.faults.join(),
      /line 7, column 12: not valid YAML or JSON: the alias \*p has no anchor &p before it/,
    );
  });

  test('whose names have line ends are reported on one line', () => {
    const { view, files } = store();
    setText(files, 'a\nb.yaml', BROKEN);
    assert.doesNotMatch(view.faults[0] ?? '\n', /\n/);
  });
});

/** Time that runs twenty times as fast: the look at the whole folder comes twice a second. */
const FAST: Clock = { ...realClock, after: (milliseconds, call) => realClock.after(milliseconds / 20, call) };

async function temporary(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'manifests-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

interface FollowOptions {
  readonly once?: boolean;
  readonly clock?: Clock;
}

/** Run the source over a path until the test is over. Resolves when it has said that it is complete. */
async function follow(t: TestContext, path: string, options: FollowOptions = {}): Promise<View> {
  const { once = false, clock = realClock } = options;
  const view = new View();
  const abort = new AbortController();
  const ended = manifestsSource({ path, nodeName: 'node-a', clock, once }).run(view.emit, abort.signal);
  t.after(async () => {
    abort.abort();
    await ended;
  });
  await until('synced', () => view.synced.length === KINDS.length);
  return view;
}

function shows(view: View, wanted: Record<string, string>): Promise<void> {
  return until(JSON.stringify(wanted), () => JSON.stringify(view.objects) === JSON.stringify(wanted));
}

describe('a folder', () => {
  test('is read as kubectl reads it, and each kind is complete once, after all of it', async (t) => {
    const folder = await temporary(t);
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    await writeFile(join(folder, 'b.yml'), yaml('b'));
    await writeFile(join(folder, 'c.json'), JSON.stringify(web('c')));
    await writeFile(join(folder, 'd.txt'), yaml('d'));
    await writeFile(join(folder, 'e.yaml.swp'), yaml('e'));
    await mkdir(join(folder, 'inner'));
    await writeFile(join(folder, 'inner', 'f.yaml'), yaml('f'));
    const view = await follow(t, folder);
    assert.deepEqual(Object.keys(view.objects), ['service default/a', 'service default/b', 'service default/c']);
    assert.deepEqual(view.synced, KINDS);
    assert.ok(view.events.slice(-KINDS.length).every(({ kind }) => kind === 'synced'));
    assert.deepEqual(view.faults, []);
  });

  test('keeps a Service that an edit broke, and what a file held that is empty now', async (t) => {
    const folder = await temporary(t);
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    const view = await follow(t, folder);
    await writeFile(join(folder, 'a.yaml'), yaml('a').replace('port: 80', 'port: 70000'));
    await until('the fault is reported', () => view.faults.some((fault) => fault.includes('70000')));
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.1' });
    await writeFile(join(folder, 'a.yaml'), '');
    await until('the empty file is reported', () => view.faults.some((fault) => fault.includes('holds no object')));
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.1' });
    await rm(join(folder, 'a.yaml'));
    await shows(view, {});
  });

  for (const label of ['service-proxy-name', 'headless']) {
    const labels = `labels: {service.kubernetes.io/${label}: ""}`;
    const labelled = (text: string) => text.replace('metadata:', `metadata:\n  ${labels}`);

    test(`drops a Service that gets the label ${label}, and has it again without`, async (t) => {
      const folder = await temporary(t);
      // A fault that the producers report of a port does not break the Service for the proxy.
      const text = `${yaml('a')}    targetPort: "No Name"\n`;
      await writeFile(join(folder, 'a.yaml'), text);
      await writeFile(join(folder, 'b.yaml'), yaml('b', '10.96.0.2'));
      const view = await follow(t, folder);
      await shows(view, { 'service default/a': '10.96.0.1', 'service default/b': '10.96.0.2' });
      await writeFile(join(folder, 'a.yaml'), labelled(text));
      await writeFile(join(folder, 'b.yaml'), labelled(yaml('b', '10.96.0.2')));
      await shows(view, {});
      await writeFile(join(folder, 'b.yaml'), yaml('b', '10.96.0.2'));
      await shows(view, { 'service default/b': '10.96.0.2' });
    });
  }

  test('that is empty is complete', async (t) => {
    const view = await follow(t, await temporary(t));
    assert.deepEqual([view.objects, view.faults], [{}, []]);
  });

  test('is read once when that is asked for', async (t) => {
    const folder = await temporary(t);
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    const view = new View();
    const source = manifestsSource({ path: folder, nodeName: 'node-a', clock: realClock, once: true });
    await source.run(view.emit, new AbortController().signal);
    assert.deepEqual([Object.keys(view.objects), view.synced.length], [['service default/a'], KINDS.length]);
  });

  test('is followed: a new file, a change, a rename over, a removal', async (t) => {
    const folder = await temporary(t);
    const file = (name: string) => join(folder, name);
    await writeFile(file('a.yaml'), yaml('a'));
    const view = await follow(t, folder);
    await writeFile(file('b.yaml'), yaml('b'));
    await shows(view, { 'service default/a': '10.96.0.1', 'service default/b': '10.96.0.1' });
    await writeFile(file('b.yaml'), yaml('b', '10.96.0.2'));
    await shows(view, { 'service default/a': '10.96.0.1', 'service default/b': '10.96.0.2' });
    await writeFile(file('b.yaml.new'), yaml('b', '10.96.0.3'));
    await rename(file('b.yaml.new'), file('b.yaml'));
    await shows(view, { 'service default/a': '10.96.0.1', 'service default/b': '10.96.0.3' });
    await rename(file('a.yaml'), file('c.yaml'));
    await writeFile(file('c.yaml'), yaml('c'));
    await shows(view, { 'service default/b': '10.96.0.3', 'service default/c': '10.96.0.1' });
    await rm(file('b.yaml'));
    await shows(view, { 'service default/c': '10.96.0.1' });
    assert.equal(view.synced.length, KINDS.length);
    assert.deepEqual(view.faults, []);
  });

  test('whose path is relative, or ends in a slash, is followed as well', async (t) => {
    const folder = await temporary(t);
    for (const [i, path] of [`${folder}/`, `${folder}//.`, relative(process.cwd(), folder)].entries()) {
      const view = await follow(t, path);
      await writeFile(join(folder, 'a.yaml'), yaml('a', `10.96.1.${i}`));
      await shows(view, { 'service default/a': `10.96.1.${i}` });
    }
  });

  test('with a file that breaks keeps its objects until it is whole again', async (t) => {
    const folder = await temporary(t);
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    const view = await follow(t, folder);
    await writeFile(join(folder, 'a.yaml'), BROKEN);
    await until('the fault', () => view.faults.length === 1);
    assert.match(view.faults[0] ?? '', /a\.yaml: line 4, column 1: {1,2}not valid YAML or JSON/);
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.1' });
    await writeFile(join(folder, 'a.yaml'), yaml('a', '10.96.0.2'));
    await shows(view, { 'service default/a': '10.96.0.2' });
    assert.deepEqual(view.faults, []);
  });

  test('with a file of which a part is broken has the rest', async (t) => {
    const folder = await temporary(t);
    await writeFile(join(folder, 'a.yaml'), `${yaml('a')}---\n${BROKEN}---\n${yaml('b')}`);
    const view = await follow(t, folder);
    assert.deepEqual(Object.keys(view.objects), ['service default/a', 'service default/b']);
    assert.equal(view.faults.length, 1);
  });

  test('with a folder that is called like a manifest has a fault, and the rest is there', async (t) => {
    const folder = await temporary(t);
    await mkdir(join(folder, 'a.yaml'));
    await writeFile(join(folder, 'b.yaml'), yaml('b'));
    const view = await follow(t, folder);
    assert.deepEqual(Object.keys(view.objects), ['service default/b']);
    assert.equal(view.faults.length, 1);
    assert.match(view.faults[0] ?? '', /a\.yaml: cannot be read: /);
  });

  test('that goes away keeps its objects, says so, and is followed again when it is back', async (t) => {
    const parent = await temporary(t);
    const folder = join(parent, 'manifests');
    await mkdir(folder);
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    await writeFile(join(folder, 'b.yaml'), yaml('b'));
    const view = await follow(t, folder, { clock: FAST });
    await rename(folder, join(parent, 'away'));
    await until('the fault', () => view.faults.length > 0);
    assert.match(view.faults[0] ?? '', /manifests: cannot be read: there is no such file or folder/);
    assert.deepEqual(Object.keys(view.objects), ['service default/a', 'service default/b']);
    // Another folder of the same name, put in place at once: the first one's watch does not see it.
    await mkdir(join(parent, 'next'));
    await writeFile(join(parent, 'next', 'a.yaml'), yaml('a'));
    await writeFile(join(parent, 'next', 'c.yaml'), yaml('c'));
    await rename(join(parent, 'next'), folder);
    await shows(view, { 'service default/a': '10.96.0.1', 'service default/c': '10.96.0.1' });
    assert.deepEqual(view.faults, []);
    await writeFile(join(folder, 'c.yaml'), yaml('c', '10.96.0.2'));
    await shows(view, { 'service default/a': '10.96.0.1', 'service default/c': '10.96.0.2' });
  });

  test('whose files lie behind a link that is replaced, as in a mounted ConfigMap, is followed', async (t) => {
    const folder = await temporary(t);
    for (const [version, address] of [
      ['v1', '10.96.0.1'],
      ['v2', '10.96.0.2'],
    ] as const) {
      await mkdir(join(folder, version));
      await writeFile(join(folder, version, 'a.yaml'), yaml('a', address));
    }
    await symlink('v1', join(folder, '..data'));
    await symlink('..data/a.yaml', join(folder, 'a.yaml'));
    const view = await follow(t, folder, { clock: FAST });
    assert.deepEqual(view.objects, { 'service default/a': '10.96.0.1' });
    await symlink('v2', join(folder, '..next'));
    await rename(join(folder, '..next'), join(folder, '..data'));
    await shows(view, { 'service default/a': '10.96.0.2' });
  });

  test('is reported once: unchanged files are not read again', async (t) => {
    const folder = await temporary(t);
    for (const name of ['a', 'b', 'c']) await writeFile(join(folder, `${name}.yaml`), yaml(name));
    const view = await follow(t, folder);
    const before = view.events.length;
    await writeFile(join(folder, 'b.yaml'), yaml('b', '10.96.0.2'));
    await until('the change', () => view.objects['service default/b'] === '10.96.0.2');
    const keys = view.events.slice(before).flatMap((event) => (event.kind === 'service' ? [event.key] : []));
    assert.deepEqual([...new Set(keys)], ['default/b']);
  });
});

describe('a file', () => {
  test('of any name is read and followed, its neighbours are not', async (t) => {
    const folder = await temporary(t);
    const file = join(folder, 'services');
    await writeFile(file, yaml('a'));
    await writeFile(join(folder, 'other.yaml'), yaml('other'));
    const view = await follow(t, file);
    await writeFile(join(folder, 'new.yaml'), yaml('new'));
    await writeFile(`${file}.tmp`, yaml('a', '10.96.0.2'));
    await rename(`${file}.tmp`, file);
    await shows(view, { 'service default/a': '10.96.0.2' });
  });

  test('that goes away and comes back is followed', async (t) => {
    const file = join(await temporary(t), 'services.yaml');
    await writeFile(file, yaml('a'));
    const view = await follow(t, file);
    await rm(file);
    await until('something is reported', () => view.events.at(-1)?.kind !== 'synced');
    await writeFile(file, yaml('a', '10.96.0.2'));
    await shows(view, { 'service default/a': '10.96.0.2' });
    assert.deepEqual(view.faults, []);
  });
});

describe('a path that cannot be used', () => {
  test('is said at the start', async () => {
    const source = manifestsSource({ path: '/nowhere/manifests', nodeName: 'n', clock: realClock, once: false });
    await assert.rejects(
      source.run(() => undefined, new AbortController().signal),
      (error: unknown) => {
        assert.ok(error instanceof ManifestsUnusable);
        assert.equal(error.code, 'MANIFESTS_UNUSABLE');
        assert.equal(error.message, '--manifests /nowhere/manifests: there is no such file or folder');
        return true;
      },
    );
  });

  test('that cannot be listed is not taken for an empty folder (invariants 1 and 2)', async (t) => {
    const folder = await temporary(t);
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    // Permissions do not stop root, so the refusal is put in place of the look.
    const documents = new DocumentFiles();
    let refusals = 0;
    t.mock.method(documents, 'list', () => {
      refusals++;
      return Promise.resolve({ kind: 'unreadable', cause: 'permission denied' });
    });
    const view = new View();
    const abort = new AbortController();
    const source = manifestsSource({ path: folder, nodeName: 'n', clock: FAST, once: false, documents });
    const ended = source.run(view.emit, abort.signal).catch((error: unknown) => error);
    await until('a refusal', () => refusals > 0);
    await new Promise(setImmediate);
    abort.abort();
    const result = await ended;
    assert.deepEqual(view.synced, []);
    assert.match(result instanceof Error ? result.message : view.faults.join(), /permission denied/);
  });
});
