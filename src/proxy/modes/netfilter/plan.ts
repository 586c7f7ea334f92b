/**
 * From the difference of desired and applied chains and jumps of one family to the input of `iptables-restore`. Pure.
 *
 * A restore commits table by table, and packets flow between two commits. Every packet must find the rules to its endpoints
 * (nat) or its refusal (filter), so the tables are written in this order:
 * 1. filter, with the added rules and still with the removed ones;
 * 2. nat;
 * 3. filter, without the removed rules;
 * 4. the deletion of chains of mangle and nat to which no rule refers any more.
 * Where chains of IPVS mode are written, filter is written in one piece (`filterOnce`).
 * That is one restore, and a part without a change is left out: one endpoint more or less is one transaction of nat. A change of the
 * filter table alone is one transaction as well. If many chains are new, restores of their own write them before (`restore-text.ts`).
 */
import type { Family } from '../../../base/address.ts';
import { lineDiff } from '../../reconcile/compare.ts';
import type { Phase, SkippedStep, Step } from '../../reconcile/step.ts';
import type { Delta, Tracker } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import {
  type Jump,
  type JumpWrites,
  jumpKey,
  jumpWrites,
  type Misplaced,
  orderAfter,
  targetOf,
  type WantedJumps,
} from './jumps.ts';
import {
  type ChainKey,
  chainKey,
  IPVS_FILTER,
  isServiceChain,
  LOAD_BALANCER,
  NODE_PORT,
  NODE_PORTS,
  splitChainKey,
} from './names.ts';
import { byNameDown, isEmptyBlock, linesOf, type NewChain, portionsOf, type TableBlock } from './restore-text.ts';
import { type Chain, type Rule, sameChain, type Table } from './rules.ts';

export interface TablesPlan {
  readonly family: Family;
  readonly steps: readonly Step[];
  /** Restores in order, each a list of blocks, made when they are written. At each undefined the event loop should run. */
  readonly restores: () => Iterable<readonly TableBlock[] | undefined>;
  /** The chains in the kernel once all restores succeeded. */
  readonly chains: ReadonlyMap<ChainKey, Chain | undefined>;
  readonly jumps: ReadonlyMap<string, Jump | undefined>;
  /** Keys of the jumps in the kernel's order, once all restores succeeded. */
  readonly order: readonly string[];
  /** Services whose packets still meet a rule of a Service that is set aside. */
  readonly waiting: readonly SkippedStep[];
}

/** A write of one chain: from the believed rules to the desired ones. */
interface Write {
  readonly key: ChainKey;
  readonly from: Chain | undefined;
  readonly to: Chain | undefined;
}

export interface TablesTrackers {
  readonly chains: Tracker<ChainKey, Chain>;
  readonly jumps: Tracker<string, Jump>;
}

/** The input of a plan: the differences. Objects that are right cost nothing (invariant 11). */
export interface PendingTables {
  readonly family: Family;
  /** More lines of new chains than this are cut into portions. */
  readonly portionLines: number;
  readonly chains: Delta<ChainKey, Chain>;
  readonly jumps: Delta<string, Jump>;
  readonly wantedJumps: WantedJumps;
  /** Keys of the jumps that the kernel has, in its order within each chain. */
  readonly order: readonly string[];
  /** All desired chains: only where a rule of a Service that is set aside has no place among them. */
  readonly desired: () => Iterable<readonly [ChainKey, Chain]>;
}

/**
 * With `only`, the rules of these chains are added, and the jumps into them, and nothing else: the rest needs them first. A chain that is to
 * be removed stays, and so does a rule of a chain of a dispatch tree.
 */
export function planTables(
  { family, chains, jumps: delta, portionLines, wantedJumps: wanted, order, desired }: PendingTables,
  setAside: SetAside,
  only?: (key: ChainKey) => boolean,
): TablesPlan {
  const isIncluded = (key: ChainKey) => only?.(key) !== false;
  const { writes: pending, waiting } = withoutSetAside(writesOf(chains), { family, setAside, desired });
  const writes = only === undefined ? pending : pending.filter(({ key }) => isIncluded(key)).flatMap(additionOf);
  const missing = [...delta.create.values()].filter(({ table, target }) => isIncluded(`${table} ${target}`));
  const gone = only === undefined ? [...delta.remove.values()] : [];
  // With `only`, the rest is written next, and puts them in order.
  const jumps = only === undefined ? jumpWrites(missing, gone, { wanted, order }) : insertions(missing);
  return {
    family,
    steps: [
      ...writes.map((write) => chainStep(family, write)),
      ...missing.map((entry) => jumpStep(family, entry, 'create')),
      ...gone.map((entry) => jumpStep(family, entry, 'remove')),
      ...jumps.misplaced.map((one) => orderStep(family, one)),
    ],
    restores: () => restoresOf(writes, jumps, portionLines),
    chains: new Map(writes.map(({ key, to }) => [key, to])),
    jumps: new Map<string, Jump | undefined>([
      ...jumps.inserted.map((entry) => [jumpKey(entry), entry] as const),
      ...gone.map((entry) => [jumpKey(entry), undefined] as const),
    ]),
    order: orderAfter(order, jumps),
    waiting,
  };
}

