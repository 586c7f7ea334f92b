/** The look after the rules: by whom, and what it looks for. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { IptablesTools } from '../../src/host/iptables-tools.ts';
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
      asked.length = 0;
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

describe('reading the rules again', () => {
  it('is done only when the ruleset has another number than when it was read last', async () => {
    const iptables = new FakeIptables();
    let number = 7;
    const look = () => ({ hasChain: () => Promise.resolve(true), generation: () => Promise.resolve(number) });
    const rig = new Rig({ commands: iptables, families: ['IPv4'], look });
    const reads = async () => {
      const before = iptables.ran.length;
      rig.loop.distrust();
      assert.equal((await rig.sync()).outcome, 'complete');
      return iptables.ran.slice(before).filter(({ file }) => file.endsWith('-save')).length;
    };
    await rig.sync();
    // Its own write.
    number += 1;
    assert.equal(await reads(), 1);
    assert.equal(await reads(), 0);
    number += 1;
    assert.equal(await reads(), 1);
    assert.equal(await reads(), 0);
  });

  it('is done each time where it has no number', async () => {
    const iptables = new FakeIptables();
    const rig = new Rig({
      commands: iptables,
      families: ['IPv4'],
      look: () => ({ hasChain: () => Promise.resolve(true) }),
    });
    await rig.sync();
    for (let i = 0; i < 2; i++) {
      const before = iptables.ran.length;
      rig.loop.distrust();
      await rig.sync();
      assert.equal(iptables.ran.length - before, 1);
    }
  });
});

describe('reading ahead', () => {
  const count = (iptables: FakeIptables) => iptables.ran.filter(({ file }) => file.endsWith('-save')).length;
  const lines = async (tools: IptablesTools) => {
    const read: string[] = [];
    await tools.save((line) => read.push(line), NEVER);
    return read;
  };

  it('serves one read, if nothing was written since', async () => {
    const iptables = new FakeIptables();
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    tools.readAhead(() => Promise.resolve(7), NEVER);
    assert.ok((await lines(tools)).includes('*nat'));
    assert.equal(count(iptables), 1);
    await lines(tools);
    assert.equal(count(iptables), 2);
  });

  it('is made anew when something was, or nothing can be told', async () => {
    const iptables = new FakeIptables();
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    let number = 7;
    tools.readAhead(() => Promise.resolve(number++), NEVER);
    await lines(tools);
    assert.equal(count(iptables), 2);
    tools.readAhead(() => Promise.resolve(undefined), NEVER);
    await lines(tools);
    assert.equal(count(iptables), 3);
    tools.readAhead(() => Promise.reject(new Error('no kernel')), NEVER);
    await lines(tools);
    assert.equal(count(iptables), 4);
  });
});
