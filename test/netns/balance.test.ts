/** Shares of real connections (k8s#37932): among three endpoints each gets a third, within five standard deviations. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { PORT, pods, web } from '../conformance/stories/build.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

const REQUESTS = 450;

for (const backend of ['nft', 'legacy'] as const) {
  describe(`balance, iptables-${backend}`, () => {
    let lab: Lab;
    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 1, signal: NEVER });
      for (const host of ['pod-1', 'pod-2', 'other']) await lab.serve(host, 'TCP', 8080);
    });
    after(() => lab.remove());

    it('is even over three endpoints (k8s#37932)', async () => {
      const w = cluster('IPv4');
      const rig = new Rig({ commands: commandsIn(lab, 'node'), sysctls: sysctlsIn(lab, 'node'), backend });
      await rig.put(web(w), pods(w, 'pod-1', 'pod-2', 'other')).sync();
      const counts = new Map<string, number>();
      for (let i = 0; i < REQUESTS; i++) {
        const answer = await lab.ask('pod-3', { address: w.clusterIP(10), port: PORT });
        const who = answer.outcome === 'reply' ? answer.by : answer.outcome;
        counts.set(who, (counts.get(who) ?? 0) + 1);
      }
      const share = 1 / 3;
      const allowed = 5 * Math.sqrt(REQUESTS * share * (1 - share));
      assert.deepEqual(new Set(counts.keys()), new Set(['pod-1', 'pod-2', 'other']));
      for (const [who, count] of counts) {
        assert.ok(Math.abs(count - REQUESTS * share) < allowed, `${who} got ${count} of ${REQUESTS}`);
      }
    });
  });
}
