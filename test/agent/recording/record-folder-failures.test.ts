/** The folder of --record-dir where something goes wrong: a full disk, a crash, a clock that goes back, a stop at a bad moment. */
import assert from 'node:assert/strict';
import { mkdtemp, open, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { RecordFolder } from '../../../src/agent/recording/record-folder.ts';
import { until } from '../../helpers/base/until.ts';
import { slice } from '../../helpers/cluster/objects.ts';
import { recording, web } from '../recorded-folder.ts';

let root = '';
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'slicewire-failures-'));
});
after(() => rm(root, { recursive: true, force: true }));

/** All objects of the beginning are in the newest segment. */
async function hasSynced(folder: RecordFolder): Promise<void> {
  await until('the objects', async () => {
    const newest = (await folder.segments()).at(-1);
    if (newest === undefined) return false;
    const lines = newest.lines(() => undefined);
    for await (const { type } of lines) if (type === 'started') return true;
    return false;
  });
}

/** The numbers of the changes that the files have, and the last number, which may be that of the objects at a beginning. */
async function changes(folder: RecordFolder): Promise<{ numbers: Set<number>; last: number }> {
  const numbers = new Set<number>();
  let last = 0;
  for (const file of await folder.segments()) {
    for await (const line of file.lines(() => undefined)) {
      if (line.type === 'change') numbers.add(line.number);
      if (line.type === 'change' || line.type === 'start') last = Math.max(last, line.number);
    }
  }
  return { numbers, last };
}

/** All open files write by it. */
async function filePrototype(): Promise<{ write: (...args: unknown[]) => Promise<unknown> }> {
  const file = await open(join(root, 'any'), 'w');
  await file.close();
  return Object.getPrototypeOf(file);
}

/** From now on no file can be written, until the result is called. */
async function fillDisk({ mock }: TestContext): Promise<() => void> {
  const error = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  const write = mock.method(await filePrototype(), 'write', () => Promise.reject(error));
  return () => write.mock.restore();
}

