/** Who may read /programmed of a real agent, whose tokens the API server of the test reviews. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('./asking-inside.ts', import.meta.url));

describe('who may read /programmed of a real agent', () => {
  it('admits this machine, and others with the token of the fleet', async (t) => {
    const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    t.after(() => lab.remove());
    const command = lab.inside('node', process.execPath, [INSIDE, 'admits']);
    const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
    assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
  });
});
