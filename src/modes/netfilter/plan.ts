/**
 * From the difference of desired and applied chains and jumps of one family to the input of `iptables-restore`. Pure.
 *
 * A restore commits table by table, and between two commits packets flow. No packet may find neither a way to its
 * endpoints (nat) nor its refusal (filter), so the tables are written in this order:
 * 1. filter, with what is added, and what is removed still there;
 * 2. nat;
 * 3. filter, without what is removed;
 * 4. chains that nothing refers to any more.
 * That is one restore. Many chains that are new are written before it, in restores of their own (`portions.ts`).
 */
import type { Family } from '../../model/address.ts';
import { lineDiff } from '../../reconcile/lines.ts';
import type { Phase, Step } from '../../reconcile/step.ts';
import type { Delta, Tracker } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import { type Jump, jumpKey, targetOf } from './jumps.ts';
import { type ChainKey, chainKey, isServiceChain, splitChainKey } from './names.ts';
import { linesOf, type NewChain, portionsOf } from './portions.ts';
import { byNameDown, isEmptyBlock, type TableBlock } from './restore-text.ts';
import { type Chain, type Rule, sameChain, type Table } from './rules.ts';

export interface TablesPlan {
  readonly family: Family;
  readonly steps: readonly Step[];
  /** Restores in their order, each of some blocks: made when they are written. Where there is none, the event loop is to breathe. */
  readonly restores: () => Iterable<readonly TableBlock[] | undefined>;
  /** What the kernel holds once all of them succeeded. */
  readonly chains: ReadonlyMap<ChainKey, Chain | undefined>;
  readonly jumps: ReadonlyMap<string, Jump | undefined>;
}

/** A write of one chain: from what is there to what should be. */
interface Write {
  readonly key: ChainKey;
  readonly from: Chain | undefined;
  readonly to: Chain | undefined;
}

export interface TablesTrackers {
  readonly chains: Tracker<ChainKey, Chain>;
  readonly jumps: Tracker<string, Jump>;
}

/** All that a plan is made of: what may differ. What stands and is right costs nothing (invariant 11). */
export interface PendingTables {
  readonly family: Family;
  /** Lines of new chains that one restore may have, before they are cut into portions. */
  readonly portionLines: number;
  readonly chains: Delta<ChainKey, Chain>;
  readonly jumps: Delta<string, Jump>;
}

/** `only`: make these chains and the jumps into them, and nothing else: what must stand before the rest. */
export function planTables(
  { family, chains, jumps: delta, portionLines }: PendingTables,
  setAside: SetAside,
  only?: ReadonlySet<ChainKey>,
): TablesPlan {
  const isMeant = (key: ChainKey) => only?.has(key) !== false;
  const pending = withoutSetAside(writesOf(chains), { family, setAside });
  const writes = pending.filter(({ key, to }) => isMeant(key) && (only === undefined || to !== undefined));
  const missing = [...delta.create.values()].filter(({ table, target }) => isMeant(`${table} ${target}`));
  const gone = only === undefined ? [...delta.remove.values()] : [];
  return {
    family,
    steps: [
      ...writes.map((write) => chainStep(family, write)),
      ...missing.map((entry) => jumpStep(family, entry, 'create')),
      ...gone.map((entry) => jumpStep(family, entry, 'remove')),
    ],
    restores: () => restoresOf(writes, { missing, gone }, portionLines),
    chains: new Map(writes.map(({ key, to }) => [key, to])),
    jumps: new Map<string, Jump | undefined>([
      ...missing.map((entry) => [jumpKey(entry), entry] as const),
      ...gone.map((entry) => [jumpKey(entry), undefined] as const),
    ]),
  };
}

function writesOf(delta: Delta<ChainKey, Chain>): Write[] {
  const writes: Write[] = [];
  for (const [key, to] of delta.create) writes.push({ key, from: undefined, to });
  for (const [key, { from, to }] of delta.update) writes.push({ key, from, to });
  for (const [key, from] of delta.remove) writes.push({ key, from, to: undefined });
  return writes;
}

