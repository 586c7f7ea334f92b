import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { historyOf } from '../../../src/inspect/history/history-content.ts';
import { flightOf, readRecording } from '../../../src/inspect/history/reading.ts';
import { planRecord } from '../../../src/inspect/history/records.ts';
import { Replay, type ReplayedSync } from '../../../src/inspect/replay/replay-recording.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { type Plan, planText } from '../../../src/proxy/reconcile/step.ts';
import { aStep, type Step } from '../../helpers/cluster/histories.ts';
import { nodeOf } from '../../helpers/cluster/objects.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import type { RecordedRig } from '../history/recorded-rig.ts';
import { chunksOf, record, recordedRig } from './recorded-parts.ts';

function take(rig: RecordedRig, step: Step): void {
  if (step.kind === 'put') rig.put(step.object);
  else if (step.kind === 'zone') rig.put(nodeOf(step.zone));
  else if (step.kind === 'remove') {
    const [kind = '', key = ''] = step.id.split(' ');
    rig.remove(kind === 'Service' ? 'services' : 'slices', key);
  }
}

async function replayed(bytes: Buffer): Promise<ReplayedSync[]> {
  const problems: string[] = [];
  const lines = readRecording(chunksOf(bytes), (text) => problems.push(text));
  const found = await Array.fromAsync(new Replay({ signal: NEVER }).syncs(lines));
  assert.deepEqual(problems, []);
  return found;
}

const aHistory = fc.record({
  before: fc.array(aStep, { maxLength: 10 }),
  steps: fc.array(fc.record({ step: aStep, pause: fc.constantFrom(1, 300, 999, 1000, 2500), isResync: fc.boolean() }), {
    minLength: 5,
    maxLength: 30,
  }),
  isFromStart: fc.boolean(),
});

for (const mode of ['iptables', 'nftables', 'ipvs'] as const satisfies readonly ModeName[]) {
  describe(`a recording of ${mode} mode`, () => {
    it('replays as the same plans, byte for byte', async () => {
      await fc.assert(
        fc.asyncProperty(aHistory, async ({ before, steps, isFromStart }) => {
          const rig = recordedRig(mode);
          const plans: Plan[] = [];
          const planned = rig.recorder.planned.bind(rig.recorder);
          rig.recorder.planned = (plan) => {
            plans.push(plan);
            planned(plan);
          };
          let recording = isFromStart ? record(rig, mode) : undefined;
          for (const step of before) take(rig, step);
          await rig.sync('start');
          // What waits for its time when a recording begins is not in the recording.
          rig.clock.advance(5000);
          await rig.sync('resync');
          const wanted: string[] = [];
          /** A long plan is compared by its text alone: a recording has no digest of it. */
          const long = new Set<string>();
          if (recording === undefined) {
            plans.length = 0;
            recording = record(rig, mode);
          } else wanted.push('');
          for (const { step, pause, isResync } of steps) {
            rig.clock.advance(pause);
            take(rig, step);
            if (step.kind !== 'sync') continue;
            plans.length = 0;
            if (isResync) rig.rig.loop.distrust();
            await rig.sync();
            wanted.push(plans.map(planText).join('\n\n'));
            if (plans.some((plan) => planRecord(plan).digest === '')) long.add(wanted.at(-1) ?? '');
          }
          await setImmediate();
          const syncs = await replayed(recording.bytes());
          assert.deepEqual(
            syncs.slice(isFromStart ? 2 : 0).map((sync) => sync.planText),
            wanted.slice(isFromStart ? 1 : 0),
          );
          // The order of the first plan of all is that in which the lists came, which is not recorded.
          const [first, ...others] = syncs;
          assert.notEqual(first?.isSame, false);
          for (const { isSame, why, planText } of isFromStart ? others : syncs)
            assert.equal(isSame, long.has(planText) ? undefined : true, why);
        }),
        { numRuns: 40 },
      );
    });
  });
}

describe('the history in a recording', () => {
  it('is that of the recorder', async () => {
    const rig = recordedRig('iptables');
    await rig.sync('start');
    const recording = record(rig, 'iptables');
    rig.put({
      kind: 'Service',
      metadata: { name: 'web', namespace: 'shop' },
      spec: { clusterIP: '10.96.0.9', clusterIPs: ['10.96.0.9'], ports: [{ name: 'http', port: 80 }] },
    });
    rig.clock.advance(30);
    await rig.sync();
    await setImmediate();
    const flight = await flightOf(readRecording(chunksOf(recording.bytes(), 7), assert.fail));
    const question = { service: 'shop/web', at: rig.clock.wall() };
    const [fromFile, fromMemory] = [await historyOf(flight, question), await historyOf(rig.recorder, question)];
    assert.deepEqual(fromFile.changes, fromMemory.changes);
    assert.deepEqual(fromFile.syncs, fromMemory.syncs);
    assert.deepEqual(fromFile.stood, fromMemory.stood);
    assert.equal(flight.start?.parts.nodeName, 'node');
    // What stood when the recording began was not written by the first sync in it.
    const { changes } = await historyOf(flight, {});
    assert.deepEqual(
      changes.map(({ object, sync, inKernelAt, milliseconds }) => [object, sync, inKernelAt !== null, milliseconds]),
      [
        ['the initial lists', null, true, null],
        ['Service shop/web', 2, true, fromFile.changes[0]?.milliseconds],
      ],
    );
  });
});
