import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rename, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BeforeHistory } from '../../../src/inspect/history/past.ts';
import { until } from '../../helpers/base/until.ts';
import { slice } from '../../helpers/cluster/objects.ts';
import { recording, web } from '../recorded-folder.ts';

let root = '';
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'slicewire-record-'));
});
after(() => rm(root, { recursive: true, force: true }));

describe('the folder of --record-dir', () => {
  it('keeps the history over a restart, and drops what a crash tore', async () => {
    const path = join(root, 'restart');
    const first = await recording(path, 1_000_000);
    assert.equal((await stat(path)).mode & 0o777, 0o700);
    await first.folder.start();
    first.rig.put(web(80));
    await first.rig.sync('start');
    const moment = first.rig.clock.wall();
    first.rig.clock.advance(1000);
    first.rig.put(web(81));
    await first.rig.sync();
    first.rig.clock.advance(1000);
    first.rig.put(web(82));
    await first.rig.sync();
    await first.folder.stop();
    const [name = ''] = await readdir(path);
    assert.equal((await stat(join(path, name))).mode & 0o777, 0o600);
    // The crash: the last frame is incomplete.
    await truncate(join(path, name), (await stat(join(path, name))).size - 3);
    const second = await recording(path, 1_000_000);
    second.rig.clock.advance(60_000);
    await second.folder.start();
    second.rig.put(web(90));
    await second.rig.sync('start');
    second.rig.put(web(91));
    await second.rig.sync();
    const then = await second.archive.history({ service: 'default/web', at: moment });
    assert.deepEqual(then.stood[0]?.lines.at(-1), 'port http 80/TCP');
    const all = await second.archive.history({ service: 'default/web', since: 0 });
    assert.deepEqual(
      all.changes.flatMap(({ what }) => what),
      ['port http: 80/TCP → 81/TCP', 'port http: 90/TCP → 91/TCP'],
    );
    assert.match(
      second.problems[0] ?? '',
      /restart\/slicewire-.*\.recording: frame \d+ of the recording is incomplete: it and all after it are dropped$/,
    );
    await assert.rejects(second.archive.history({ at: moment - 5000 }), BeforeHistory);
    await second.folder.stop();
  });

  it('is bounded: the oldest segments are deleted, and no sync is lost between two', async () => {
    const path = join(root, 'bounded');
    const size = 100_000;
    const { rig, folder, archive } = await recording(path, size, 900_000);
    await folder.start();
    rig.put(web(1));
    await rig.sync('start');
    for (let round = 1; round <= 1500; round++) {
      rig.clock.advance(1000);
      const addresses = Array.from(
        { length: 40 },
        (_, i) => `10.244.${(round * 31 + i * 17) % 250}.${(round * i) % 250}`,
      );
      rig.put(web(round + 1), slice({ name: 'web-1', service: 'web', endpoints: [...new Set(addresses)] }));
      rig.pretendSync();
      if (round % 5 === 0) await folder.segments();
    }
    const files = await folder.segments();
    const total = files.reduce((sum, file) => sum + file.size, 0);
    assert.ok(files.length > 3, `${files.length} segments`);
    assert.ok(total <= size * 1.1, `${total} bytes`);
    const { changes } = await archive.history({ service: 'default/web', since: 0, most: 10_000 });
    const ports = changes.flatMap(({ what }) => /→ (\d+)/.exec(what.join())?.[1] ?? []).map(Number);
    const [first = 0] = ports;
    assert.deepEqual(
      ports,
      Array.from({ length: ports.length }, (_, i) => first + i),
    );
    assert.equal(ports.at(-1), 1501);
    await folder.stop();
  });

  it('a folder that fails is said once; the agent goes on, and recording is tried again', async () => {
    const path = join(root, 'failing');
    const { rig, folder, logged } = await recording(path, 1_000_000);
    await rename(path, `${path}-away`);
    await writeFile(path, '');
    await folder.start();
    rig.put(web(80));
    await rig.sync('start');
    rig.clock.advance(61_000);
    await until('the second try', () => rig.clock.waits.length > 1);
    assert.equal(logged.length, 1);
    assert.match(
      logged[0] ?? '',
      /^error --record-dir=.*failing: cannot record: it is not a folder; the agent goes on without it/,
    );
    await rm(path);
    rig.clock.advance(61_000);
    await until('success', () => logged.length > 1);
    assert.match(logged[1] ?? '', /^info --record-dir=.*: recording again$/);
    await folder.stop();
  });

  it('refuses what is no folder, and follows no link of a segment', async () => {
    const other = await recording('/dev/null', 1000);
    await other.folder.start();
    assert.match(other.logged.join(), /--record-dir=\/dev\/null: cannot record: it is not a folder;/);
    await other.folder.stop();
    const path = join(root, 'links');
    const { rig, folder } = await recording(path, 1_000_000);
    const target = join(root, 'target');
    await symlink(target, join(path, 'slicewire-2026-11-21T000000.000Z-1.recording'));
    await folder.start();
    await rig.sync('start');
    assert.equal((await folder.segments()).length, 1);
    await folder.stop();
    await assert.rejects(readFile(target), /ENOENT/);
  });
});
