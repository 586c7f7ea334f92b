/** The thread that reads a configuration or a kubeconfig ends soon: it would hold 5 MB of an agent that needs it no more. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { readOneFile } from '../../../src/cluster/documents/files.ts';

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

describe('the thread of single files', () => {
  it('has ended some seconds after the last file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-'));
    try {
      const file = join(folder, 'one.yaml');
      await writeFile(file, 'kind: KubeProxyConfiguration\n');
      const before = workers();
      const { values } = await readOneFile(file);
      assert.equal(values.length, 1);
      assert.equal(workers(), before + 1, 'a thread read the file');
      const late = performance.now() + PATIENCE;
      while (workers() > before && performance.now() < late) await pause(50);
      assert.equal(workers(), before);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
