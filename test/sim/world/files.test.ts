/** The simulated file system, read by the real source of manifests. */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import { realClock } from '../../../src/base/clock.ts';
import { FileUnreadable } from '../../../src/cluster/documents/files.ts';
import type { NodeReader } from '../../../src/cluster/source/manifests/node-guard.ts';
import { manifestsSource } from '../../../src/cluster/source/manifests/source.ts';
import type { Source, SourceEvent } from '../../../src/proxy/model/events.ts';
import { Random } from '../../helpers/base/random.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { Calls, type Fault, SimProcess } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import { SimFiles } from './files.ts';

const FOLDER = '/etc/manifests';

function web(name: string, clusterIP = '10.96.0.1'): string {
  return JSON.stringify(service({ name, spec: { clusterIP, ports: [{ port: 80 }] } }));
}

class FileWorld {
  readonly time: SimTime;
  readonly calls: Calls;
  readonly files: SimFiles;
  readonly process: SimProcess;
  readonly stop = new AbortController();
  readonly warnings: string[] = [];
  source: Source | undefined;
  /** The initial lists are complete. */
  isSynced = false;
  error: Error | undefined;
  readonly #services = new Map<string, string>();

  constructor(t: TestContext) {
    this.time = new SimTime(new Random(1).next);
    t.after(this.time.install());
    this.calls = new Calls(this.time);
    this.files = new SimFiles(this.time);
    this.process = new SimProcess('agent', 100, this.calls);
    this.files.makeFolder(FOLDER);
    this.files.write(`${FOLDER}/a.json`, web('a'));
    this.files.write(`${FOLDER}/b.json`, `${web('b')}\n---\n${web('c')}`);
  }

  /** Cluster IPs by key. */
  get services(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#services].sort());
  }

