/** Nftables mode where the notices of other programs are lost: what a reading found counts until the table is repaired. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../src/base/address.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import type { NftWrite } from '../../../src/kernel/nftables-kernel.ts';
import { SeenTables } from '../../../src/kernel/nftables-seen.ts';
import { handover } from '../../../src/proxy/modes/handover.ts';
import { rulesPredecessor } from '../../../src/proxy/modes/netfilter/rules-family.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeNft } from '../../helpers/kernel/fake-nft.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { NEVER, Rig } from '../../helpers/proxy/rig.ts';

const OBJECTS = [
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
  slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.11', '10.244.1.12'] }),
];
const SIX = [
  service({ name: 'six', spec: { clusterIP: 'fd00::1', clusterIPs: ['fd00::1'], ports: [{ port: 80 }] } }),
  slice({ name: 'six-1', service: 'six', endpoints: ['fd00:1::2'] }),
];
const CHAIN = 'nat-prerouting';
const nothing = () => undefined;

/** Counts the generations of the ruleset as the kernel does. No notice of another program is heard. */
class UnheardNft extends FakeNft {
  /** Milliseconds that each reading takes. */
  readMs = 0;
  onWritten: (family: Family) => void = nothing;
  #generation = 1;
  readonly #seen = new SeenTables({
    table: 'slicewire',
    port: 1,
    generation: () => this.#generation,
    handle: (family) => (this.tables.has(family) ? 1n : undefined),
    notices: {
      listen: nothing,
      between: (from, to) => (from === to ? [] : undefined),
      last: undefined,
      onCommit: () => nothing,
      close: nothing,
    },
  });

  override async read(family: Family) {
    const found = await super.read(family);
    const state = found && { handle: 1n, generation: this.#generation };
    this.#seen.read(family, state, performance.now() - this.readMs);
    return found;
  }

  override isUnchanged(family: Family): boolean {
    return this.#seen.isUnchanged(family);
  }

  touched(family: Family) {
    return this.#seen.touched(family);
  }

  override async presence(family: Family) {
    return this.#seen.presence(family);
  }

  override async commit(family: Family, writes: readonly NftWrite[]) {
    const before = this.#generation;
    const refusals = await super.commit(family, writes);
    if (refusals.length > 0) return refusals;
    this.#generation += 1;
    this.#seen.wrote(family, before);
    this.onWritten(family);
    return [];
  }

  /** Another program wrote another table. */
  wroteElsewhere(): void {
    this.#generation += 1;
  }

  /** Another program flushes a chain of our IPv4 table. */
  flush(): void {
    const { chains } = this.tables.get('IPv4') ?? {};
    const chain = chains?.get(CHAIN);
    assert.ok(chain !== undefined && chain.rules.length > 0);
    chains?.set(CHAIN, { ...chain, rules: [] });
    this.#generation += 1;
  }

  get isBroken(): boolean {
    return this.tables.get('IPv4')?.chains.get(CHAIN)?.rules.length === 0;
  }
}

/** Iptables mode served. `kernel` is damaged once, while IPv6 is written and IPv4 is written already. */
async function takeover(kernel: UnheardNft) {
  const iptables = new FakeIptables();
  await new Rig({ commands: iptables, families: ['IPv4'] }).put(...OBJECTS).sync();
  const next = nftRig({ kernel }).rig.mode;
  const predecessor = rulesPredecessor([{ tools: new IptablesTools(iptables, 'IPv4', 'auto') }]);
  const rig = new Rig({ commands: iptables, mode: handover(next, predecessor) }).put(...OBJECTS, ...SIX);
  let isFirst = true;
  kernel.onWritten = (family) => {
    if (family === 'IPv6' && isFirst) kernel.flush();
    isFirst &&= family !== 'IPv6';
  };
  const serves = () => iptables.save('IPv4').includes('--to-destination 10.244.1.11:8080') || !kernel.isBroken;
  return { rig, next, serves, isDamaged: () => !isFirst };
}

describe('a takeover whose own rules another program damages, unheard', () => {
  it('is not completed while they are damaged, and repairs them', async () => {
    const kernel = new UnheardNft();
    const { rig, next, serves, isDamaged } = await takeover(kernel);
    const first = await rig.sync();
    assert.deepEqual([isDamaged(), first.outcome, serves()], [true, 'partial', true]);
    assert.equal(
      (await next.probe.heard()).kind,
      'something',
      'what the look before the removal found is not forgotten',
    );
    assert.equal(await next.probe.isInstalled(NEVER), false);
    await rig.sync();
    assert.equal(serves(), true);
    rig.loop.distrust();
    const last = await rig.sync();
    assert.deepEqual([last.outcome, kernel.isBroken, serves()], ['complete', false, true]);
  });

  it('is not completed either soon after a reading that took long', async () => {
    const kernel = new UnheardNft();
    await nftRig({ kernel })
      .rig.put(...OBJECTS)
      .sync();
    kernel.readMs = 200;
    const { rig, serves, isDamaged } = await takeover(kernel);
    await rig.sync();
    assert.deepEqual([isDamaged(), serves()], [true, true]);
  });
});

it('a reading beside a sync that wrote proves nothing, and beside one that had nothing to write it does', async () => {
  const kernel = new UnheardNft();
  const { rig } = nftRig({ kernel });
  await rig.put(...OBJECTS).sync();
  const { probe } = rig.mode;
  const inspect = kernel.inspect.bind(kernel);
  /** Resolves with the answer of a reading during which a sync runs. */
  const differsBeside = async () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    kernel.inspect = async (family) => {
      const found = await inspect(family);
      await answered;
      return found;
    };
    const reading = probe.differs(NEVER);
    await rig.sync();
    answer();
    return await reading;
  };
  assert.equal(await differsBeside(), false);
  rig.put(...SIX);
  assert.equal(await differsBeside(), undefined);
});

it('soon after a reading that took long a check cannot say that all is in place: a further reading is asked for', async () => {
  const kernel = new UnheardNft();
  const { rig } = nftRig({ kernel });
  await rig.put(...OBJECTS).sync();
  kernel.readMs = 1200;
  kernel.wroteElsewhere();
  rig.loop.distrust();
  await rig.sync();
  const { probe } = rig.mode;
  assert.deepEqual([await probe.isInstalled(NEVER), await probe.mayDiffer()], [true, false]);
  kernel.flush();
  assert.deepEqual(
    [(await probe.heard()).kind, await probe.isInstalled(NEVER), await probe.mayDiffer()],
    ['unknown', true, true],
  );
  assert.equal(await probe.differs(NEVER), true);
  assert.deepEqual([(await probe.heard()).kind, await probe.isInstalled(NEVER)], ['something', false]);
});
