/** Suspects in the history, in recordings and in replays: they explain what the kernel had. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { anonymized } from '../../../src/inspect/history/anonymize.ts';
import { historyOf } from '../../../src/inspect/history/history-content.ts';
import { objectsAt } from '../../../src/inspect/history/past.ts';
import { readRecording } from '../../../src/inspect/history/reading.ts';
import { Replay } from '../../../src/inspect/replay/replay-recording.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import type { RecordedRig } from '../../inspect/history/recorded-rig.ts';
import { chunksOf, record, recordedRig } from '../../inspect/replay/recorded-parts.ts';

const endpoint = (host: number, nodeName: string) => ({ addresses: [`10.244.1.${host}`], nodeName });

async function started(mode: 'iptables' | 'nftables' | 'ipvs'): Promise<RecordedRig> {
  const rig = recordedRig(mode);
  const spec = { clusterIP: '10.96.0.9', clusterIPs: ['10.96.0.9'], ports: [{ port: 80 }] };
  const endpoints = [endpoint(1, 'node-2'), endpoint(2, 'node-3')];
  rig.put(nodeOf('a'), service({ name: 'web', spec }), slice({ name: 'web-1', service: 'web', endpoints }));
  await rig.sync('start');
  return rig;
}

/** A suspect comes, and goes. */
async function comesAndGoes(rig: RecordedRig): Promise<void> {
  for (const suspects of [['node-2'], []]) {
    rig.clock.advance(3000);
    rig.suspect(suspects, ['default/web']);
    await rig.sync();
  }
  await setImmediate();
}

const uses = (rig: RecordedRig) =>
  rig.rig.model.portsOf('default/web').flatMap(({ cluster }) => cluster.map(({ text }) => text));

describe('suspects', () => {
  for (const mode of ['iptables', 'nftables', 'ipvs'] as const) {
    it(`are in a recording of ${mode} mode, which replays as the same plans`, async () => {
      const rig = await started(mode);
      const recording = record(rig, mode);
      await comesAndGoes(rig);
      const lines = readRecording(chunksOf(recording.bytes()), assert.fail);
      const syncs = await Array.fromAsync(new Replay({ signal: NEVER }).syncs(lines));
      assert.deepEqual(
        syncs.map(({ isSame }) => isSame),
        [true, true],
      );
      assert.ok(
        syncs.every(({ planText }) => planText !== ''),
        'each wrote something',
      );
    });
  }

  it('are in a recording that began when there were some', async () => {
    const rig = await started('nftables');
    rig.suspect(['node-2'], ['default/web']);
    await rig.sync();
    assert.deepEqual(uses(rig), ['10.244.1.2:8080']);
    const recording = record(rig, 'nftables');
    await comesAndGoes(rig);
    assert.equal(uses(rig).length, 2);
    const lines = readRecording(chunksOf(recording.bytes()), assert.fail);
    const syncs = await Array.fromAsync(new Replay({ signal: NEVER }).syncs(lines));
    // The first one writes nothing, so there is nothing to compare.
    assert.deepEqual(
      syncs.map(({ isSame }) => isSame),
      [undefined, true],
    );
  });

  it('stay when the Node changes otherwise', async () => {
    const rig = await started('nftables');
    rig.suspect(['node-2'], ['default/web']);
    await rig.sync();
    rig.put(nodeOf('b'));
    await rig.sync();
    assert.deepEqual(uses(rig), ['10.244.1.2:8080']);
    assert.deepEqual([rig.rig.cache.node?.zone, rig.rig.cache.node?.suspects], ['b', ['node-2']]);
  });

  it('are a change of this Node in the history, and known of an earlier moment', async () => {
    const rig = await started('nftables');
    await comesAndGoes(rig);
    const at = rig.clock.wall();
    const { changes } = await historyOf(rig.recorder, { service: undefined, at });
    const phrases = changes.flatMap(({ what }) => what);
    assert.ok(phrases.includes('no answer from Node node-2: its endpoints get no new connections'), phrases.join('\n'));
    assert.ok(phrases.includes('Node node-2 is no suspect any more: its endpoints count again'), phrases.join('\n'));
    assert.deepEqual((await objectsAt(rig.recorder, at - 2000)).node?.suspects, ['node-2']);
    assert.equal((await objectsAt(rig.recorder, at)).node?.suspects, undefined);
  });

  it('have other names in an anonymous recording', async () => {
    const rig = await started('nftables');
    const recording = record(rig, 'nftables');
    await comesAndGoes(rig);
    const lines = await Array.fromAsync(
      anonymized(readRecording(chunksOf(recording.bytes()), assert.fail), Buffer.alloc(32)),
    );
    const text = JSON.stringify(lines);
    assert.match(text, /"suspects":\["node-\d"\]/);
    const suspects = lines.flatMap((line) =>
      line.type === 'change' && line.delta.kind === 'Node' ? (line.delta.delta.all?.suspects ?? []) : [],
    );
    assert.ok(text.split(`"${suspects[0]}"`).length > 2, 'endpoints have the same name of it');
  });
});