/** The first half of a write: a chain of a Service is written as it will be, a chain of a tree gets its new rules and keeps the others. */
function additionOf({ key, from, to }: Write): Write[] {
  if (to === undefined) return [];
  if (from === undefined || isServiceChain(splitChainKey(key).chain)) return [{ key, from, to }];
  const wanted = new Set(to.map(({ text }) => text));
  const whole = [...to, ...from.filter(({ text }) => !wanted.has(text))];
  return whole.length === from.length ? [] : [{ key, from, to: whole }];
}

/** Missing jumps, whose order does not matter yet. */
function insertions(inserted: readonly Jump[]): JumpWrites & { readonly misplaced: readonly Misplaced[] } {
  return { inserted, moved: [], gone: [], misplaced: [] };
}

function writesOf(delta: Delta<ChainKey, Chain>): Write[] {
  const writes: Write[] = [];
  for (const [key, to] of delta.create) writes.push({ key, from: undefined, to });
  for (const [key, { from, to }] of delta.update) writes.push({ key, from, to });
  for (const [key, from] of delta.remove) writes.push({ key, from, to: undefined });
  return writes;
}

interface WithoutSetAside {
  readonly writes: readonly Write[];
  readonly waiting: TablesPlan['waiting'];
}

interface SetAsideInput {
  readonly family: Family;
  readonly setAside: SetAside;
  readonly desired: PendingTables['desired'];
}

/**
 * Leave refused Services as they are in the kernel: their own chains are not touched, and shared chains keep their present
 * lines (invariants 3 and 6). `writes` must be all pending writes: when a leaf of a tree splits or merges, a line moves from
 * one chain to another, and its old chain changes too.
 */
function withoutSetAside(writes: readonly Write[], { family, setAside, desired }: SetAsideInput): WithoutSetAside {
  if (setAside.size === 0) return { writes, waiting: [] };
  const isAside = ({ owner }: Rule) => owner !== undefined && setAside.has(owner);
  const allowed = writes.filter((write) => {
    const owner = ownerOf(write);
    return !setAside.has(stepKey(family, write.key)) && (owner === undefined || !setAside.has(owner));
  });
  const installed = new Set(textsWhere(isAside, writes, 'from'));
  const wanted = allowed.map((write): Write => {
    return { ...write, to: write.to?.filter((line) => !isAside(line) || installed.has(line.text)) };
  });
  const placed = new Set(textsWhere(isAside, wanted, 'to'));
  const held = heldLines(wanted, (line) => isAside(line) && !placed.has(line.text));
  return {
    writes: wanted
      .map((write): Write => ({ ...write, to: write.to && [...(held.get(write.key) ?? []), ...write.to] }))
      .filter(({ from, to }) => from === undefined || to === undefined || !sameChain(from, to)),
    waiting: behindHeld(family, desired, [...held.values()].flat()),
  };
}

/** The Services whose packets a held rule takes, in whichever chain theirs is: the frontend was another Service's before. */
function behindHeld(family: Family, desired: PendingTables['desired'], held: Chain): SkippedStep[] {
  const holders = new Map(held.map(({ text, owner }) => [matchOf(text), owner]));
  if (holders.size === 0) return [];
  const waiting: SkippedStep[] = [];
  for (const [key, chain] of desired()) {
    if (isServiceChain(splitChainKey(key).chain)) continue;
    for (const { text, owner } of chain) {
      const blockedBy = holders.get(matchOf(text));
      if (owner === undefined || blockedBy === undefined || blockedBy === owner) continue;
      waiting.push({ key: stepKey(family, key), family, owner, blockedBy });
    }
  }
  return waiting;
}

/** The packets that a rule is for: its text without comment and target. */
function matchOf(text: string): string {
  return text.replace(/-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) ?/, '').replace(/ ?-[jg] .*$/, '');
}

function* textsWhere(is: (line: Rule) => boolean, writes: readonly Write[], at: 'from' | 'to'): Generator<string> {
  for (const { [at]: lines = [] } of writes) for (const line of lines) if (is(line)) yield line.text;
}

/** Present lines without a place in the desired chains, by the chain that keeps them: their own, or its parent if it is removed. */
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

/** The Service of a whole chain; undefined for a shared chain. */
function ownerOf({ key, from, to }: Write): string | undefined {
  if (!isServiceChain(splitChainKey(key).chain)) return undefined;
  return [...(to ?? []), ...(from ?? [])].find((line) => line.owner !== undefined)?.owner;
}

function* restoresOf(
  writes: readonly Write[],
  jumps: JumpWrites,
  portionLines: number,
): Generator<readonly TableBlock[] | undefined> {
  const fresh = writes.filter(isFresh).map(newChainOf);
  const isMany = fresh.reduce((sum, chain) => sum + linesOf(chain), 0) > portionLines;
  if (isMany) for (const block of portionsOf(fresh, portionLines)) yield block && [block];
  const left = isMany ? writes.filter((write) => !isFresh(write)) : writes;
  const last = blocksOf(left, jumps, filterOnce(writes));
  if (last.length > 0) yield last;
}

