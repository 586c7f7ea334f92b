/** A folder of manifests where the kernel, a mount or a link is in the way: the rest goes on. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { watchConfigFile } from '../../../../src/agent/config-follower.ts';
import { type Clock, realClock } from '../../../../src/base/clock.ts';
import { DocumentFiles, readOneFile, THREAD_TIMEOUTS_MS } from '../../../../src/cluster/documents/files.ts';
import type { ManifestsOptions } from '../../../../src/cluster/source/manifests/source.ts';
import { manifestsSource } from '../../../../src/cluster/source/manifests/source.ts';
import type { Source, SourceEvent } from '../../../../src/proxy/model/events.ts';
import { faultText } from '../../../../src/proxy/model/objects.ts';
import { Health } from '../../../../src/serve/health.ts';
import { until } from '../../../helpers/base/until.ts';
import { deadMount, noDeadMount } from '../../../helpers/cluster/source/dead-mount.ts';

/** Waits are a fiftieth. */
const FAST: Clock = { ...realClock, after: (milliseconds, call) => realClock.after(milliseconds / 50, call) };

function yaml(name: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n`;
}

class Seen {
  readonly services = new Set<string>();
  readonly faults = new Map<string, string>();
  readonly warnings: string[] = [];
  isSynced = false;
  readonly take = (event: SourceEvent): void => {
    if (event.kind === 'synced') this.isSynced = true;
    else if (event.kind !== 'reached') this.faults.set(event.key, event.faults.map(faultText).join());
    if (event.kind === 'service' && event.service !== undefined) this.services.add(event.key);
  };
}

/** `before`: done before it is removed, which would wait for a dead mount in it for ever. */
async function temporary(t: TestContext, before: (folder: string) => Promise<void> = async () => {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'trouble-'));
  t.after(async () => {
    await before(folder);
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
}

async function follow(
  t: TestContext,
  path: string,
  more: Partial<ManifestsOptions> = {},
): Promise<Seen & { source: Source }> {
  const seen = new Seen();
  const abort = new AbortController();
  const warn = (text: string) => seen.warnings.push(text);
  const source = manifestsSource({ path, nodeName: 'n', clock: FAST, once: false, warn, ...more });
  const ended = source.run(seen.take, abort.signal);
  t.after(async () => {
    abort.abort();
    await ended;
  });
  await until('synced', () => seen.isSynced, 20_000);
  return Object.assign(seen, { source });
}

/** The kernel refuses every watch. */
function refuseWatches(t: TestContext, code: string): void {
  const mock = t.mock.method(fs, 'watch', () => {
    throw Object.assign(new Error(`${code}: refused`), { code });
  });
  syncBuiltinESMExports();
  t.after(() => {
    mock.mock.restore();
    syncBuiltinESMExports();
  });
}

describe('a folder that the kernel cannot watch', () => {
  for (const [code, says] of [
    ['EMFILE', /all inotify instances of this user are in use; raise fs\.inotify\.max_user_instances/],
    ['ENOSPC', /all inotify watches of this user are in use; raise fs\.inotify\.max_user_watches/],
    ['ENOENT', /ENOENT: refused/],
  ] as const) {
    it(`(${code}) is read now and then, and a warning is logged once`, async (t) => {
      const folder = await temporary(t);
      refuseWatches(t, code);
      const seen = await follow(t, folder);
      await writeFile(join(folder, 'a.yaml'), yaml('a'));
      await until('the Service', () => seen.services.has('default/a'), 20_000);
      assert.equal(seen.warnings.length, 1);
      assert.match(seen.warnings[0] ?? '', says);
      assert.match(seen.warnings[0] ?? '', /Until it does, changes are noticed within 10 s$/);
    });
  }

  it('is said of the file that --config names, too', async (t) => {
    const file = join(await temporary(t), 'config');
    await writeFile(file, 'kind: A\n');
    refuseWatches(t, 'EMFILE');
    const warnings: string[] = [];
    const abort = new AbortController();
    let changes = 0;
    let digest: string | undefined;
    const onChange = async () => {
      ({ digest } = await readOneFile(file));
      changes += 1;
    };
    const warn = (text: string) => warnings.push(text);
    const watching = watchConfigFile(file, { clock: FAST, signal: abort.signal, read: () => digest, onChange, warn });
    await until('the first look', () => changes === 1, 20_000);
    await writeFile(file, 'kind: B\n');
    await until('the change', () => changes === 2, 20_000);
    abort.abort();
    await watching;
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', /^--config .*: the kernel does not report changes: all inotify instances/);
  });
});

describe('a file that --config names', () => {
  it('whose change cannot be read by the agent is a change at the next check, too', async (t) => {
    const file = join(await temporary(t), 'config');
    await writeFile(file, 'kind: A\n');
    const abort = new AbortController();
    let tries = 0;
    let digest: string | undefined;
    const onChange = async () => {
      tries += 1;
      if (tries === 2) ({ digest } = await readOneFile(file));
    };
    const warn = () => undefined;
    const watching = watchConfigFile(file, { clock: FAST, signal: abort.signal, read: () => digest, onChange, warn });
    await until('the second try', () => digest !== undefined, 20_000);
    abort.abort();
    await watching;
    assert.equal(tries, 2);
  });

  it('that hangs while it is read again does not delay the end of the agent, nor does its watch stay', async (t) => {
    const file = join(await temporary(t), 'config');
    await writeFile(file, 'kind: A\n');
    const abort = new AbortController();
    const open = new Set<string>();
    let isReading = false;
    const files = {
      readOne: readOneFile,
      watch: (folder: string) => {
        open.add(folder);
        return { onEnd: () => undefined, close: () => open.delete(folder) };
      },
    };
    const onChange = () => {
      isReading = true;
      return new Promise<never>(() => undefined);
    };
    const options = {
      clock: FAST,
      signal: abort.signal,
      read: () => undefined,
      onChange,
      warn: () => undefined,
      files,
    };
    const watching = watchConfigFile(file, options);
    await until('the second reading', () => isReading, 20_000);
    abort.abort();
    await watching;
    assert.equal(open.size, 0);
  });
});

describe('a folder that is followed no more', () => {
  it('has no second read of a file that lost objects', async (t) => {
    const folder = await temporary(t);
    const file = join(folder, 'a.yaml');
    await writeFile(file, yaml('a'));
    const timers = new Set<object>();
    const clock: Clock = {
      ...realClock,
      after(milliseconds, call) {
        const timer = {};
        timers.add(timer);
        const cancel = realClock.after(milliseconds, () => {
          timers.delete(timer);
          call();
        });
        return () => {
          timers.delete(timer);
          cancel();
        };
      },
    };
    let isDoubted = false;
    const documents = new DocumentFiles();
    const read = documents.read.bind(documents);
    documents.read = async (options) => {
      const answer = await read(options);
      if (answer.kind !== 'same') isDoubted = true;
      return answer;
    };
    const abort = new AbortController();
    const seen = new Seen();
    const source = manifestsSource({
      path: folder,
      nodeName: 'n',
      clock,
      once: false,
      warn: () => undefined,
      documents,
    });
    const ended = source.run(seen.take, abort.signal);
    await until('synced', () => seen.isSynced, 20_000);
    isDoubted = false;
    await writeFile(file, '# empty\n');
    await until('the first read', () => isDoubted, 20_000);
    await new Promise((resolve) => setImmediate(resolve));
    abort.abort();
    await ended;
    assert.equal(timers.size, 0);
  });
});

describe('the start, while a file cannot be read', () => {
  it('follows what others lose meanwhile, before the lists are complete', async (t) => {
    const folder = await temporary(t);
    for (const name of ['a', 'b']) await writeFile(join(folder, `${name}.yaml`), yaml(name));
    const documents = new DocumentFiles();
    const read = documents.read.bind(documents);
    let failures = 0;
    documents.read = async (options) => {
      if (!options.path.endsWith('/a.yaml') || failures > 0) return await read(options);
      failures += 1;
      await rm(join(folder, 'b.yaml'));
      return { kind: 'unreadable', cause: 'ESTALE', stamp: undefined };
    };
    const left = new Set<string>();
    const atFirst: string[][] = [];
    const source = manifestsSource({ path: folder, nodeName: 'n', clock: FAST, once: false, documents });
    const abort = new AbortController();
    const ended = source.run((event) => {
      if (event.kind === 'synced') atFirst.push([...left]);
      if (event.kind !== 'service') return;
      if (event.service === undefined) left.delete(event.key);
      else left.add(event.key);
    }, abort.signal);
    await until('synced', () => atFirst.length > 0, 20_000);
    abort.abort();
    await ended;
    assert.equal(failures, 1);
    assert.deepEqual(atFirst[0], ['default/a']);
  });
});

describe('a link in a folder of manifests', () => {
  it('may lead to a file in it, and to none outside', async (t) => {
    const parent = await temporary(t);
    const folder = join(parent, 'manifests');
    await mkdir(join(folder, 'data'), { recursive: true });
    await writeFile(join(folder, 'data', 'a'), yaml('a'));
    await writeFile(join(parent, 'b'), yaml('b'));
    await symlink('data/a', join(folder, 'a.yaml'));
    await symlink(join(folder, 'data', 'a'), join(folder, 'absolute.yaml'));
    await symlink('../b', join(folder, 'b.yaml'));
    await symlink(join(parent, 'b'), join(folder, 'c.yaml'));
    await symlink('..', join(folder, 'up'));
    await symlink('up/b', join(folder, 'd.yaml'));
    await symlink('loop.yaml', join(folder, 'loop.yaml'));
    const seen = await follow(t, folder);
    assert.deepEqual([...seen.services], ['default/a']);
    assert.equal(seen.faults.get(join(folder, 'absolute.yaml')), '');
    for (const name of ['b', 'c', 'd'])
      assert.match(
        seen.faults.get(join(folder, `${name}.yaml`)) ?? '',
        /cannot be read: it is a symbolic link that leads outside .*manifests; replace it with the file itself/,
      );
    assert.match(seen.faults.get(join(folder, 'loop.yaml')) ?? '', /more than 40 symbolic links/);
  });
});

describe('a mount that is dead', () => {
  it('below a folder is logged and makes the agent unhealthy, and is followed again when it answers', {
    skip: noDeadMount ?? false,
  }, async (t) => {
    let away = async () => {};
    const folder = await temporary(t, () => away());
    await mkdir(join(folder, 'dead.yaml'));
    await writeFile(join(folder, 'a.yaml'), yaml('a'));
    away = await deadMount(join(folder, 'dead.yaml'));
    const documents = new DocumentFiles({ ...THREAD_TIMEOUTS_MS, reading: 1000 });
    const seen = await follow(t, folder, { documents });
    assert.deepEqual([...seen.services], ['default/a']);
    assert.match(seen.faults.get(join(folder, 'dead.yaml')) ?? '', /cannot be read: no answer within 1 s/);
    await writeFile(join(folder, 'b.yaml'), yaml('b'));
    await until('another file', () => seen.services.has('default/b'), 20_000);
    const watches = () => seen.source.watches?.() ?? [];
    const settings = {
      timeout: 500,
      families: [],
      expected: [],
      unserved: [],
      waitingFor: () => [],
      watches,
      node: () => undefined,
      hasNodes: false,
      datapathCheck: 'none' as const,
    };
    const health = new Health({ now: () => performance.now(), wall: () => Date.now() }, settings);
    const stuck = () => health.state.reasons.healthz.filter((reason) => reason.startsWith('the manifests'));
    assert.match(stuck().join(), /^the manifests could not be followed for \d+ s: \S+dead\.yaml does not answer/);
    await away();
    await until(
      'the mount is gone',
      () => /it is a folder/.test(seen.faults.get(join(folder, 'dead.yaml')) ?? ''),
      20_000,
    );
    assert.deepEqual(stuck(), []);
  });
});
