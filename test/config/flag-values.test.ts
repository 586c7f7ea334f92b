/** The flags of a command line as /flagz shows them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { flagValues } from '../../src/agent/component-info.ts';
import { AGENT_FLAGS } from '../../src/config/agent-flags.ts';
import { CONTROLLER_FLAGS } from '../../src/config/controller-config.ts';

describe('the values of flags', () => {
  it('are those that were given, and the defaults of the others, sorted', () => {
    const values = flagValues({ mode: 'ipvs', v: '4', once: true, healthzPort: '5', config: '/c' }, AGENT_FLAGS);
    const some = ['config', 'healthz-port', 'iptables-sync-period', 'manifests', 'mode', 'once', 'v'];
    assert.deepEqual(
      some.map((name) => values.get(name)),
      ['/c', '5', '30s', '', 'ipvs', 'true', '4'],
    );
    assert.deepEqual([...values.keys()], [...values.keys()].sort());
    assert.ok(!values.has('metrics-port'), 'a flag that no help shows');
    const all = AGENT_FLAGS.flatMap(({ flags }) => flags).filter(({ isHidden }) => isHidden !== true);
    for (const { name } of all) assert.ok(values.has(name), name);
    assert.equal(flagValues({ leaderElect: 'false' }, CONTROLLER_FLAGS).get('leader-elect'), 'false');
    assert.equal(flagValues({}, CONTROLLER_FLAGS).get('leader-elect-lease-duration'), '15s');
  });

  it('have no user and no password of a URL', () => {
    for (const [given, shown] of [
      ['https://me:secret@192.0.2.1:6443/a', 'https://CLASSIFIED@192.0.2.1:6443/a'],
      ['https://a:s@cret@192.0.2.1', 'https://CLASSIFIED@192.0.2.1'],
      ['https://192.0.2.1/a@b', 'https://192.0.2.1/a@b'],
    ] as const)
      assert.equal(flagValues({ master: given }, AGENT_FLAGS).get('master'), shown);
  });
});
