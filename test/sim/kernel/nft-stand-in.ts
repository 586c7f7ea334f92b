/** nftables at the level of writes: a stand-in until the kernel's messages are simulated. */
import type { OpenNftables } from '../../../src/agent/outside.ts';
import type { RulesWriter } from '../../../src/host/chain-probe.ts';
import { FAMILIES } from '../../../src/model/address.ts';
import type { FamilyView } from '../../../src/modes/view.ts';
import { FakeNft } from '../../helpers/fake-nft.ts';
import { viewOfTable } from '../../helpers/views.ts';
import type { SimProcess } from '../engine/process.ts';
import { openFailure, socketFailure } from './failures.ts';
import type { Writer } from './iptables/iptables.ts';

export class StandInNftables {
  readonly fake: FakeNft;
  generation = 1;
  lastWriter: RulesWriter | undefined;

  constructor(onCommit: () => void) {
    this.fake = new FakeNft({ onCommit });
  }

  bumpGeneration(writer: Writer): void {
    this.generation += 1;
    this.lastWriter = { ...writer, generation: this.generation };
  }

  view(family: FamilyView['family']): FamilyView | undefined {
    const table = this.fake.tables.get(family);
    return table && viewOfTable(table, family);
  }

  bytesOfOthers(): string {
    return '';
  }

  open(process: SimProcess): OpenNftables {
    const { fake } = this;
    const ask = <T>(what: string, effect: () => T) =>
      process.callSync<T>({
        what: `nft: ${what}`,
        effect,
        fail: (variant) => {
          throw socketFailure(variant);
        },
      });
    const forget = process.callSync({
      what: 'open nft',
      effect: () => process.opened('nft', () => undefined),
      fail: (variant) => {
        throw openFailure(variant);
      },
    });
    return {
      read: async (family) => await ask('read', () => fake.read(family)),
      inspect: async (family) => await ask('inspect', () => fake.inspect(family)),
      isUnchanged: () => ask('generation', () => false),
      counts: async (family, set) => await ask('counts', () => fake.counts(family, set)),
      expirations: async (family, set) => await ask('expirations', () => fake.expirations(family, set)),
      lastWriter: () => ask('last writer', () => undefined),
      commit: async (family, writes) => await ask('commit', () => fake.commit(family, writes)),
      stands: async (family) => await ask('stands', () => fake.stands(family)),
      hasTable: (family, table) => ask('table', () => table === 'slicewire' && fake.tables.has(family)),
      keys: async () => ask('keys', () => []),
      deleteTable: (family) => ask('delete table', () => void fake.tables.delete(family)),
      check: (family) => ask(`check ${family} of ${FAMILIES.length}`, () => undefined),
      close: () => void forget(),
    };
  }
}
