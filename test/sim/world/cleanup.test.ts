/** `slicewire cleanup` where the takeover from IPVS mode was not complete: its servers are behind the rules of the next mode. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { removeAll } from '../../../src/agent/predecessors.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { leftovers } from '../check/liveness.ts';
import { SimProcess } from '../engine/process.ts';
import { type Scene, simScene } from './scene.ts';

/** While no agent runs. */
async function cleanedUp(scene: Scene): ReturnType<typeof removeAll> {
  const { time } = scene.kernel;
  scene.process().kill();
  const process = new SimProcess('cleanup', scene.kernel.nextPid(), scene.calls);
  const config = configFromFlags({ manifests: '/manifests', hostnameOverride: 'node', proxyMode: 'nftables' });
  let result: Awaited<ReturnType<typeof removeAll>> = { removed: [], problems: [] };
  const done = process.run(async () => {
    result = await removeAll(config, new AbortController().signal, scene.platform(process));
  });
  await time.runUntil(time.now + 50);
  await done;
  return result;
}

it('keeps the rules while the servers behind them cannot be removed, and the next one removes all', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  const fails = (part: string) => {
    scene.calls.faultAt = (_number, what) =>
      what.includes(part) ? { kind: 'fails', when: 'before', variant: 0 } : undefined;
  };
  const left = (): readonly string[] => leftovers(scene.kernel.views('IPv4'), 'nftables');
  try {
    await scene.run(20_000);
    fails('remove a server');
    scene.restartIn('iptables');
    await scene.run(20_000);
    const both = ['chains of iptables mode are left', 'objects of IPVS mode are left'];
    assert.ok(new Set(both).isSubsetOf(new Set(left())), left().join());
    for (const part of ['ipset: list', 'remove a server']) {
      fails(part);
      const { removed, problems } = await cleanedUp(scene);
      assert.deepEqual([removed, problems.length], [[], 1], `${part}: ${problems}`);
      assert.match(problems[0] ?? '', /the rules of other modes stay, because packets would reach the servers/);
      assert.ok(new Set(both).isSubsetOf(new Set(left())), left().join());
    }
    scene.calls.faultAt = () => undefined;
    assert.deepEqual((await cleanedUp(scene)).problems, []);
    assert.deepEqual(left(), []);
  } finally {
    scene.end();
  }
});
