/** Source ranges that change under fire: who is in none of them is never let in, and who is in all of them never kept out (k8s#88698). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { PORT, pods, vips, web } from '../conformance/stories/build.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

/** Changes, at least, and at most until a client has knocked so many times: how fast each is depends on the machine. */
const CHANGES = 40;
const MAX_CHANGES = 2000;
const KNOCKS = 100;

for (const backend of ['nft', 'legacy'] as const) {
  describe(`source ranges, iptables-${backend}`, () => {
    let lab: Lab;
    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
      for (const pod of ['pod-1', 'pod-2']) await lab.serve(pod, 'TCP', 8080);
    });
    after(() => lab.remove());

    it('are never open for a moment while they change (k8s#88698)', async () => {
      const w = cluster('IPv4');
      const rig = new Rig({ commands: commandsIn(lab, 'node'), sysctls: sysctlsIn(lab, 'node'), backend });
      const admitted = `${w.address('outside')}/32`;
      // Ranges, addresses and endpoints change; the client outside is always admitted, pod 3 never.
      const states = [
        { ranges: [admitted], addresses: [w.vip(1)], endpoints: ['pod-1'] },
        { ranges: ['203.0.113.0/24', admitted], addresses: [w.vip(1), w.vip(2)], endpoints: ['pod-1', 'pod-2'] },
        { ranges: [admitted, '198.18.0.0/15'], addresses: [w.vip(2), w.vip(1)], endpoints: ['pod-2'] },
      ] as const;
      const change = async (n: number) => {
        const { ranges, addresses, endpoints } = states[n % states.length] ?? states[0];
        const spec = { type: 'LoadBalancer', loadBalancerSourceRanges: ranges };
        rig.put(web(w, spec, vips(...addresses)), pods(w, ...endpoints));
        assert.equal((await rig.sync()).outcome, 'complete');
      };
      await change(0);
      let isOver = false;
      const answers = { outside: new Map<string, number>(), pod: new Map<string, number>() };
      const knock = async (host: string, count: Map<string, number>, timeout: number) => {
        while (!isOver) {
          const { outcome } = await lab.ask(host, { address: w.vip(1), port: PORT, timeout });
          count.set(outcome, (count.get(outcome) ?? 0) + 1);
        }
      };
      const knocking = [
        knock('client', answers.outside, 1500),
        ...Array.from({ length: 8 }, () => knock('pod-3', answers.pod, 20)),
      ];
      const knocked = () => answers.pod.get('timeout') ?? 0;
      for (let n = 1; n <= CHANGES || (knocked() <= KNOCKS && n <= MAX_CHANGES); n++) await change(n);
      isOver = true;
      await Promise.all(knocking);
      assert.deepEqual([...answers.pod.keys()], ['timeout'], JSON.stringify([...answers.pod]));
      assert.deepEqual([...answers.outside.keys()], ['reply'], JSON.stringify([...answers.outside]));
      assert.ok(knocked() > KNOCKS, `${knocked()} tries`);
    });
  });
}