interface SetAsideInput {
  readonly family: Family;
  readonly setAside: SetAside;
}

/**
 * Leave what was refused as it is in the kernel: its own chains are not touched, and in shared chains its lines are
 * those that stand there now (invariants 3 and 6). `writes` are all that are pending: a line moves from one chain of a
 * tree to another when a leaf splits or merges, and where it stood is a chain that changes too.
 */
function withoutSetAside(writes: readonly Write[], { family, setAside }: SetAsideInput): Write[] {
  if (setAside.size === 0) return [...writes];
  const isAside = ({ owner }: Rule) => owner !== undefined && setAside.has(owner);
  const due = writes.filter((write) => {
    const owner = ownerOf(write);
    return !setAside.has(stepKey(family, write.key)) && (owner === undefined || !setAside.has(owner));
  });
  const standing = new Set(textsWhere(isAside, writes, 'from'));
  const wanted = due.map((write): Write => {
    return { ...write, to: write.to?.filter((line) => !isAside(line) || standing.has(line.text)) };
  });
  const placed = new Set(textsWhere(isAside, wanted, 'to'));
  const held = heldLines(wanted, (line) => isAside(line) && !placed.has(line.text));
  return wanted
    .map((write): Write => ({ ...write, to: write.to && [...(held.get(write.key) ?? []), ...write.to] }))
    .filter(({ from, to }) => from === undefined || to === undefined || !sameChain(from, to));
}

function* textsWhere(is: (line: Rule) => boolean, writes: readonly Write[], at: 'from' | 'to'): Generator<string> {
  for (const { [at]: lines = [] } of writes) for (const line of lines) if (is(line)) yield line.text;
}

/** Lines that stand and have no place in what is wanted, by the chain that keeps them: their own or, where that goes, the one that leads there. */
function heldLines(writes: readonly Write[], isHeld: (line: Rule) => boolean): ReadonlyMap<ChainKey, Chain> {
  const gone = new Set(writes.filter(({ to }) => to === undefined).map(({ key }) => key));
  const above = new Map<ChainKey, ChainKey>();
  for (const { key, from = [] } of writes) {
    const { table } = splitChainKey(key);
    for (const { text } of from) above.set(chainKey(table, targetOf(text)), key);
  }
  const held = new Map<ChainKey, Chain>();
  for (const { key, from = [] } of writes) {
    const lines = from.filter(isHeld);
    let keeper: ChainKey | undefined = lines.length > 0 ? key : undefined;
    while (keeper !== undefined && gone.has(keeper)) keeper = above.get(keeper);
    if (keeper !== undefined) held.set(keeper, [...(held.get(keeper) ?? []), ...lines]);
  }
  return held;
}

/** The Service that a whole chain belongs to; undefined for a shared one. */
function ownerOf({ key, from, to }: Write): string | undefined {
  if (!isServiceChain(splitChainKey(key).chain)) return undefined;
  return [...(to ?? []), ...(from ?? [])].find((line) => line.owner !== undefined)?.owner;
}

interface JumpWrites {
  readonly missing: readonly Jump[];
  readonly gone: readonly Jump[];
}

function* restoresOf(
  writes: readonly Write[],
  jumps: JumpWrites,
  portionLines: number,
): Generator<readonly TableBlock[] | undefined> {
  const created = writes.filter((write) => write.from === undefined).map(newChainOf);
  const isMany = created.reduce((sum, chain) => sum + linesOf(chain), 0) > portionLines;
  if (isMany) for (const block of portionsOf(created, portionLines)) yield block && [block];
  const last = blocksOf(isMany ? writes.filter((write) => write.from !== undefined) : writes, jumps);
  if (last.length > 0) yield last;
}

function newChainOf({ key, to = [] }: Write): NewChain {
  const { table, chain } = splitChainKey(key);
  return { table, name: chain, rules: to };
}

