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

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-'));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe('the thread of single files, which would hold 5 MB of an agent that needs it no more', () => {
  it('has ended some seconds after the last file', async () => {
    await withFolder(async (folder) => {
      const file = join(folder, 'one.yaml');
      await writeFile(file, 'kind: KubeProxyConfiguration\n');
      const before = workers();
      const { values } = await readOneFile(file);
      assert.equal(values.length, 1);
      assert.equal(workers(), before + 1, 'a thread read the file');
      const late = performance.now() + PATIENCE;
      while (workers() > before && performance.now() < late) await pause(50);
      assert.equal(workers(), before);
    });
  });
});

describe('a thread that starts slowly, as on a busy machine', () => {
  it('still reads the file: its start is not time in which the file gave no answer', async () => {
    await withFolder(async (folder) => {
      const path = join(folder, 'one.yaml');
      await writeFile(path, 'kind: KubeProxyConfiguration\n');
      mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
      try {
        const reading = new DocumentFiles().read({ path, maxBytes: 1000, onValues: () => undefined });
        // No message of the thread arrives meanwhile.
        mock.timers.tick(2 * THREAD_TIMEOUTS_MS.reading);
        assert.equal((await reading).kind, 'read');
      } finally {
        mock.timers.reset();
      }
    });
  });

  it('is given up after a while, and the next file gets another one', async () => {
    await withFolder(async (folder) => {
      const path = join(folder, 'one.yaml');
      await writeFile(path, 'kind: KubeProxyConfiguration\n');
      mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
      try {
        const documents = new DocumentFiles();
        const options = { path, maxBytes: 1000, onValues: () => undefined };
        const first = documents.read(options);
        mock.timers.tick(THREAD_TIMEOUTS_MS.starting);
        const cause = 'the thread that reads it did not start within 30 s';
        assert.deepEqual(await first, { kind: 'unreadable', cause, stamp: undefined });
        assert.deepEqual(documents.stuck, []);
        assert.equal((await documents.read(options)).kind, 'read');
      } finally {
        mock.timers.reset();
      }
    });
  });
});
