/** A soak of a minute on the real kernel: nothing is lost, nothing is wrong, and everything that it made is gone. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { problemsOf } from './result.ts';
import { soak } from './soak.ts';

const namespaces = async () => (await shellCommands.run({ file: 'ip', args: ['netns'] }, NEVER)).stdout;

it('a soak of 300 Services loses no probe', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'slicewire-soak-'));
  const result = await soak({
    ...{ seconds: 40, tail: 8, restartEvery: 5, flushEvery: 28, services: 300, perSecond: 50 },
    ...{ probesPerSecond: 40, seed: 1, isSource: true, logFile: undefined, signal: NEVER, folder },
    say: (line) => t.diagnostic(line),
  });
  assert.deepEqual(problemsOf(result), [], result.probes.failures.join('\n'));
  assert.ok(
    result.lives.some(({ signal }) => signal === 'SIGTERM') && result.lives.some(({ signal }) => signal === 'SIGKILL'),
  );
  assert.equal(result.reloads.length, 3);
  assert.ok(result.flushes.length > 0);
  const passed = new Map(result.datapath?.map((one) => [one.from, one.passed]));
  assert.ok((passed.get('node') ?? 0) > 5 && (passed.get('pod') ?? 0) > 5, JSON.stringify(result.datapath));
  assert.ok(result.probes.answered > 1000, `${result.probes.answered}`);
  assert.ok(!existsSync(folder));
  assert.ok(!(await namespaces()).includes(`sw${process.pid}-`));
});
