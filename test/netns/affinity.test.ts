/**
 * ClientIP affinity over real packets, with both variants of iptables: a client stays, leaves an endpoint that is no longer
 * ready (k8s#110302), and is forgotten after the timeout (k8s#89358).
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { PORT, pods, UNREADY, web } from '../conformance/stories/build.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

/** Connections within which a client must be held six times in a row. */
const MAX_ASKED = 100;

for (const backend of ['nft', 'legacy'] as const) {
  describe(`affinity, iptables-${backend}`, () => {
    let lab: Lab;
    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
      for (const host of ['pod-1', 'pod-2']) await lab.serve(host, 'TCP', 8080);
    });
    after(() => lab.remove());

    /** Who answers pod 3, or why nobody does. */
    const answerer = async (address: string) => {
      const answer = await lab.ask('pod-3', { address, port: PORT });
      return answer.outcome === 'reply' ? answer.by : answer.outcome;
    };

    for (const family of ['IPv4', 'IPv6'] as const) {
      it(`${family}: a client stays, and leaves an endpoint that is no longer ready (k8s#110302)`, async () => {
        const w = cluster(family);
        const rig = new Rig({ commands: commandsIn(lab, 'node'), sysctls: sysctlsIn(lab, 'node'), backend });
        rig.put(web(w, { sessionAffinity: 'ClientIP' }), pods(w, 'pod-1', 'pod-2'));
        assert.equal((await rig.sync()).outcome, 'complete');
        const ask = () => answerer(w.clusterIP(10));
        const first = await ask();
        for (let i = 0; i < 20; i++) assert.equal(await ask(), first, 'a client stays where it was');
        const gone = first === 'pod-1' ? 'pod-1' : 'pod-2';
        const left = first === 'pod-1' ? 'pod-2' : 'pod-1';
        rig.put(pods(w, { at: gone, conditions: UNREADY }, left));
        assert.equal((await rig.sync()).outcome, 'complete');
        for (let i = 0; i < 5; i++) assert.equal(await ask(), left, 'a client is not held to an endpoint that left');
        // A restart finds every rule as it was written.
        const again = new Rig({ commands: commandsIn(lab, 'node'), sysctls: sysctlsIn(lab, 'node'), backend });
        again.put(web(w, { sessionAffinity: 'ClientIP' }), pods(w, { at: gone, conditions: UNREADY }, left));
        assert.deepEqual(
          (await again.loop.plan(NEVER)).plan.steps.map((step) => step.key),
          [],
        );
      });

      it(`${family}: a client is remembered for the timeout, and no longer (k8s#89358)`, async () => {
        const w = cluster(family);
        const rig = new Rig({ commands: commandsIn(lab, 'node'), sysctls: sysctlsIn(lab, 'node'), backend });
        const config = { clientIP: { timeoutSeconds: 1 } };
        const sticky = { clusterIP: w.clusterIP(12), sessionAffinity: 'ClientIP', sessionAffinityConfig: config };
        rig.put(web(w, sticky), pods(w, 'pod-1', 'pod-2'));
        assert.equal((await rig.sync()).outcome, 'complete');
        const ask = () => answerer(w.clusterIP(12));
        let [first, before] = [await ask(), performance.now()];
        // Longer than the timeout in all: each connection is remembered anew. On a busy machine an answer may take longer than the
        // timeout: it says nothing then, and the count begins again, a hundred times at most in all.
        let asked = 0;
        for (let held = 0; held < 6; ) {
          asked += 1;
          assert.ok(asked <= MAX_ASKED, `${asked} answers, and never six in a row within the timeout`);
          await pause(300);
          const begun = performance.now();
          const answer = await ask();
          if (performance.now() - before < 1000) {
            assert.equal(answer, first);
            held += 1;
          } else [first, held] = [answer, 0];
          before = begun;
        }
        // Forgotten, it is balanced again: the other is missed fifteen times once in 32,768 runs.
        for (let i = 0; i < 15; i++) {
          await pause(1100);
          if ((await ask()) !== first) return;
        }
        assert.fail('the client was never forgotten');
      });
    }
  });
}
