/** Watches of a folder of manifests end with the signal of their source. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FolderChanges } from '../../../../src/cluster/source/watch-folder.ts';
import { FakeClock } from '../../../helpers/base/fake-clock.ts';

function watched(signal: AbortSignal) {
  const open: string[] = [];
  const changes = new FolderChanges({
    clock: new FakeClock(),
    isWanted: () => true,
    onChange: () => undefined,
    onUnwatched: () => undefined,
    watchFolder(folder) {
      open.push(folder);
      return { onEnd: () => undefined, close: () => void open.splice(open.indexOf(folder), 1) };
    },
  });
  changes.watch('/manifests', signal);
  return { open, changes };
}

it('a watch ends when its signal aborts', () => {
  const stop = new AbortController();
  const { open, changes } = watched(stop.signal);
  assert.deepEqual([open, changes.isWatching], [['/manifests'], true]);
  stop.abort();
  assert.deepEqual([open, changes.isWatching], [[], false]);
});

it('no watch begins after its signal aborted: it would keep the process alive', () => {
  assert.deepEqual(watched(AbortSignal.abort()).open, []);
});
