/** The order of our jumps in the built-in chains: kept, and repaired without a touch of other rules. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { driftText } from '../../../../src/proxy/model/drift.ts';
import {
  type Jump,
  jumpKey,
  jumpWrites,
  misplacedJumps,
  orderAfter,
} from '../../../../src/proxy/modes/netfilter/jumps.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { NEVER, Rig } from '../../../helpers/proxy/rig.ts';

const OTHERS = ['-s 203.0.113.1/32 -j ACCEPT', '-s 203.0.113.2/32 -j ACCEPT'] as const;
const KUBELET = '-j KUBE-FIREWALL';

interface Running {
  readonly rig: Rig;
  readonly commands: FakeIptables;
  rules(table: string, chain: string): string[];
}

async function running(): Promise<Running> {
  const commands = new FakeIptables();
  const rig = new Rig({ commands, families: ['IPv4'] });
  rig.put(
    service({ name: 'web', spec: { clusterIP: '10.96.0.20', ports: [{ port: 80 }] } }),
    slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.12'] }),
  );
  assert.equal((await rig.sync()).outcome, 'complete');
  const rules = (table: string, chain: string) => commands.kernels.IPv4.get(table)?.get(chain) ?? assert.fail();
  return { rig, commands, rules };
}

/** Reads the kernel again, and repairs it. */
async function resynced(rig: Rig): Promise<readonly string[]> {
  rig.loop.distrust();
  const { outcome, drift } = await rig.sync();
  assert.equal(outcome, 'complete');
  return drift.map(driftText);
}

describe('the order of jumps in a built-in chain', () => {
  it('is repaired when another program changed it, once, and other rules stay', async () => {
    const { rig, commands, rules } = await running();
    const forward = rules('filter', 'FORWARD');
    const wanted = [...forward];
    assert.ok(wanted.length > 2);
    forward.reverse().splice(1, 0, OTHERS[0]);
    forward.push(OTHERS[1]);
    assert.deepEqual(await resynced(rig), ['IPv4 filter FORWARD, order of jumps (changed)']);
    assert.deepEqual(rules('filter', 'FORWARD'), [...wanted, ...OTHERS]);
    assert.deepEqual((await rig.mode.inspection.compare(NEVER)).differences, []);
    const before = commands.kernels.IPv4;
    assert.deepEqual(await resynced(rig), []);
    assert.deepEqual((await rig.loop.plan(NEVER)).plan.steps, []);
    assert.equal(commands.kernels.IPv4, before);
  });

  it('is right after a jump was missing, wherever it stands', async () => {
    const { rig, rules } = await running();
    const wanted = [...rules('filter', 'FORWARD')];
    assert.ok(wanted.length > 2);
    for (const at of wanted.keys()) {
      rules('filter', 'FORWARD').splice(at, 1);
      await resynced(rig);
      assert.deepEqual(rules('filter', 'FORWARD'), wanted);
      assert.deepEqual((await rig.mode.inspection.compare(NEVER)).differences, []);
    }
  });

  it('leaves the jump alone that the kubelet shares', async () => {
    const { rig, rules } = await running();
    const input = rules('filter', 'INPUT');
    const ours = input.filter((rule) => rule !== KUBELET);
    assert.equal(ours.length + 1, input.length);
    input.splice(0, input.length, ...[...ours].reverse(), KUBELET);
    await resynced(rig);
    assert.deepEqual(rules('filter', 'INPUT'), [...ours, KUBELET]);
  });
});

describe('the plan of jumps', () => {
  const [a, b, c] = ['A', 'B', 'C'].map((target): Jump => {
    return { table: 'nat', chain: 'OUTPUT', target, text: `-j ${target}` };
  }) as [Jump, Jump, Jump];
  const wanted = { desired: new Map([a, b, c].map((jump) => [jumpKey(jump), jump])), shared: new Set<never>() };
  const keys = (...jumps: readonly Jump[]) => jumps.map(jumpKey);

  it('inserts what is missing at the top, and no more, where that is the right place', () => {
    const { misplaced, ...writes } = jumpWrites([c, b], [], { wanted, order: keys(a) });
    assert.deepEqual([writes, misplaced], [{ inserted: [b, c], moved: [], gone: [] }, []]);
  });

  it('inserts all anew where it is not', () => {
    const { misplaced, ...writes } = jumpWrites([a], [], { wanted, order: keys(c, b) });
    assert.deepEqual(writes, { inserted: [a, b, c], moved: [c, b], gone: [] });
    assert.equal(misplaced.length, 1);
    assert.deepEqual(misplacedJumps(wanted, orderAfter(keys(c, b), writes)), []);
  });

  it('ends in the right order from every state', () => {
    const states = [[], [a], [b, a], [a, b], [a, b, c], [c, a, b], [b, c, a], [c, b, a]];
    for (const state of states) {
      const missing = [a, b, c].filter((jump) => !state.includes(jump));
      const writes = jumpWrites(missing, [], { wanted, order: keys(...state) });
      assert.deepEqual(orderAfter(keys(...state), writes), keys(c, b, a));
    }
  });
});
