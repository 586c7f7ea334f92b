/** A table that an agent left is believed only while the kernel still has it so. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../../src/base/address.ts';
import type { LeftTable } from '../../../../src/kernel/nftables-kernel.ts';
import type { TableRecord } from '../../../../src/kernel/ruleset-record.ts';
import type { TableLayout } from '../../../../src/proxy/modes/nft-table/layout.ts';
import { RememberedTable } from '../../../../src/proxy/modes/nft-table/remembered.ts';
import { TableState } from '../../../../src/proxy/modes/nft-table/state.ts';

const LAYOUT: TableLayout = {
  sets: [],
  setNamed: () => undefined,
  lasting: [],
  neededFirst: [],
  afterFrontend: new Map(),
};

/** What one agent leaves for the next, in memory. */
class Left implements TableRecord {
  readonly key = '0706050403020100';
  isAsLeft = true;
  believed = 0;
  #table: LeftTable | undefined;

  left(): LeftTable | undefined {
    return this.isAsLeft ? this.#table : undefined;
  }
  believe(): void {
    this.believed += 1;
  }
  keep(_: Family, digest: string): void {
    this.#table = { handle: 3n, generation: 7, digest };
  }
}

/** An agent that wants this chain. */
function agent(record: Left, chain: string) {
  const state = new TableState('IPv4', LAYOUT);
  const remembered = new RememberedTable(state, record);
  remembered.chain(chain, { rules: [{ text: 'refuse', expressions: [] }] });
  return { state, remembered };
}

async function leaving(): Promise<Left> {
  const record = new Left();
  const { state, remembered } = agent(record, 'services');
  state.observe({ chains: state.chains.desired, sets: new Map() });
  await remembered.keep();
  return record;
}

describe('a table that was left', () => {
  it('is believed when it is as desired', async () => {
    const record = await leaving();
    const { state, remembered } = agent(record, 'services');
    assert.equal(remembered.mayBeAsLeft, true);
    assert.equal(await remembered.adopt(), true);
    assert.deepEqual([state.isKnown, record.believed], [true, 1]);
  });

  it('is read when another is desired', async () => {
    const record = await leaving();
    const { state, remembered } = agent(record, 'other');
    assert.equal(await remembered.adopt(), false);
    assert.deepEqual([state.isKnown, record.believed], [false, 0]);
  });

  it('is read when another program wrote after it was asked about', async () => {
    const record = await leaving();
    const { state, remembered } = agent(record, 'services');
    assert.equal(remembered.mayBeAsLeft, true);
    record.isAsLeft = false;
    assert.equal(await remembered.adopt(), false);
    assert.deepEqual([state.isKnown, record.believed], [false, 0]);
  });
});
