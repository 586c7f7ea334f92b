/** The agent takes over from kube-proxy in each of its modes, in the layout of the real one, and nothing of it is left. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { leftovers } from '../check/liveness.ts';
import { config, INTERFACES, MODES } from '../check/mode-world.ts';
import { Versions } from '../check/versions.ts';
import { leftOf, writeAsPredecessor } from './predecessor.ts';
import { OBJECTS, simScene } from './scene.ts';

/** The ports of the scene's Services, with their endpoints. */
function portsOf() {
  const versions = new Versions({ config: config('iptables'), nodeName: 'node', interfaces: INTERFACES });
  for (const object of OBJECTS) versions.put(object);
  const ports = [...versions.frontends]
    .map((frontend) => versions.portAt(frontend))
    .filter((port) => port !== undefined);
  return [...new Map(ports.map((port) => [port.key, port])).values()];
}

for (const predecessor of MODES) {
  for (const mode of MODES) {
    it(`${mode} mode takes over from kube-proxy in ${predecessor} mode`, async () => {
      const scene = simScene({ mode, variant: 'nft' });
      try {
        writeAsPredecessor(scene.kernel, predecessor, portsOf());
        await scene.run(60_000);
        const left = ['IPv4' as const, 'IPv6' as const].flatMap((family) =>
          leftovers(scene.kernel.views(family), mode),
        );
        assert.deepEqual([...left, ...leftOf(scene.kernel)], [], scene.lines.join('\n'));
        assert.equal((await scene.ask('/healthz'))?.status, 200, scene.lines.join('\n'));
      } finally {
        scene.end();
      }
    });
  }
}

it('nftables mode removes rules that kube-proxy in IPVS mode writes again while its sets are removed', async () => {
  const scene = simScene({ mode: 'nftables', variant: 'nft' });
  const write = () => void writeAsPredecessor(scene.kernel, 'ipvs', portsOf());
  let times = 0;
  scene.calls.faultAt = (_number, what) => {
    if (/destroy a set/.test(what) && ++times === 1) write();
    return undefined;
  };
  try {
    write();
    await scene.run(120_000);
    const left = ['IPv4' as const, 'IPv6' as const].flatMap((family) =>
      leftovers(scene.kernel.views(family), 'nftables'),
    );
    assert.ok(times > 0);
    assert.deepEqual(left, [], scene.lines.join('\n'));
    assert.equal((await scene.ask('/healthz'))?.status, 200, scene.lines.join('\n'));
  } finally {
    scene.end();
  }
});

it('iptables mode finds what IPVS mode left although another program removed the device', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  const { ipvs } = scene.kernel;
  try {
    await scene.run(20_000);
    ipvs.write({ kind: 'remove-device' });
    scene.restartIn('iptables');
    await scene.run(60_000);
    assert.deepEqual([ipvs.state.servers.size, ipvs.state.sets.size], [0, 0], scene.lines.join('\n'));
    assert.equal((await scene.ask('/healthz'))?.status, 200, scene.lines.join('\n'));
  } finally {
    scene.end();
  }
});
