/** The memory limit of the process: the cgroup's, and the limit of V8's heap. */
import assert from 'node:assert/strict';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/kernel/commands.ts';
import { type MemoryRoom, memoryProblem } from '../../src/kernel/memory.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const MB = 2 ** 20;
const MEMORY = fileURLToPath(new URL('../../src/kernel/memory.ts', import.meta.url));

/** A cgroup of version 1 or 2 with this limit; undefined when it cannot be created. */
async function cgroup(limit: number): Promise<string | undefined> {
  for (const [root, file] of [
    ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'],
    ['/sys/fs/cgroup', 'memory.max'],
  ] as const) {
    const folder = join(root, `slicewire-test-${process.pid}`);
    try {
      await mkdir(folder);
    } catch {
      continue;
    }
    try {
      await writeFile(join(folder, file), String(limit), { flag: 'r+' });
      return folder;
    } catch {
      await rmdir(folder);
    }
  }
  return undefined;
}

describe('room for memory', () => {
  it('is too small when the heap may grow larger than the cgroup allows', () => {
    assert.equal(memoryProblem({ limit: undefined, objects: 4192 * MB }), undefined);
    assert.equal(memoryProblem({ limit: 1024 * MB, objects: 536 * MB }), undefined);
    assert.equal(
      memoryProblem({ limit: 256 * MB, objects: 262 * MB }),
      'the memory limit of this container or unit is 256 MB, and the JavaScript heap may grow to 262 MB: the kernel may kill the agent; raise the limit to 390 MB or more',
    );
  });

  it('follows the limit of the cgroup, which the manifests of deploy/ set', async (context) => {
    const folder = await cgroup(1024 * MB);
    if (folder === undefined) {
      context.skip('no cgroup with a limit of memory can be made on this machine');
      return;
    }
    try {
      const program = `import { memoryRoom } from ${JSON.stringify(MEMORY)}; process.stdout.write(JSON.stringify(memoryRoom()));`;
      // The shell joins the group and becomes the program.
      const join = `echo $$ > ${folder}/cgroup.procs && exec "$0" --input-type=module -e "$1"`;
      const args = ['-c', join, process.execPath, program];
      const { exitCode, stdout, stderr } = await realCommands.run({ file: 'sh', args }, NEVER);
      assert.equal(exitCode, 0, stderr);
      const room = JSON.parse(stdout) as MemoryRoom;
      assert.equal(room.limit, 1024 * MB);
      assert.ok(room.objects > 400 * MB && room.objects < 700 * MB, stdout);
      assert.equal(memoryProblem(room), undefined);
    } finally {
      await rmdir(folder);
    }
  });
});

/** A process with some tens of megabytes of garbage in V8's heap; prints what the heap takes before and after. */
const GARBAGE = `
import { setTimeout as pause } from 'node:timers/promises';
import { collectSoon, releaseMemory } from ${JSON.stringify(MEMORY)};
collectSoon();
let kept = Array.from({ length: 400_000 }, (_, i) => ({ text: 'object ' + i, i }));
const before = process.memoryUsage().heapTotal;
kept = kept.slice(0, 10);
releaseMemory();
const late = performance.now() + 30_000;
while (process.memoryUsage().heapTotal > before / 2 && performance.now() < late) await pause(100);
process.stdout.write(JSON.stringify({ before, after: process.memoryUsage().heapTotal, kept: kept.length }));
`;

describe('memory of a start', () => {
  it('is returned by a program at rest, which allocates nothing', async () => {
    const flags = ['--gc-memory-reducer-start-delay-ms=100', '--input-type=module', '-e', GARBAGE];
    const { exitCode, stdout, stderr } = await realCommands.run({ file: process.execPath, args: flags }, NEVER);
    assert.equal(exitCode, 0, stderr);
    const { before, after } = JSON.parse(stdout) as { before: number; after: number };
    assert.ok(before > 20 * MB, `${before} bytes of heap before`);
    assert.ok(after <= before / 2, `${after} bytes of heap of ${before} after`);
  });
});
