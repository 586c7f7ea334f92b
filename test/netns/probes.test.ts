/** What probes and load balancers hear of the agent as a process: while its API server is away, and when the kernel refuses. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('./probes-inside.ts', import.meta.url));

describe('/livez, /readyz and /healthz of an agent', () => {
  let lab: Lab;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  for (const [what, story] of [
    ['differ while no API server is where the kubeconfig says: alive, and not ready', 'waits'],
    ['are 200 while the kernel refuses one tenant’s Service, which a note, a metric and an event report', 'refuses'],
    ['name who holds the lock while nothing can be written, which is no reason to restart', 'locked'],
  ] as const) {
    it(what, async () => {
      const command = lab.inside('node', process.execPath, [INSIDE, story]);
      const { exitCode, stdout, stderr } = await shellCommands.run(command, NEVER);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    });
  }
});
