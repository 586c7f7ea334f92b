/** Memory of an agent that records: it grows until the history is full, and not after that, however many segments follow. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { frameBytes } from '../../../src/inspect/history/frames.ts';
import { slice } from '../../helpers/cluster/objects.ts';
import { recording, web } from '../recorded-folder.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

/** Bytes of the recorder; the smallest part of it is that of the changes. */
const MOST = 950_000;
const FOLDER = 400_000;
/** Changes between two looks. */
const ROUND = 1000;

/** Bytes of the heap, and outside of it, without garbage. What is outside is returned a moment after a collection, or by the next. */
async function held(): Promise<number> {
  for (let times = 0; times < 3; times++) {
    collectGarbage();
    await pause(20);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

it('a frame leaves little garbage outside the heap, where malloc does not return it', () => {
  const lines = Array.from({ length: 10 }, (_, n) => `{"change":${n},"address":"10.244.0.${n}"}`);
  const rounds = Array.from({ length: 3 }, () => {
    const before = process.memoryUsage().external;
    for (let n = 0; n < 1000; n++) frameBytes(lines);
    return process.memoryUsage().external - before;
  });
  // Of one round a collection may take away.
  const most = Math.max(...rounds);
  assert.ok(most < 4_000_000, `${most} bytes of 1,000 frames`);
});

it('memory of an agent that records ends with its history', async () => {
  const path = await mkdtemp(join(tmpdir(), 'slicewire-record-memory-'));
  try {
    const { rig, folder } = await recording(path, FOLDER, MOST);
    await folder.start();
    rig.put(web(80));
    await rig.sync('start');
    let changes = 0;
    const go = async () => {
      for (let n = 0; n < ROUND; n++) {
        changes += 1;
        rig.clock.advance(50);
        const address = (i: number) => `10.${(changes * 7 + i * 31) % 250}.${(changes * i) % 250}.${i + 1}`;
        rig.put(slice({ name: 'web-1', service: 'web', endpoints: Array.from({ length: 20 }, (_, i) => address(i)) }));
        rig.rig.cache.takeChanges();
        rig.pretendSync();
        if (n % 100 === 0) await folder.segments();
      }
      await folder.segments();
      return { bytes: rig.recorder.bytes, held: await held(), reach: rig.recorder.log.reachesBackTo };
    };
    const start = rig.recorder.log.reachesBackTo;
    const full = await go();
    let before = full;
    while (before.reach === start) before = await go();
    const looks = [before];
    for (let n = 0; n < 4; n++) looks.push(await go());
    const last = looks.at(-1) as typeof before;
    const text = looks.map(({ bytes, held: all }) => `${bytes} of ${all}`).join(', ');
    assert.ok(
      looks.every(({ bytes }) => bytes <= MOST),
      text,
    );
    assert.ok(last.reach > before.reach, 'the oldest changes are dropped');
    assert.ok(last.held - before.held < 500_000, text);
    await folder.stop();
  } finally {
    await rm(path, { recursive: true, force: true });
  }
});
