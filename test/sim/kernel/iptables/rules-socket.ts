/** What the kernel tells of the rules of iptables without a tool: chains and generations of the nft variant, numbers of the legacy one. */
import { ENOENT } from '../../../../native/errno.ts';
import { SystemError } from '../../../../native/libc.ts';
import type { Family } from '../../../../src/base/address.ts';
import type { OpenRules, RulesSocket, RulesWriter } from '../../../../src/kernel/chain-probe.ts';
import type { Table } from '../../../../src/proxy/modes/netfilter/rules.ts';
import type { SimProcess } from '../../engine/process.ts';
import { openFailure, socketFailure } from '../failures.ts';
import type { SimIptables } from './iptables.ts';
import { type RuleStore, TABLES } from './rule-store.ts';

/** The generations of the ruleset, which nftables and iptables-nft share. */
export interface Generations {
  readonly generation: number;
  /** Who made the present generation; undefined: nobody did yet. */
  readonly lastWriter: RulesWriter | undefined;
}

export function simOpenRules(process: SimProcess, iptables: SimIptables, generations: Generations): OpenRules {
  return (variant, family) =>
    process.call<RulesSocket>({
      what: `open the ${variant} rules of ${family}`,
      mayOutlive: true,
      effect: () =>
        variant === 'legacy'
          ? legacySocket(process, iptables.stores.legacy, family)
          : nftSocket(process, { store: iptables.stores.nft, family, generations }),
      loadsFirst: true,
      undo: (opened) => opened.close(),
      fail: (choice) => {
        throw openFailure(choice);
      },
    });
}

function legacySocket(process: SimProcess, store: RuleStore, family: Family): RulesSocket {
  const ask = asker(process, 'legacy rules');
  const numbers = (table: string) => ask(`numbers of ${table}`, () => store.numbers(family, tableOf(table)));
  return {
    chain: ({ table }) => ({ kind: 'fingerprint', text: numbers(table).text }),
    numbers,
    close: process.opened('a socket for legacy rules', () => undefined),
  };
}

function nftSocket(
  process: SimProcess,
  {
    store,
    family,
    generations,
  }: { readonly store: RuleStore; readonly family: Family; readonly generations: Generations },
): RulesSocket {
  const ask = asker(process, 'nft rules');
  /** The generation after which it listens to writers. */
  let heardFrom = Number.POSITIVE_INFINITY;
  return {
    chain({ table, chain }) {
      heardFrom = Math.min(heardFrom, generations.generation);
      return ask(`chain ${chain}`, () => ({
        kind: 'known',
        exists: store.table(family, tableOf(table))?.has(chain) === true,
      }));
    },
    generation: () => ask('generation', () => generations.generation),
    lastWriter: () =>
      ask('last writer', () => {
        const writer = generations.lastWriter;
        return writer !== undefined && writer.generation > heardFrom ? writer : undefined;
      }),
    counters: ({ table, chain }) =>
      ask(`counters of ${chain}`, () => (store.table(family, tableOf(table))?.get(chain) ?? []).map(() => 0)),
    close: process.opened('a socket for nft rules', () => undefined),
  };
}

function asker(process: SimProcess, socket: string): <T>(what: string, effect: () => T) => T {
  return (what, effect) =>
    process.callSync({
      what: `${socket}: ${what}`,
      effect,
      fail: (variant) => {
        throw socketFailure(variant);
      },
    });
}

function tableOf(name: string): Table {
  const found = TABLES.find((table) => table === name);
  if (found === undefined) throw new SystemError('getsockopt', ENOENT);
  return found;
}
