/** The look after the rules: by whom, and what it looks for. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../src/model/address.ts';
import { FakeIptables } from '../helpers/fake-iptables.ts';
import { ipvsRig } from '../helpers/ipvs-rig.ts';
import { NEVER, Rig } from '../helpers/rig.ts';

const MODES = {
  iptables: (iptables: FakeIptables, look?: LookOf) =>
    new Rig({ commands: iptables, ...(look === undefined ? {} : { look }) }),
  ipvs: (iptables: FakeIptables, look?: LookOf) => ipvsRig({ iptables, ...(look === undefined ? {} : { look }) }).rig,
} as const;

type LookOf = (family: Family) => { hasChain(query: { table: string; chain: string }): Promise<boolean> };

for (const [mode, rigOf] of Object.entries(MODES)) {
  describe(`the look after the rules in mode ${mode}`, () => {
    it('asks who is put in for the canary of every table, and starts no tool', async () => {
      const iptables = new FakeIptables();
      const asked: string[] = [];
      let gone: string | undefined;
      const rig = rigOf(iptables, (family) => ({
        hasChain({ table, chain }) {
          asked.push(`${family} ${table} ${chain}`);
          return Promise.resolve(asked.at(-1) !== gone);
        },
      }));
      assert.equal((await rig.sync()).outcome, 'complete');
      const before = iptables.ran.length;
      assert.equal(await rig.mode.probe(NEVER), true);
      const tables = ['mangle', 'nat', 'filter'];
      const all = ['IPv4', 'IPv6'].flatMap((family) => tables.map((table) => `${family} ${table} KUBE-PROXY-CANARY`));
      assert.deepEqual(asked, all);
      for (gone of all) assert.equal(await rig.mode.probe(NEVER), false, gone);
      assert.equal(iptables.ran.length, before);
    });

    it('asks the tools when nobody is', async () => {
      const iptables = new FakeIptables();
      const rig = rigOf(iptables);
      await rig.sync();
      assert.equal(await rig.mode.probe(NEVER), true);
      iptables.kernels.IPv6.get('filter')?.delete('KUBE-PROXY-CANARY');
      assert.equal(await rig.mode.probe(NEVER), false);
    });
  });
}