  async follow(node?: NodeReader): Promise<void> {
    const { documents, watch } = this.files.of(this.process);
    const warn = (text: string) => this.warnings.push(text);
    const source = manifestsSource({
      path: FOLDER,
      nodeName: 'node',
      clock: realClock,
      once: false,
      ...(node === undefined ? {} : { node }),
      documents,
      watchFolder: watch,
      warn,
    });
    this.source = source;
    const onError = (error: Error) => {
      this.error = error;
    };
    void this.process.run(() => source.run((event) => this.#take(event), this.stop.signal).catch(onError));
    await this.run(1000);
  }

  async run(milliseconds: number): Promise<void> {
    await this.time.runUntil(this.time.now + milliseconds);
  }

  fault(fault: Fault, what: RegExp): void {
    this.calls.faultAt = (_, name) => {
      if (!what.test(name)) return undefined;
      this.calls.faultAt = () => undefined;
      return fault;
    };
  }

  #take(event: SourceEvent): void {
    if (event.kind === 'synced') this.isSynced = true;
    if (event.kind !== 'service') return;
    if (event.service === undefined) this.#services.delete(event.key);
    else this.#services.set(event.key, event.service.clusterIPs.join());
  }
}

const BOTH = { 'default/a': '10.96.0.1', 'default/b': '10.96.0.1', 'default/c': '10.96.0.1' };

async function following(t: TestContext): Promise<FileWorld> {
  const world = new FileWorld(t);
  await world.follow();
  assert.deepEqual(world.services, BOTH);
  return world;
}

describe('manifests', () => {
  test('are followed by watches: written, replaced, removed', async (t) => {
    const world = await following(t);
    world.files.write(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
    world.files.replace(`${FOLDER}/b.json`, web('b', '10.96.0.8'));
    await world.run(1000);
    assert.deepEqual(world.services, { 'default/a': '10.96.0.9', 'default/b': '10.96.0.8' });
    world.files.remove(`${FOLDER}/a.json`);
    await world.run(1000);
    assert.deepEqual(world.services, { 'default/b': '10.96.0.8' });
  });

  test('that are half written lose nothing', async (t) => {
    const world = await following(t);
    world.files.writeSlowly(`${FOLDER}/b.json`, `${web('b', '10.96.0.8')}\n---\n${web('c')}`, 3000);
    await world.run(2000);
    assert.deepEqual(Object.keys(world.services), Object.keys(BOTH));
    await world.run(2000);
    assert.deepEqual(world.services, { ...BOTH, 'default/b': '10.96.0.8' });
  });

  test('stay while their folder is gone or cannot be read, and are read when it is back', async (t) => {
    const world = await following(t);
    world.files.removeFolder(FOLDER);
    await world.run(30_000);
    assert.deepEqual(world.services, BOTH);
    world.files.write(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
    world.files.fail(FOLDER, 'EIO');
    await world.run(30_000);
    assert.deepEqual(world.services, BOTH);
    world.files.fail(FOLDER, undefined);
    await world.run(30_000);
    assert.deepEqual(world.services, { 'default/a': '10.96.0.9' });
    assert.deepEqual(world.process.open, [`watch of ${FOLDER}`]);
  });

  test('on a mount that hangs stay', async (t) => {
    const world = await following(t);
    world.files.hang(FOLDER, true);
    world.files.write(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
    await world.run(60_000);
    assert.deepEqual(world.services, BOTH);
    world.files.hang(FOLDER, false);
    await world.run(30_000);
    assert.equal(world.services['default/a'], '10.96.0.9');
  });

  test('that cannot be read at the start are waited for, because the kernel may have what they define', async (t) => {
    const world = new FileWorld(t);
    world.files.fail(`${FOLDER}/b.json`, 'EIO');
    await world.follow();
    assert.deepEqual(Object.keys(world.services), ['default/a']);
    await world.run(10_000);
    assert.equal(world.isSynced, false);
    const failure = () => world.source?.watches?.()[0]?.failure;
    assert.match(failure()?.cause ?? '', /^\/etc\/manifests\/b\.json cannot be read: EIO: /);
    world.files.write(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
    world.files.fail(`${FOLDER}/b.json`, undefined);
    await world.run(2000);
    assert.equal(world.isSynced, true);
    assert.deepEqual(world.services, { ...BOTH, 'default/a': '10.96.0.9' });
    assert.equal(failure(), undefined);
    assert.match(world.warnings.join('\n'), /^--manifests .*: rules stay as they are for up to 20 s, .*: \S+b\.json$/);
  });

  test('that cannot be read for long, or at all, hold nothing up', async (t) => {
    const world = new FileWorld(t);
    world.files.write(`${FOLDER}/b.json`, 'what is this');
    await world.follow();
    assert.equal(world.isSynced, true, 'a file that cannot be parsed');
    const other = new FileWorld(t);
    other.files.hang(`${FOLDER}/b.json`, true);
    await other.follow();
    await other.run(20_000);
    assert.equal(other.isSynced, false);
    await other.run(10_000);
    assert.equal(other.isSynced, true);
    assert.deepEqual(Object.keys(other.services), ['default/a']);
    assert.match(other.warnings.at(-1) ?? '', /: going on without these files, .*: \S+b\.json$/);
  });

  test('that are read late at the start are judged, or the agent ends and is started again', async (t) => {
    for (const isBroken of [false, true]) {
      const world = new FileWorld(t);
      let reads = 0;
      const addresses = () =>
        ++reads > 1 && isBroken ? Promise.reject(new Error('ENOMEM: not enough memory')) : Promise.resolve([]);
      world.files.fail(`${FOLDER}/b.json`, 'EIO');
      await world.follow({ addresses, listeners: () => Promise.resolve([]) });
      world.files.fail(`${FOLDER}/b.json`, undefined);
      await world.run(5000);
      assert.equal(world.isSynced, !isBroken);
      if (isBroken) assert.match(world.error?.message ?? '', /^this node: .* cannot be read: ENOMEM/);
      else assert.deepEqual(world.services, BOTH);
    }
  });

  test('do not keep the agent from stopping while it waits for them', async (t) => {
    const world = new FileWorld(t);
    world.files.fail(`${FOLDER}/b.json`, 'EIO');
    await world.follow();
    world.stop.abort();
    await world.run(60_000);
    assert.equal(world.isSynced, false);
    assert.deepEqual(world.process.open, []);
  });

  test('are read again and again where the kernel has no room for a watch', async (t) => {
    const world = new FileWorld(t);
    world.files.canWatch(false);
    await world.follow();
    assert.match(world.warnings.join(), /--manifests \/etc\/manifests: /);
    world.files.write(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
    await world.run(11_000);
    assert.equal(world.services['default/a'], '10.96.0.9');
  });

  for (const fault of [
    ...[0, 1, 2].map((variant) => ({ kind: 'fails', when: 'before', variant }) as const),
    { kind: 'fails', when: 'after', variant: 0 },
    { kind: 'slow', milliseconds: 20_000 },
    { kind: 'cut', variant: 0 },
  ] satisfies Fault[]) {
    for (const what of [/^read/, /^list/, /^watch/]) {
      test(`come through ${JSON.stringify(fault)} at ${what.source}`, async (t) => {
        const world = await following(t);
        if (what.source === '^watch') world.files.removeFolder(FOLDER);
        world.fault(fault, what);
        world.files.replace(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
        world.files.replace(`${FOLDER}/b.json`, web('b'));
        await world.run(60_000);
        assert.deepEqual(world.services, { 'default/a': '10.96.0.9', 'default/b': '10.96.0.1' });
        assert.deepEqual(world.process.open, [`watch of ${FOLDER}`]);
      });
    }
  }

  test('are forgotten with their process', async (t) => {
    const world = await following(t);
    world.process.kill();
    world.files.write(`${FOLDER}/a.json`, web('a', '10.96.0.9'));
    await world.run(60_000);
    assert.deepEqual([world.services, world.process.open], [BOTH, []]);
  });
});

test('one file: its values, or why it cannot be read', async (t) => {
  const { files, process } = new FileWorld(t);
  const { readOne } = files.of(process);
  files.write('/etc/slicewire.yaml', 'mode: nftables\nmode: ipvs\n');
  const { values } = await readOne('/etc/slicewire.yaml');
  assert.deepEqual(values[0]?.value, { mode: 'ipvs' });
  await assert.rejects(readOne('/etc/none.yaml'), (error) => {
    assert.ok(error instanceof FileUnreadable);
    assert.equal(error.message, 'there is no such file or folder');
    return true;
  });
});
