/** The process of `slicewire fleet`. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { until } from '../helpers/base/until.ts';
import { slicewire } from '../helpers/cli/slicewire.ts';
import { Cluster } from './rig.ts';

describe('the process of the fleet', () => {
  it('ends at SIGTERM, also while a Node is not ready', async () => {
    const cluster = await Cluster.start(['n1', 'n2']);
    cluster.putNode('n2', '192.0.2.2', false, new Date().toISOString());
    const flags = ['--kubeconfig', await cluster.api.kubeconfig(), '--bind-address', '127.0.0.1:39262'];
    const { file, args } = slicewire('fleet', ...flags, '--leave-out-after=1h', '--token-file=/no/token');
    const fleet = spawn(file, args);
    let said = '';
    for (const stream of [fleet.stdout, fleet.stderr]) stream.on('data', (piece) => (said += String(piece)));
    try {
      await until('the streams', () => ['n1', 'n2'].every((name) => cluster.agent(name).streams === 1)).catch(() =>
        assert.fail(said),
      );
      fleet.kill('SIGTERM');
      await until('its end', () => fleet.exitCode !== null);
      assert.equal(fleet.exitCode, 0, said);
    } finally {
      if (fleet.exitCode === null) {
        fleet.kill('SIGKILL');
        await once(fleet, 'exit');
      }
      await cluster.stop();
    }
  });
});
