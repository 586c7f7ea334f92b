/** The probe of the rules between syncs: what it asks, and when rules are read again. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../src/base/address.ts';
import type { ChainProbe, RulesState } from '../../../src/kernel/chain-probe.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import { driftText } from '../../../src/proxy/model/drift.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { NEVER, Rig } from '../../helpers/proxy/rig.ts';

const MODES = {
  iptables: (iptables: FakeIptables, probe?: ProbeOf) =>
    new Rig({ commands: iptables, ...(probe === undefined ? {} : { probe }) }),
  ipvs: (iptables: FakeIptables, probe?: ProbeOf) =>
    ipvsRig({ iptables, ...(probe === undefined ? {} : { probe }) }).rig,
} as const;

type ProbeOf = (family: Family) => ChainProbe;

for (const [mode, rigOf] of Object.entries(MODES)) {
  describe(`probing the canaries in mode ${mode}`, () => {
    it('asks the given probe for the canary of every table, and starts no tool', async () => {
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
      assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
      const tables = ['mangle', 'nat', 'filter'];
      const all = ['IPv4', 'IPv6'].flatMap((family) => tables.map((table) => `${family} ${table} KUBE-PROXY-CANARY`));
      assert.deepEqual(asked, all);
      for (gone of all) assert.equal(await rig.mode.probe.isInstalled(NEVER), false, gone);
      assert.equal(iptables.ran.length, before);
    });

    it('asks the tools without a probe', async () => {
      const iptables = new FakeIptables();
      const rig = rigOf(iptables);
      await rig.sync();
      assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
      iptables.kernels.IPv6.get('filter')?.delete('KUBE-PROXY-CANARY');
      assert.equal(await rig.mode.probe.isInstalled(NEVER), false);
    });
  });
}

describe('reading the rules again', () => {
  it('happens only when the generation changed since the last reading', async () => {
    const iptables = new FakeIptables();
    let number = 7;
    const probe = () => ({ hasChain: () => Promise.resolve(true), generation: () => Promise.resolve(number) });
    const rig = new Rig({ commands: iptables, families: ['IPv4'], probe });
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

  it('happens each time without a generation', async () => {
    const iptables = new FakeIptables();
    const rig = new Rig({
      commands: iptables,
      families: ['IPv4'],
      probe: () => ({ hasChain: () => Promise.resolve(true) }),
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

  it('serves one reading, if nothing was written since', async () => {
    const iptables = new FakeIptables();
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    tools.readAhead(() => Promise.resolve(7), NEVER);
    assert.ok((await lines(tools)).includes('*nat'));
    assert.equal(count(iptables), 1);
    await lines(tools);
    assert.equal(count(iptables), 2);
  });

  it('is repeated after a write, or when the generation is unknown', async () => {
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

/** A kernel in memory that counts its rules like the real one. */
class FakeRuleset {
  readonly iptables = new FakeIptables({ onCommit: () => this.committed() });
  generation = 7;
  /** Another program writes right after the next commit. */
  meanwhile: (() => void) | undefined;
  /** The probe waits for it. */
  held: Promise<void> | undefined;

  readonly ruleset = (): RulesState => ({ kind: 'ruleset', generation: this.generation });

  /** Counts like the legacy variant: each chain of a program has a head and an end. */
  tables(family: Family): RulesState {
    const numbers = new Map<string, { text: string; entries: number }>();
    for (const [table, chains] of this.iptables.kernels[family]) {
      let entries = 0;
      for (const [name, rules] of chains) entries += rules.length + (name.startsWith('KUBE-') ? 2 : 1);
      numbers.set(table, { text: `${entries} entries`, entries });
    }
    return { kind: 'tables', tables: numbers };
  }

  committed(): void {
    this.generation += 1;
    const { meanwhile } = this;
    this.meanwhile = undefined;
    meanwhile?.();
  }

  probe(kind: RulesState['kind']): ProbeOf {
    return (family) => ({
      hasChain: ({ table, chain }) => Promise.resolve(this.iptables.kernels[family].get(table)?.has(chain) === true),
      state: async () => {
        await this.held;
        return kind === 'ruleset' ? this.ruleset() : this.tables(family);
      },
    });
  }

  /** Another program removes rules of a chain: the first ones, or all. */
  removes(count?: number): void {
    const rules = this.iptables.kernels.IPv6.get('nat')?.get('KUBE-POSTROUTING') ?? assert.fail();
    rules.splice(0, count ?? rules.length);
    this.generation += 1;
  }
}

const WEB = [
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
  slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: ['10.244.0.1'] }),
];

