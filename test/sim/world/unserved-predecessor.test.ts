/** A mode that does not serve a family leaves the rules of its predecessor there: they are all that serves it. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { OBJECTS, type Scene, simScene } from './scene.ts';

it('a mode that takes over leaves the table of a family whose tools do not work', async () => {
  const scene = simScene({ mode: 'nftables', variant: 'nft' });
  const { kernel, lines } = scene;
  try {
    await scene.run(2000);
    assert.deepEqual(kernel.nft.tables('IPv6'), ['slicewire']);
    kernel.iptables.missing.add('ip6tables');
    scene.restartIn('iptables');
    await scene.run(5000);
    assert.deepEqual([kernel.nft.tables('IPv4'), kernel.nft.tables('IPv6')], [[], ['slicewire']], lines.join('\n'));
  } finally {
    scene.end();
  }
});

/** The variant of a tool's failure (kernel/iptables/tools.ts). */
const EXIT_STATUS_1 = 2;

/** The families that `/programmed` calls unserved. */
async function unservedIn(scene: Scene): Promise<readonly string[]> {
  const answer = await scene.ask('/programmed');
  assert.equal(answer?.status, 200, scene.lines.join('\n'));
  const { unserved } = JSON.parse(answer.body) as { readonly unserved: readonly { readonly family: string }[] };
  return unserved.map(({ family }) => family);
}

for (const [what, first, unserved] of [
  ['a family whose former rules still choose endpoints', 'iptables', ['IPv6']],
  ['no family where no former rules stand', 'nftables', []],
] as const) {
  it(`nftables mode calls unserved ${what}`, async () => {
    const scene = simScene({ mode: first, variant: 'nft' });
    try {
      await scene.run(2000);
      scene.kernel.iptables.missing.add('ip6tables');
      scene.restartIn('nftables');
      await scene.run(5000);
      assert.deepEqual(await unservedIn(scene), unserved, scene.lines.join('\n'));
    } finally {
      scene.end();
    }
  });
}

it('nftables mode calls a family unserved whose legacy tables may hold rules, while its tool fails', async () => {
  const scene = simScene({ mode: 'iptables', variant: 'legacy' });
  try {
    await scene.run(2000);
    scene.calls.faultAt = (_number, what) =>
      what.startsWith('ip6tables ') ? { kind: 'fails', when: 'before', variant: EXIT_STATUS_1 } : undefined;
    scene.restartIn('nftables');
    await scene.run(5000);
    assert.deepEqual(await unservedIn(scene), ['IPv6'], scene.lines.join('\n'));
    scene.calls.faultAt = () => undefined;
    await scene.run(60_000);
    assert.deepEqual(await unservedIn(scene), [], scene.lines.join('\n'));
    assert.equal(scene.kernel.views('IPv6').iptables, undefined, 'the rules are gone');
  } finally {
    scene.end();
  }
});

/** IPVS mode serves these objects in both families, and another mode follows it where ip6tables does not work. */
async function afterIpvs(objects: readonly object[], next: 'iptables' | 'nftables'): Promise<Scene> {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  scene.put(objects);
  await scene.run(20_000);
  scene.kernel.iptables.missing.add('ip6tables');
  scene.restartIn(next);
  await scene.run(200_000);
  return scene;
}

const OF_IPV6 = [
  service({ name: 'six', spec: { clusterIP: 'fd00:10:96::10', ipFamilies: ['IPv6'], ports: [{ port: 80 }] } }),
  slice({ name: 'six-1', service: 'six', addressType: 'IPv6', endpoints: ['fd00:10:244::7'] }),
];

it('the device of IPVS mode goes although a family that is not served has its sets, if they are empty', async () => {
  const scene = await afterIpvs(OBJECTS, 'iptables');
  const { sets, hasDevice } = scene.kernel.ipvs.state;
  try {
    assert.ok(sets.has('KUBE-6-CLUSTER-IP'), 'the family is not served');
    assert.equal(hasDevice, false);
  } finally {
    scene.end();
  }
});

for (const next of ['iptables', 'nftables'] as const) {
  it(`the device of IPVS mode stays for a family without iptables, is no sign of kube-proxy in ${next} mode, and the cleanup says why it stays`, async () => {
    const scene = await afterIpvs([...OBJECTS, ...OF_IPV6], next);
    const { kernel, lines } = scene;
    try {
      assert.deepEqual([...kernel.ipvs.state.addresses], ['fd00:10:96::10']);
      assert.deepEqual(
        lines.filter((line) => line.includes('came back')),
        [],
      );
      const { problems } = await scene.cleanUp();
      assert.match(
        problems.join('\n'),
        /device kube-ipvs0: it stays, because IPv6 has addresses on it.*the rules of other modes stay/,
      );
      assert.deepEqual([...kernel.ipvs.state.addresses], ['fd00:10:96::10']);
      assert.equal(kernel.nft.tables('IPv6').length, next === 'nftables' ? 1 : 0);
      kernel.iptables.missing.delete('ip6tables');
      assert.deepEqual((await scene.cleanUp()).problems, []);
      assert.deepEqual([kernel.ipvs.state.hasDevice, ...kernel.nft.tables('IPv6')], [false]);
    } finally {
      scene.end();
    }
  });
}
