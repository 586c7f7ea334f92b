/** The start and the end of the thread that reads files. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, mock } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DocumentFiles, readOneFile, THREAD_TIMEOUTS_MS } from '../../../src/cluster/documents/files.ts';

/** Milliseconds: well below those of a thread that reads manifests. */
const PATIENCE = 10_000;

/** Threads of this process that Node.js calls so (proc_pid_comm(5)). */
function workers(): number {
  const names = readdirSync('/proc/self/task').map((thread) => {
    try {
      return readFileSync(`/proc/self/task/${thread}/comm`, 'utf8');
    } catch {
      return '';
    }
  });
  return names.filter((name) => name.startsWith('WorkerThread')).length;
}

/** `work` gets the path of a file with one document. */
async function withFile(work: (path: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-'));
  try {
    const path = join(folder, 'one.yaml');
    await writeFile(path, 'kind: KubeProxyConfiguration\n');
    await work(path);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Timers of `work` move when it says so. */
async function withTimers(work: (tick: (milliseconds: number) => void) => Promise<void>): Promise<void> {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  try {
    await work((milliseconds) => mock.timers.tick(milliseconds));
  } finally {
    mock.timers.reset();
  }
}

const optionsOf = (path: string) => ({ path, maxBytes: 1000, onValues: () => undefined });

describe('the thread of single files, which would hold 5 MB of an agent that needs it no more', () => {
  it('has ended some seconds after the last file', () =>
    withFile(async (path) => {
      const before = workers();
      const { values } = await readOneFile(path);
      assert.equal(values.length, 1);
      assert.equal(workers(), before + 1, 'a thread read the file');
      const late = performance.now() + PATIENCE;
      while (workers() > before && performance.now() < late) await pause(50);
      assert.equal(workers(), before);
    }));
});

describe('a thread that starts slowly, as on a busy machine', () => {
  it('still reads the file: its start is not time in which the file gave no answer', () =>
    withFile((path) =>
      withTimers(async (tick) => {
        const reading = new DocumentFiles().read(optionsOf(path));
        // No message of the thread arrives meanwhile.
        tick(2 * THREAD_TIMEOUTS_MS.reading);
        assert.equal((await reading).kind, 'read');
      }),
    ));

  it('is given up after a while, and the next file gets another one', () =>
    withFile((path) =>
      withTimers(async (tick) => {
        const documents = new DocumentFiles();
        const first = documents.read(optionsOf(path));
        tick(THREAD_TIMEOUTS_MS.starting);
        const cause = 'the thread that reads it did not start within 30 s';
        assert.deepEqual(await first, { kind: 'unreadable', cause, stamp: undefined });
        assert.deepEqual(documents.stuck, []);
        assert.equal((await documents.read(optionsOf(path))).kind, 'read');
      }),
    ));
});
