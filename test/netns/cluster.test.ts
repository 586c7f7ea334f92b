/**
 * The agent and an API server that behaves as recorded: lists, watches, an outage (k8s#76338), and deletes that were missed
 * meanwhile (cil#48050). It runs inside a namespace, where the loopback is its own.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('./cluster-inside.ts', import.meta.url));

describe('the agent and an API server, which goes away (k8s#76338) while objects are deleted (cil#48050)', () => {
  let lab: Lab;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  for (const story of ['follows', 'relists', 'away', 'starts-without', 'reports', 'floods', 'follows-node', 'moves']) {
    it(story, async () => {
      const command = lab.inside('node', process.execPath, [INSIDE, story]);
      const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    });
  }
});
