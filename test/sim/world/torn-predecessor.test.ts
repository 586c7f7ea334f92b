/** A mode takes over from one that was killed in the middle of its first write. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { leftovers } from '../check/liveness.ts';
import { simScene } from './scene.ts';

/** The variant of a failure: the tool is killed after it wrote its first table (kernel/iptables/iptables.ts). */
const KILLED = 695;

it('nftables mode removes what IPVS mode wrote in the table mangle before it was killed', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'legacy' });
  const left = () => leftovers(scene.kernel.views('IPv4'), 'nftables');
  try {
    // The second restore of each family has all tables.
    const restores = new Map<string, number>();
    scene.calls.faultAt = (_number, what) => {
      if (!what.includes('tables-restore')) return undefined;
      restores.set(what, (restores.get(what) ?? 0) + 1);
      return restores.get(what) === 2 ? { kind: 'fails', when: 'before', variant: KILLED } : undefined;
    };
    const areTorn = () => restores.size === 2 && [...restores.values()].every((count) => count === 2);
    for (let i = 0; i < 1000 && !areTorn(); i++) await scene.run(1);
    await scene.run(20);
    assert.ok(areTorn() && left().length > 0, scene.lines.join('\n'));
    scene.restartIn('nftables');
    await scene.run(60_000);
    assert.deepEqual(left(), [], scene.lines.join('\n'));
    // A set stays as long as a rule refers to it.
    const health = await scene.ask('/healthz');
    assert.equal(health?.status, 200, scene.lines.join('\n'));
    const refused = scene.lines.filter((line) => line.includes('a rule refers to the set'));
    assert.deepEqual(refused, []);
  } finally {
    scene.end();
  }
});
