/**
 * What the tool and the kernel make of the shape of the rules: the same rules of one cluster, written in other orders and
 * pieces, and with parts left out. Nothing but iptables-nft-restore is measured here.
 */

import { portionsOf, restoreTexts, SaveReader, type TableBlock } from '../../src/proxy/modes/netfilter/restore-text.ts';
import type { Table } from '../../src/proxy/modes/netfilter/rules.ts';
import type { ClusterShape } from './cluster.ts';
import { Trial } from './trial.ts';

export interface ShapeResult {
  readonly name: string;
  /** Milliseconds to load all of it into empty tables. */
  readonly load: readonly number[];
  /** Milliseconds to write one chain more beside it, which nothing refers to. */
  readonly change: readonly number[];
}

export interface ShapesResult {
  readonly shape: ClusterShape;
  readonly shapes: readonly ShapeResult[];
}

interface Chain {
  readonly table: Table;
  readonly name: string;
  readonly rules: readonly string[];
}

const CHANGES = 15;
const ONE_CHAIN = [
  '*nat',
  ':KUBE-BENCH - [0:0]',
  '-A KUBE-BENCH -p tcp -j DNAT --to-destination 10.255.0.1:80',
  'COMMIT',
  '',
];
const BUILT_IN = /^(PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/;
const COMMENT = /-m comment --comment (?:"[^"]*"|\S+) ?/;

export async function measureShapes(shape: ClusterShape): Promise<ShapesResult> {
  return await Trial.of({ shape }, async (trial) => {
    await trial.empty('node');
    const { agent } = await trial.start();
    await agent.stop();
    const chains = chainsOf(await trial.saved());
    const shapes: ShapeResult[] = [];
    for (const [name, texts] of variants(chains)) {
      await trial.empty('other');
      let load = 0;
      for (const text of texts) load += await trial.restore(text, { isEmptied: false });
      const change: number[] = [];
      for (let i = 0; i < CHANGES; i++) change.push(await trial.restore(ONE_CHAIN.join('\n'), { isEmptied: false }));
      shapes.push({ name, load: [load], change });
    }
    return { shape, shapes };
  });
}

function variants(chains: readonly Chain[]): [name: string, texts: string[]][] {
  const without = (pattern: RegExp) =>
    chains.map((chain) => ({ ...chain, rules: chain.rules.filter((rule) => !pattern.test(rule)) }));
  const shorn = (pattern: RegExp) =>
    chains.map((chain) => ({ ...chain, rules: chain.rules.map((rule) => rule.replace(pattern, '')) }));
  const withoutJumps = (names: RegExp) =>
    chains.map((chain) => (chain.table === 'nat' && names.test(chain.name) ? { ...chain, rules: [] } : chain));
  return [
    ['in portions, as slicewire does', inPortions(chains)],
    ['one restore, names downwards', [inOne(chains, -1)]],
    ['one restore, names upwards', [inOne(chains, 1)]],
    ['in portions, without comments', inPortions(shorn(COMMENT))],
    ['in portions, without masquerade rules of Services', inPortions(without(/cluster IP.* -j KUBE-MARK-MASQ$/))],
    ['in portions, reached from PREROUTING alone', inPortions(withoutJumps(/^(OUTPUT|POSTROUTING)$/))],
    ['in portions, reached from nowhere', inPortions(withoutJumps(BUILT_IN))],
  ];
}

function chainsOf(saved: string): Chain[] {
  const reader = new SaveReader();
  for (const line of saved.split('\n')) reader.read(line);
  return [...reader.end()].flatMap(([table, chains]) =>
    [...chains].map(([name, rules]) => ({ table: table as Table, name, rules })),
  );
}

function inOne(chains: readonly Chain[], order: 1 | -1): string {
  const sorted = [...chains].sort((a, b) => (a.name < b.name ? -order : order));
  return textOf(['mangle', 'filter', 'nat'].map((table) => blockOf(table as Table, sorted)));
}

/** Without the built-in chains, whose jumps come last. */
function inPortions(chains: readonly Chain[]): string[] {
  const made = chains
    .filter(({ name }) => !BUILT_IN.test(name))
    .map(({ rules, ...rest }) => ({ ...rest, rules: asRules(rules) }));
  const jumps = chains.filter(({ name }) => BUILT_IN.test(name));
  const last = (['mangle', 'filter', 'nat'] as const).map((table) => blockOf(table, jumps));
  const blocks = [...portionsOf(made)].filter((block) => block !== undefined);
  return [...blocks.map((block) => textOf([block])), textOf(last)];
}

function asRules(rules: readonly string[]) {
  return rules.map((text) => ({ text, owner: undefined }));
}

function blockOf(table: Table, chains: readonly Chain[]): TableBlock {
  const mine = chains.filter((chain) => chain.table === table);
  const isBuiltIn = ({ name }: Chain) => BUILT_IN.test(name);
  return {
    table,
    chains: mine.filter((chain) => !isBuiltIn(chain)).map(({ name, rules }) => ({ name, rules: asRules(rules) })),
    inserts: mine.filter(isBuiltIn).flatMap(({ name, rules }) => rules.map((text) => ({ chain: name, text }))),
    deletes: [],
    drops: [],
  };
}

function textOf(blocks: readonly TableBlock[]): string {
  return `${[...restoreTexts(blocks)].join('\n')}\n`;
}