for (const mode of ['iptables', 'ipvs'] as const) {
  for (const kind of ['ruleset', 'tables'] as const) {
    describe(`mayDiffer in mode ${mode}, by the numbers of its ${kind}`, () => {
      const made = async () => {
        const kernel = new FakeRuleset();
        const rig = MODES[mode](kernel.iptables, kernel.probe(kind));
        assert.equal((await rig.sync()).outcome, 'complete');
        const reads = () => kernel.iptables.ran.filter(({ file }) => file.endsWith('-save')).length;
        const readAgain = async () => {
          rig.loop.distrust();
          const { drift, outcome } = await rig.sync();
          assert.equal(outcome, 'complete');
          return drift.map(driftText);
        };
        return { kernel, rig, reads, readAgain };
      };

      it('is false after our own writes, of one family or both, without a reading', async () => {
        const { rig, reads } = await made();
        const before = reads();
        assert.equal(await rig.mode.probe.mayDiffer(), false);
        rig.put(...WEB);
        assert.equal((await rig.sync()).outcome, 'complete');
        assert.equal(await rig.mode.probe.mayDiffer(), false);
        rig.remove('Service', 'default/web');
        assert.equal((await rig.sync()).outcome, 'complete');
        assert.equal(await rig.mode.probe.mayDiffer(), false);
        assert.equal(reads(), before);
      });

      for (const [what, count] of [
        ['deleted one rule', 1],
        ['flushed a chain', undefined],
      ] as const) {
        it(`is true when another program ${what}, until a reading reports the drift`, async () => {
          const { kernel, rig, readAgain } = await made();
          kernel.removes(count);
          assert.equal(await rig.mode.probe.isInstalled(NEVER), true, 'the canaries stand');
          for (let i = 0; i < 2; i++) {
            assert.equal(await rig.mode.probe.mayDiffer(), true);
            assert.equal(await rig.mode.probe.differs(NEVER), true);
          }
          const drift = await readAgain();
          assert.match(drift.join('\n'), /^IPv6 nat KUBE-POSTROUTING \(\d+ rules? gone\)$/);
          assert.equal(await rig.mode.probe.mayDiffer(), false);
        });
      }

      it('is false after a reading showed that another program wrote only its own rules', async () => {
        const { kernel, rig } = await made();
        kernel.iptables.kernels.IPv4.get('nat')?.get('PREROUTING')?.push('-s 203.0.113.1/32 -j ACCEPT');
        kernel.generation += 1;
        assert.equal(await rig.mode.probe.mayDiffer(), true);
        assert.equal(await rig.mode.probe.differs(NEVER), false);
        assert.equal(await rig.mode.probe.mayDiffer(), false);
      });

      it('learns nothing from a reading during our own write', async () => {
        const { kernel, rig } = await made();
        kernel.removes(1);
        const { promise, resolve } = Promise.withResolvers<void>();
        kernel.held = promise;
        const differs = rig.mode.probe.differs(NEVER);
        kernel.held = undefined;
        rig.loop.distrust();
        // The sync repairs it during the reading.
        assert.equal((await rig.sync()).outcome, 'complete');
        kernel.removes(1);
        resolve();
        assert.equal(await differs, undefined);
        assert.equal(await rig.mode.probe.mayDiffer(), true, 'a later change is not lost');
      });

      it('is true when another program wrote during our own write', async () => {
        const { kernel, rig } = await made();
        kernel.meanwhile = () => kernel.removes(1);
        rig.put(
          service({ name: 'six', spec: { clusterIP: 'fd00::10', ipFamilies: ['IPv6'], ports: [{ port: 80 }] } }),
          ...WEB,
        );
        assert.equal((await rig.sync()).outcome, 'complete');
        // IPVS mode writes Services beside iptables.
        if (kernel.meanwhile !== undefined) kernel.removes(1);
        assert.equal(await rig.mode.probe.mayDiffer(), true);
      });

      it('finds jumps into our chains that another program removed', async () => {
        const { kernel, readAgain, rig } = await made();
        kernel.iptables.kernels.IPv4.get('nat')?.get('PREROUTING')?.splice(0);
        kernel.generation += 1;
        assert.equal(await rig.mode.probe.mayDiffer(), true);
        assert.deepEqual(await readAgain(), ['IPv4 nat PREROUTING to KUBE-SERVICES (gone)']);
        assert.equal(await rig.mode.probe.mayDiffer(), false);
      });
    });
  }

  it(`mayDiffer is true in mode ${mode} without a probe`, async () => {
    const rig = MODES[mode](new FakeIptables());
    await rig.sync();
    assert.equal(await rig.mode.probe.mayDiffer(), true);
  });
}
