/**
 * The hook as a process, before a server in the place of the fleet: what it prints, and its exit status. `slicewire drained` and
 * `slicewire-drained` must hold the same.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { drainedSchema } from '../../../src/inspect/wire/drained.ts';
import { startChild } from '../../../src/kernel/commands.ts';
import { FakeFleet, NO, type Reply, YES } from './fake-fleet.ts';

/** `command`: the words before its flags. */
function start(command: readonly string[], fleet: FakeFleet, ...flags: readonly string[]) {
  const [out, errors]: [string[], string[]] = [[], []];
  const [file = '', ...args] = [...command, '--pod', 'shop/web-1', '--fleet', fleet.url.origin, ...flags];
  const child = startChild({
    file,
    args,
    onLine: (line) => out.push(line),
    onErrorLine: (line) => errors.push(line),
  });
  return { child, out, errors };
}

/** `commandOf`: called once, before the first test. */
export function describeCommand(name: string, commandOf: () => Promise<readonly string[]>): void {
  let command: readonly string[];
  describe(name, { concurrency: 3 }, () => {
    let folder: string;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'slicewire-drained-'));
      await writeFile(join(folder, 'token'), 'secret\n');
      command = await commandOf();
    });
    after(() => rm(folder, { recursive: true }));

    /** Runs it until it ends. */
    async function run(replies: readonly Reply[], ...flags: readonly string[]) {
      const fleet = await FakeFleet.open(...replies);
      try {
        const { child, out, errors } = start(command, fleet, ...flags);
        const status = await child.ended;
        return { status, out: out.join('\n'), errors: errors.join('\n'), asked: fleet.asked, host: fleet.url.host };
      } finally {
        await fleet.close();
      }
    }

    it('says that a Pod is drained, and ends with 0', async () => {
      const { status, out, errors, asked } = await run([{ status: 200, body: YES }]);
      assert.deepEqual([status, errors], [0, '']);
      assert.match(out, /^Pod shop\/web-1, of shop\/web: drained after .+\. 3 nodes send nothing new to it\.$/);
      assert.deepEqual(asked, [{ url: '/drained?pod=shop%2Fweb-1&timeout=30000ms', token: undefined }]);
    });

    it('names the nodes that are behind, and ends with 1', async () => {
      const { status, out, errors } = await run([{ status: 504, body: NO }], '--timeout', '500ms');
      assert.deepEqual([status, errors], [1, '']);
      assert.match(out, /: not drained after .+: 1 node still sends/);
      assert.match(out, /\n1 node behind:\n {2}node-7: no answer: connect ECONNREFUSED$/);
    });

    it('asks again after a fleet that went away in the middle, with the token of the file', async () => {
      const { status, asked, out } = await run(
        ['cut', { status: 503, says: 'the lists are not complete' }, { status: 200, body: YES }],
        '--token-file',
        join(folder, 'token'),
        '-o',
        'json',
      );
      assert.equal(status, 0);
      assert.deepEqual(
        asked.map(({ token }) => token),
        ['Bearer secret', 'Bearer secret', 'Bearer secret'],
      );
      assert.equal(drainedSchema.parse(JSON.parse(out)).drained, true);
    });

    it('says which fleet did not answer, and ends with 1', async () => {
      const { status, out, errors, host } = await run(
        [{ status: 403, says: 'the token may not ask' }],
        '--timeout',
        '400ms',
      );
      assert.deepEqual([status, out], [1, '']);
      assert.equal(errors, `slicewire: the fleet at ${host} does not answer: the token may not ask`);
    });

    it('takes the 504 of a proxy for no answer', async () => {
      const { status, errors } = await run([{ status: 504, says: 'upstream timed out' }], '--timeout', '300ms');
      assert.equal(status, 1);
      assert.match(errors, /does not answer: the answer cannot be read \(HTTP status 504\)/);
    });

    it('ends with 2 where the fleet says that the question is wrong', async () => {
      const { status, errors, asked } = await run([{ status: 400, says: 'pod shop: must be NAMESPACE/NAME' }]);
      assert.deepEqual(
        [status, errors, asked.length],
        [2, 'slicewire: the fleet says: pod shop: must be NAMESPACE/NAME', 1],
      );
    });

    it('ends at SIGTERM while it waits', async () => {
      const fleet = await FakeFleet.open('silent');
      try {
        const { child, errors } = start(command, fleet);
        await Promise.race([fleet.asks(1), child.ended]);
        assert.equal(fleet.asked.length, 1);
        process.kill(child.pid ?? 0, 'SIGTERM');
        assert.equal(await child.ended, 1);
        assert.match(errors.join('\n'), /the command did not finish$/);
      } finally {
        await fleet.close();
      }
    });
  });
}