describe('the folder of --record-dir', () => {
  it('on a full disk says so once, and leaves no file after each try', async (test) => {
    const path = join(root, 'full');
    const { rig, folder, logged } = await recording(path, 1_000_000);
    rig.put(web(80));
    await rig.sync('start');
    const free = await fillDisk(test);
    await folder.start();
    for (let minute = 1; minute <= 5; minute++) {
      await until('the next try waits', () => rig.clock.pending === 1);
      rig.clock.advance(61_000);
    }
    await until('the next try waits', () => rig.clock.pending === 1);
    await until('no file is left', async () => (await readdir(path)).length === 0);
    assert.equal(logged.length, 1, logged.join('\n'));
    assert.match(logged[0] ?? '', /cannot record: ENOSPC/);
    free();
    rig.clock.advance(61_000);
    await until('success', () => logged.length > 1);
    assert.match(logged[1] ?? '', /recording again$/);
    await folder.stop();
    assert.equal((await readdir(path)).length, 1);
  });

  it('that is stopped while a segment is made records nothing more', async () => {
    const path = join(root, 'stopped');
    const { rig, folder } = await recording(path, 1_000_000);
    rig.put(web(80));
    await rig.sync('start');
    const starting = folder.start();
    await folder.stop();
    await starting;
    rig.put(web(81));
    await rig.sync();
    await pause(20);
    assert.deepEqual(await readdir(path), []);
  });

  it('writes no segment after its end, however many were asked for at the same time', async () => {
    const path = join(root, 'many');
    const { rig, folder, logged } = await recording(path, 1_000_000);
    rig.put(web(80));
    await rig.sync('start');
    const starts: Promise<void>[] = [];
    for (let i = 0; i < 30; i++) {
      rig.clock.advance(1);
      starts.push(folder.start());
      await pause(0);
    }
    await Promise.all(starts);
    await folder.stop();
    const sizes = async () => (await folder.segments()).reduce((sum, { size }) => sum + size, 0);
    const before = await sizes();
    rig.put(web(81));
    await rig.sync();
    await folder.start();
    await pause(20);
    assert.deepEqual([await sizes(), logged], [before, []]);
  });

  it('that is stopped on a slow disk just after a segment became full has written everything', async ({ mock }) => {
    const path = join(root, 'slow');
    const { rig, folder } = await recording(path, 40_000);
    await folder.start();
    rig.put(web(1));
    await rig.sync('start');
    const first = rig.recorder.nextNumber;
    const prototype = await filePrototype();
    const { write } = prototype;
    mock.method(prototype, 'write', async function (this: typeof prototype, ...args: unknown[]) {
      await pause(5);
      return await write.apply(this, args);
    });
    for (let number = 2; (await readdir(path)).length < 2; number++) {
      rig.put(web(number), slice({ name: 'web-1', service: 'web', endpoints: [`10.0.${number % 250}.1`] }));
      rig.pretendSync();
    }
    await folder.stop();
    const { numbers } = await changes(folder);
    for (let number = first; number < rig.recorder.nextNumber; number++) assert.ok(numbers.has(number), `${number}`);
  });

  it('keeps the segment that is written now, where the clock went back', async () => {
    const path = join(root, 'back');
    const { rig, folder } = await recording(path, 40_000);
    await folder.start();
    rig.put(web(1));
    await rig.sync('start');
    const round = async (number: number) => {
      const addresses = Array.from({ length: 60 }, (_, i) => `10.${number % 250}.${(i * 37) % 250}.${i}`);
      rig.put(web(number), slice({ name: 'web-1', service: 'web', endpoints: addresses }));
      rig.pretendSync();
      // A segment that is full was followed by another one.
      await pause(1);
      await folder.segments();
    };
    for (let number = 2; number <= 200; number++) await round(number);
    rig.clock.setWallBy(-3_600_000);
    for (let number = 201; number <= 400; number++) await round(number);
    const files = await folder.segments();
    assert.ok(files.reduce((sum, { size }) => sum + size, 0) <= 44_000);
    await folder.stop();
    assert.equal((await changes(folder)).last, rig.recorder.nextNumber - 1);
  });

  it('has no answer from a beginning that a crash tore, but from the segment before it', async () => {
    const path = join(root, 'torn');
    const first = await recording(path, 1_000_000);
    await first.folder.start();
    first.rig.put(...Array.from({ length: 500 }, (_, i) => web(80, `web-${i}`)));
    await first.rig.sync('start');
    await hasSynced(first.folder);
    first.rig.put(web(82, 'web-7'));
    await first.rig.sync();
    await first.folder.stop();
    const second = await recording(path, 1_000_000);
    second.rig.clock.advance(60_000);
    await second.folder.start();
    second.rig.put(...Array.from({ length: 500 }, (_, i) => web(81, `web-${i}`)));
    await second.rig.sync('start');
    await hasSynced(second.folder);
    await second.folder.stop();
    const [, torn = ''] = (await readdir(path)).sort();
    await truncate(join(path, torn), Math.floor((await stat(join(path, torn))).size / 2));
    const third = await recording(path, 1_000_000);
    third.rig.clock.advance(120_000);
    const moment = third.rig.clock.wall() - 1000;
    await third.rig.sync('start');
    const objects = await third.archive.objectsAt(moment);
    assert.equal([...objects.services()].length, 500);
    // A kill at its first write, and a disk that was full at once.
    for (const bytes of [20, 5, 0]) {
      await truncate(join(path, torn), bytes);
      const again = await third.archive.objectsAt(moment);
      assert.equal([...again.services()].length, 500, `${bytes} bytes`);
      const { changes, reachesBackTo } = await third.archive.history({ service: 'default/web-7' });
      assert.ok(changes.length > 0, `${bytes} bytes: the change of the first agent is there`);
      assert.match(reachesBackTo, /^2026-/);
      await assert.rejects(third.archive.objectsAt(0), /reaches back to 2026-/);
    }
  });

  it('that cannot be used does not keep the memory from answering', async () => {
    const path = join(root, 'unusable');
    const { rig, folder, archive, problems } = await recording(path, 1_000_000);
    await rm(path, { recursive: true });
    await writeFile(path, '');
    await folder.start();
    rig.put(web(80));
    await rig.sync('start');
    rig.put(web(81));
    await rig.sync();
    const { changes } = await archive.history({ service: 'default/web' });
    assert.ok(changes.length > 0);
    assert.match(problems.join(), /unusable cannot be read: ENOTDIR.*; the answer is from memory alone$/);
    await folder.stop();
  });
});
