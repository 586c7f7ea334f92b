/** `slicewire cleanup` where the takeover from IPVS mode was not complete: its servers are behind the rules of the next mode. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { leftovers } from '../check/liveness.ts';
import { simScene } from './scene.ts';

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
    for (const part of ['rtnetlink: open a socket', 'ipset: list', 'remove a server']) {
      fails(part);
      const { removed, problems } = await scene.cleanUp();
      assert.deepEqual([removed, problems.length], [[], 1], `${part}: ${problems}`);
      assert.match(problems[0] ?? '', /the rules of other modes stay, because packets would reach the servers/);
      assert.ok(new Set(both).isSubsetOf(new Set(left())), left().join());
    }
    scene.calls.faultAt = () => undefined;
    assert.deepEqual((await scene.cleanUp()).problems, []);
    assert.deepEqual(left(), []);
  } finally {
    scene.end();
  }
});

it('removes the rules of other modes where only rules and sets of IPVS mode are left', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  const fails = (part: string) => {
    scene.calls.faultAt = (_number, what) =>
      what.includes(part) ? { kind: 'fails', when: 'before', variant: 0 } : undefined;
  };
  try {
    await scene.run(20_000);
    fails('remove a server');
    scene.restartIn('nftables');
    await scene.run(20_000);
    fails('destroy a set');
    const { problems } = await scene.cleanUp();
    assert.ok(problems.length > 0);
    assert.ok(scene.kernel.ipvs.state.sets.has('KUBE-CLUSTER-IP'));
    assert.deepEqual(scene.kernel.nft.tables('IPv4'), []);
  } finally {
    scene.end();
  }
});