function blocksOf(writes: readonly Write[], { missing, gone }: JumpWrites): TableBlock[] {
  const first = newBlock('filter', { missing, gone: [] });
  const mangle = newBlock('mangle', { missing, gone });
  const nat = newBlock('nat', { missing, gone });
  const last = newBlock('filter', { missing: [], gone });
  const natDrops = newBlock('nat', { missing: [], gone: [] });
  for (const { key, from, to } of writes) {
    const { table, chain: name } = splitChainKey(key);
    if (table === 'filter') addFilter({ first, last }, { name, from, to });
    else if (to !== undefined) (table === 'nat' ? nat : mangle).chains.push({ name, rules: to });
    else drop(table === 'nat' ? natDrops : mangle, name);
  }
  const blocks = [first, mangle, nat, last, natDrops].filter((block) => !isEmptyBlock(block));
  for (const block of blocks) block.chains.sort(byNameDown);
  return blocks;
}

interface BlockDraft {
  readonly table: Table;
  readonly chains: { name: string; rules: Chain }[];
  readonly inserts: { chain: string; text: string }[];
  readonly deletes: { chain: string; text: string }[];
  readonly drops: string[];
}

function newBlock(table: Table, { missing, gone }: JumpWrites): BlockDraft {
  const lines = (jumps: readonly Jump[]) =>
    jumps.filter((entry) => entry.table === table).map(({ chain, text }) => ({ chain, text }));
  return { table, chains: [], inserts: lines(missing), deletes: lines(gone), drops: [] };
}

function drop(block: BlockDraft, name: string): void {
  block.chains.push({ name, rules: [] });
  block.drops.push(name);
}

function addFilter(
  { first, last }: { first: BlockDraft; last: BlockDraft },
  { name, from, to }: { name: string; from: Chain | undefined; to: Chain | undefined },
): void {
  if (to === undefined) {
    drop(last, name);
    return;
  }
  const wanted = new Set(to.map((line) => line.text));
  const had = new Set((from ?? []).map((line) => line.text));
  const going = (from ?? []).filter((line) => !wanted.has(line.text));
  const comes = from === undefined || to.some((line) => !had.has(line.text)) || going.length === 0;
  if (comes) first.chains.push({ name, rules: [...to, ...going] });
  if (going.length > 0) last.chains.push({ name, rules: to });
}

const CHAIN_PHASES: Readonly<Record<Step['action'], Phase>> = {
  create: 'create servers, destinations, chains and rules',
  update: 'create servers, destinations, chains and rules',
  remove: 'remove sets, chains and addresses',
};

/** `IPv4 nat KUBE-SVC-…` */
export function stepKey(family: Family, key: ChainKey | string): string {
  return `${family} ${key}`;
}

function chainStep(family: Family, write: Write): Step {
  const action = write.from === undefined ? 'create' : write.to === undefined ? 'remove' : 'update';
  const texts = (chain: Chain | undefined) => (chain ?? []).map((line) => line.text);
  return {
    key: stepKey(family, write.key),
    family,
    kind: 'rules',
    action,
    phase: CHAIN_PHASES[action],
    owner: ownerOf(write),
    concerns: () => newcomers(write),
    lines: () => lineDiff(texts(write.from), texts(write.to)),
  };
}

/** Owners of lines that are not there yet. */
function newcomers({ from = [], to = [] }: Write): Set<string> {
  const had = new Set(from.map((line) => line.text));
  const owners = new Set<string>();
  for (const { text, owner } of to) if (owner !== undefined && !had.has(text)) owners.add(owner);
  return owners;
}

function jumpStep(family: Family, entry: Jump, action: 'create' | 'remove'): Step {
  return {
    key: stepKey(family, `${entry.table} ${entry.chain} to ${entry.target}`),
    family,
    kind: 'rules',
    action,
    phase: action === 'create' ? CHAIN_PHASES.create : 'remove rules',
    owner: undefined,
    concerns: () => [],
    lines: () => [`${action === 'create' ? '+' : '-'} ${entry.text}`],
  };
}
