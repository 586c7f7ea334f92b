/** The simulated tools of iptables take and refuse as the real ones: random restores, right and wrong ones, to both. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../../src/base/address.ts';
import { Random } from '../../helpers/base/random.ts';
import { Calls, SimProcess } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import { SimKernel } from '../kernel/kernel.ts';
import { compareWithReal } from '../real/compare.ts';
import { recordOf } from '../real/record.ts';

const RESTORES = 150;
const CHAINS = ['KUBE-A', 'KUBE-B', 'KUBE-C'] as const;
const NEVER = new AbortController().signal;

describe('restores of the simulated tools', () => {
  for (const variant of ['nft', 'legacy'] as const) {
    it(`end as those of the real ones, and leave the same (${variant})`, async () => {
      const time = new SimTime(() => 0.5);
      const kernel = new SimKernel({ time, iptables: variant });
      const record = recordOf(kernel);
      const tools = kernel.iptables.commands(new SimProcess('program', kernel.nextPid(), new Calls(time)));
      const random = new Random(18);
      const ends = { done: 0, refused: 0 };
      for (let n = 0; n < RESTORES; n++) {
        const file = random.pick(FAMILIES) === 'IPv4' ? 'iptables-restore' : 'ip6tables-restore';
        const lines = Array.from({ length: random.between(1, 2) }, () => anyTable(random)).flat();
        const command = { file, args: ['--noflush', '--wait', '5'], input: () => lines };
        const running = tools.run(command, NEVER);
        await time.runUntil(time.now + 100);
        ends[(await running).exitCode === 0 ? 'done' : 'refused'] += 1;
      }
      assert.deepEqual(await compareWithReal(record), []);
      assert.ok(ends.done > RESTORES / 5 && ends.refused > RESTORES / 5, JSON.stringify(ends));
    });
  }
});

/** As restoreLines writes a table, with chains that may be missing or in use. */
function anyTable(random: Random): readonly string[] {
  const table = random.pick(['nat', 'filter']);
  const declared = CHAINS.filter(() => random.chance(0.7));
  const dropped = CHAINS.filter((chain) => random.chance(declared.includes(chain) ? 0.1 : 0.03));
  const ofBuiltIn = (verb: string, place: string) =>
    random.chance(0.15) ? [`${verb} ${table === 'nat' ? 'PREROUTING' : 'FORWARD'} ${place}${anyRule(random)}`] : [];
  return [
    `*${table}`,
    ...declared.map((chain) => `:${chain} - [0:0]`),
    ...Array.from({ length: random.below(4) }, () => `-A ${anyChain(random, declared)} ${anyRule(random)}`),
    ...ofBuiltIn('-D', ''),
    ...ofBuiltIn('-I', '1 '),
    ...dropped.map((chain) => `-X ${chain}`),
    'COMMIT',
  ];
}

/** Chains lead to `KUBE-C` alone, so that there is no circle. */
function anyRule(random: Random): string {
  const dice = random.next();
  if (dice < 0.1) return '-m set --match-set KUBE-NO-SET dst -j ACCEPT';
  if (dice < 0.5) return `-j ${random.pick(['ACCEPT', 'RETURN', 'DROP'])}`;
  return dice < 0.55 ? '-j KUBE-NONE' : '-j KUBE-C';
}

function anyChain(random: Random, declared: readonly string[]): string {
  const chain = random.chance(0.9) && declared.length > 0 ? random.pick(declared) : random.pick(CHAINS);
  return chain === 'KUBE-C' ? 'KUBE-A' : chain;
}
