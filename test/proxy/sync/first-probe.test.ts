/** The first sync asks whether rules are installed while it reads them, and does not wait for the answer. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

it('a probe that is late ends with the reading that was faster', async () => {
  const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
  let asked: AbortSignal | undefined;
  rig.mode.probe.isInstalled = (signal) => {
    asked = signal;
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  assert.equal((await rig.sync()).outcome, 'complete');
  assert.equal(asked?.aborted, true);
});
