/** Every recording of this folder replays over kernels that refuse what real ones refuse (README.md). */
import assert from 'node:assert/strict';
import { createReadStream, globSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { realClock } from '../../src/base/clock.ts';
import { readRecording } from '../../src/inspect/history/reading.ts';
import type { RecordedParts } from '../../src/inspect/history/shapes.ts';
import type { ReplayKernels } from '../../src/inspect/replay/kernels-in-memory.ts';
import { Replay, type ReplayedParts, replayedParts } from '../../src/inspect/replay/replay-recording.ts';
import { SOURCE_KINDS } from '../../src/proxy/model/events.ts';
import { stepText } from '../../src/proxy/reconcile/step.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../helpers/kernel/fake-ipvs.ts';
import { FakeNft } from '../helpers/kernel/fake-nft.ts';
import { fakeSysctls, NEVER } from '../helpers/proxy/rig.ts';

function checkingKernels({ interfaces }: RecordedParts): ReplayKernels {
  const ipvs = new FakeIpvs();
  for (const address of interfaces) ipvs.others.add(address);
  const commands = new FakeIptables({ hasSet: (name) => ipvs.sets.has(name) });
  ipvs.options = { isSetUsed: (name) => commands.refersTo(name) };
  return { commands, ipvs, nft: new FakeNft(), sysctls: fakeSysctls() };
}

/** What an agent that starts now would write. */
async function missing(recorded: RecordedParts, { cache }: ReplayedParts, kernels: ReplayKernels): Promise<string[]> {
  const fresh = replayedParts({ recorded, kernels, clock: realClock, modeTime: () => 0, onPlan: () => undefined });
  const { node } = cache;
  if (node !== undefined) fresh.cache.take({ kind: 'node', key: node.name, node, faults: [] });
  for (const service of cache.services()) fresh.cache.take({ kind: 'service', key: service.key, service, faults: [] });
  for (const slice of cache.slices.all()) {
    fresh.cache.take({ kind: 'slice', key: slice.key, slice, triggeredAt: 0, faults: [] });
  }
  for (const of of SOURCE_KINDS) fresh.cache.take({ kind: 'synced', of });
  const { plan } = await fresh.loop.plan(NEVER);
  // Removals wait for their time: packets may still need what nothing leads to.
  return plan.steps.filter(({ action }) => action !== 'remove').map(stepText);
}

describe('recordings', () => {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  const files = globSync('*.recording', { cwd: folder }).sort();

  it('are there to be replayed', () => assert.ok(files.length > 0));

  for (const file of files) {
    it(`${basename(file, '.recording')} replays without a refusal`, async () => {
      let kernels: ReplayKernels | undefined;
      const replay = new Replay({
        signal: NEVER,
        kernels: (parts) => {
          kernels = checkingKernels(parts);
          return kernels;
        },
      });
      let syncs = 0;
      for await (const sync of replay.syncs(readRecording(createReadStream(folder + file), assert.fail))) {
        syncs += 1;
        const { number, isSame, report } = sync;
        assert.notEqual(isSame, false, `sync ${number} has another plan:\n${sync.planText}`);
        if (report === undefined) continue;
        assert.deepEqual([report.outcome, report.failed], ['complete', []], `sync ${number}`);
        const { parts, recorded } = replay;
        assert.ok(parts !== undefined && recorded !== undefined && kernels !== undefined);
        assert.deepEqual(await missing(recorded.parts, parts, kernels), [], `after sync ${number}`);
      }
      assert.ok(syncs > 0, 'the recording has no sync');
    });
  }
});
