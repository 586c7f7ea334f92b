/** The stories in iptables mode, told by the interpreter from what the mode wrote into a kernel in memory. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../src/model/address.ts';
import { FakeIptables } from '../helpers/fake-iptables.ts';
import { Rig } from '../helpers/rig.ts';
import { type Fate, fatesOf } from './interpreter.ts';
import { STORIES } from './stories/index.ts';
import type { Expected, StoryPacket } from './story.ts';
import { type BackendName, deviceOf, type World, world } from './world.ts';

const POD_PORT = 8080;

for (const family of ['IPv4', 'IPv6'] as const) {
  describe(`conformance, iptables mode, ${family}`, () => {
    for (const story of STORIES) {
      if (story.families !== undefined && !story.families.includes(family)) continue;
      it(`${story.field}: ${story.title}`, async () => {
        const w = world(family);
        const { objects, packets, settings, zone } = story.tell(w);
        const kernel = new FakeIptables();
        const rig = new Rig({ commands: kernel, settings: (of) => (of === family ? { ...settings } : {}) });
        if (zone !== undefined) rig.put(nodeOfZone(zone));
        const report = await rig.put(...objects).sync();
        assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
        for (const { packet, expected } of packets) {
          const fates = tell(kernel.save(family), packet, w);
          assertFates(fates, expected, w);
        }
      });
    }
  });
}

function nodeOfZone(zone: string): object {
  const labels = { 'topology.kubernetes.io/zone': zone };
  return { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node', labels } };
}

function tell(saved: string, { from, to, port, protocol = 'TCP' }: StoryPacket, w: World): Fate[] {
  const source = to === w.loopback ? w.loopback : w.address(from);
  const packet = { protocol, source, destination: to as Address, port, device: deviceOf(from) };
  return fatesOf(saved, packet, { localAddresses: w.local, remembered: new Set() });
}

function assertFates(fates: readonly Fate[], expected: Expected, w: World): void {
  assert.deepEqual([...new Set(fates.map((fate) => fate.kind))], [expected.kind], JSON.stringify(fates));
  if (expected.kind !== 'balanced') return;
  const wanted = new Map<string, { share: number; masqueraded: boolean }>();
  for (const [name, share] of Object.entries(expected.shares)) {
    const address = w.address(name as BackendName);
    const backend = address.includes(':') ? `[${address}]:${POD_PORT}` : `${address}:${POD_PORT}`;
    const { masqueraded } = expected;
    const isMasqueraded = masqueraded === 'all' || masqueraded.includes(name as never);
    wanted.set(backend, { share, masqueraded: masqueraded !== 'none' && isMasqueraded });
  }
  assert.deepEqual(new Set(fates.map((fate) => fate.backend)), new Set(wanted.keys()));
  for (const fate of fates) {
    const { share, masqueraded } = wanted.get(fate.backend) ?? assert.fail();
    assert.ok(Math.abs(fate.probability - share) < 1e-6, `${fate.backend} gets ${fate.probability}, not ${share}`);
    assert.equal(fate.masqueraded, masqueraded, `masquerading of ${fate.backend}`);
  }
}