/**
 * Whether the kernel has no rule of the chain: it is new, or another program flushed the table. Packets that enter a flushed chain already
 * pass it, so it may be filled before the others.
 */
function isFresh({ key, from, to }: Write): boolean {
  return from === undefined || (from.length === 0 && to !== undefined && splitChainKey(key).table === 'nat');
}

function newChainOf({ key, to = [] }: Write): NewChain {
  const { table, chain } = splitChainKey(key);
  return { table, name: chain, rules: to };
}

/** Chains that IPVS mode alone has. kube-proxy before 1.27 lacks the first one (k8s#108460). */
const IPVS_CHAINS: ReadonlySet<ChainKey> = new Set([
  chainKey('filter', IPVS_FILTER),
  chainKey('filter', NODE_PORT),
  chainKey('nat', LOAD_BALANCER),
]);

/**
 * Where the table filter is written in one piece; undefined where it is not. The chains of IPVS mode are written when it comes, when it goes,
 * and after a flush. It drops what nat does not lead past it, so nat comes first. When it comes, the chains of iptables mode for source
 * ranges would drop its packets, which nat leaves untranslated, so filter comes first.
 */
function filterOnce(writes: readonly Write[]): 'before nat' | 'after nat' | undefined {
  if (!writes.some(({ key }) => IPVS_CHAINS.has(key))) return undefined;
  const isFromIptables = writes.some(({ key, to }) => to === undefined && key === chainKey('nat', NODE_PORTS));
  return isFromIptables ? 'before nat' : 'after nat';
}

function blocksOf(
  writes: readonly Write[],
  { inserted, moved, gone }: JumpWrites,
  once: ReturnType<typeof filterOnce>,
): TableBlock[] {
  const first = newBlock('filter', inserted, moved);
  const mangle = newBlock('mangle', inserted, moved);
  const nat = newBlock('nat', inserted, [...moved, ...gone]);
  const last = newBlock('filter', [], gone);
  const mangleDrops = newBlock('mangle', [], gone);
  // A block of its own, because a rule of another program may still refer to such a chain: then only its deletion is refused.
  const natDrops = newBlock('nat', [], []);
  for (const { key, from, to } of writes) {
    const { table, chain: name } = splitChainKey(key);
    if (table === 'filter') addFilter({ first, last }, { name, from, to });
    else if (to !== undefined) (table === 'nat' ? nat : mangle).chains.push({ name, rules: to });
    else drop(table === 'nat' ? natDrops : mangleDrops, name);
  }
  const between = [mangle, nat].filter((block) => !isEmptyBlock(block));
  const whole = together(first, last);
  const ofFilter =
    once === 'after nat'
      ? [...between, whole]
      : once === 'before nat' || between.length === 0
        ? [whole, ...between]
        : [first, ...between, last];
  const all = [...ofFilter, mangleDrops, natDrops];
  const blocks = all.filter((block) => !isEmptyBlock(block));
  for (const block of blocks) block.chains.sort(byNameDown);
  return blocks;
}

/** The filter table's two parts as one, where nothing is written between them. */
function together(first: BlockDraft, last: BlockDraft): BlockDraft {
  const later = new Set(last.chains.map(({ name }) => name));
  return {
    ...last,
    chains: [...first.chains.filter(({ name }) => !later.has(name)), ...last.chains],
    inserts: first.inserts,
    deletes: [...first.deletes, ...last.deletes],
  };
}

interface BlockDraft {
  readonly table: Table;
  readonly chains: { name: string; rules: Chain }[];
  readonly inserts: { chain: string; text: string }[];
  readonly deletes: { chain: string; text: string }[];
  readonly drops: string[];
}

function newBlock(table: Table, inserted: readonly Jump[], deleted: readonly Jump[]): BlockDraft {
  const lines = (jumps: readonly Jump[]) =>
    jumps
      .filter((entry) => entry.table === table)
      .flatMap(({ chain, text, copies = 1 }) => Array.from({ length: copies }, () => ({ chain, text })));
  return { table, chains: [], inserts: lines(inserted), deletes: lines(deleted), drops: [] };
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
    concerns: () => addedOwners(write),
    lines: () => lineDiff(texts(write.from), texts(write.to)),
  };
}

/** Owners of added lines. */
function addedOwners({ from = [], to = [] }: Write): Set<string> {
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

/** Our jumps of a built-in chain are inserted anew. */
function orderStep(family: Family, { table, chain, wanted, found }: Misplaced): Step {
  const texts = (jumps: readonly Jump[]) => jumps.map(({ text }) => text);
  return {
    key: stepKey(family, jumpsOf(table, chain)),
    family,
    kind: 'rules',
    action: 'update',
    phase: CHAIN_PHASES.update,
    owner: undefined,
    concerns: () => [],
    lines: () => lineDiff(texts(found), texts(wanted)),
  };
}

/** `filter FORWARD, order of jumps` */
export function jumpsOf(table: Table, chain: string): string {
  return `${table} ${chain}, order of jumps`;
}
