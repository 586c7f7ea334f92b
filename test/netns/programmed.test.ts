/** Which versions are in the kernel, as a real agent says it on its health port: changes, refusals, a write that fails, a restart. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('./programmed-inside.ts', import.meta.url));

describe('the versions in the kernel of a real agent', () => {
  let lab: Lab;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  for (const story of ['says', 'refuses', 'answers']) {
    it(story, async () => {
      const command = lab.inside('node', process.execPath, [INSIDE, story]);
      const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    });
  }
});
