/** The simulated kernel does as a real one: the writes of histories are carried out again in a network namespace. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as expressions from '../../../native/nft/expressions.ts';
import { addChain, addRule, addTable } from '../../../native/nft/table-requests.ts';
import { SimTime } from '../engine/time.ts';
import { planOf } from '../history/plan.ts';
import { SimKernel } from '../kernel/kernel.ts';
import { compareWithReal } from '../real/compare.ts';
import { recordOf, type WriteKind } from '../real/record.ts';
import { runWithReal } from '../real/run-real.ts';

const HISTORIES = 3;
const FIRST = 1800;

describe('the writes of histories, carried out by a real kernel', () => {
  for (const mode of ['nftables', 'iptables', 'ipvs'] as const) {
    it(`have the same outcomes and leave the same (${mode} mode)`, async () => {
      let count = 0;
      for (let seed = FIRST; seed < FIRST + HISTORIES; seed++) {
        const { writes, differences } = await runWithReal(planOf(seed, { mode }));
        assert.deepEqual(differences, [], `seed ${seed}`);
        count += writes;
      }
      assert.ok(count > HISTORIES * 10, `${count} writes`);
    });
  }
});

const ID = { family: 'IPv4', table: 'slicewire' } as const;
const DANGLING = ['*nat', ':KUBE-A - [0:0]', '-A KUBE-A -j KUBE-GONE', 'COMMIT'];

describe('a simulated kernel that lies is found', () => {
  it('when it accepts a rule that leads to a missing chain', async () => {
    const kernel = new SimKernel({ time: new SimTime(() => 0.5) });
    const record = recordOf(kernel);
    kernel.nft.others.writeAs({ pid: 1, name: 'nft' }, [
      addTable(ID, ''),
      addChain(ID, 'a'),
      addRule(ID, 'a', [expressions.verdict({ kind: 'goto', chain: 'gone' })], ''),
    ]);
    assert.deepEqual(await compareWithReal(record), [], 'both refuse');
    const lies = record.writes.map((write) =>
      write.kind === 'transaction'
        ? { ...write, transaction: { ...write.transaction, refusals: [undefined, undefined, undefined] } }
        : write,
    );
    const [title, ...differences] = await compareWithReal({ ...record, writes: lies });
    assert.match(title ?? '', /^write 1 of 2, a transaction of 3 requests:/);
    assert.match(differences.join('\n'), /request 2 of type 6: simulated done, real errno 2/);
  });

  it('when its tool accepts such a rule', async () => {
    const command = { file: 'iptables-restore', args: ['--noflush', '--wait', '5'] };
    const result = { exitCode: 0, stdout: '', stderr: '' };
    const differences = await compareWithReal(oneWrite({ kind: 'tool', step: stepOf(command, DANGLING, result) }));
    assert.match(differences.join('\n'), /real \[2,.*Chain 'KUBE-GONE' does not exist/);
  });

  it('when it has other rules after a write', async () => {
    const before = new Map([['PREROUTING', []]]);
    const after = new Map([['PREROUTING', ['-j RETURN']]]);
    const edit = { family: 'IPv4', table: 'nat', before, after, args: undefined } as const;
    const [, ...differences] = await compareWithReal(oneWrite({ kind: 'edit', edit }));
    assert.deepEqual(differences, [
      'IPv4 rules: only real: nat PREROUTING 1: -j RETURN',
      'the generation: simulated +0, real +1',
    ]);
  });
});

type Step = Extract<WriteKind, { kind: 'tool' }>['step'];

function stepOf(command: Step['command'], lines: readonly string[], result: Step['result']): Step {
  return { command, family: 'IPv4', lines, offset: 0, result };
}

/** A write after which the simulated kernel has nothing. */
function oneWrite(write: WriteKind) {
  const after = { ruleset: new Map(), tables: new Map(), generation: 1 };
  return { variant: 'nft', writes: [{ ...write, after }] } as const;
}
