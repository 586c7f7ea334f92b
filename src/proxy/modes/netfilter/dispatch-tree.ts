/**
 * A tree of chains that finds the rules for a packet in a logarithm of their number.
 *
 * Goals, and how each is met:
 * 1. A packet meets few rules: a chain with more than LEAF_RULES entries is replaced by a few branches, each to a chain of
 *    its own.
 * 2. A change touches one leaf: keys are kept in a radix tree of single digits, and only chains on the way to a changed
 *    key are rendered.
 * 3. The shape is a function of the set of keys, not of its history (invariant 12): a node splits exactly when it has
 *    more than LEAF_RULES entries, and merges otherwise.
 * 4. Chains are few, because `iptables-nft-restore` is worse than linear in them: leaves are at least about half full, a
 *    chain branches over up to STRIDE digits at once, levels with a single branch are skipped, and a branch of at most
 *    INLINE_RULES entries is part of its parent's chain.
 * 5. A key far from all others changes only the chains above the point where it branches off: chains end at multiples of
 *    STRIDE digits, wherever they begin.
 *
 * Rules of one tree exclude each other (different keys match different packets), so their order does not matter, but it
 * is fixed: by key, then by id.
 */
import type { KeySpace } from './key-space.ts';
import { type Chain, goTo, jump, type Rule, rule } from './rules.ts';

/** Limit of the entries of a leaf. */
export const LEAF_RULES = 32;
/** Limit of the entries of a branch that is part of its parent's chain. */
const INLINE_RULES = 2;
/** A chain branches down to the next prefix whose length is a multiple of this: 4 bits make at most 16 branches. */
const STRIDE = 4;

export interface TreeNames {
  /** The chain at the top. Its branches are jumps, so that packets still reach the rules after the tree in that chain. */
  readonly root: string;
  /** The prefix of the names of the other chains. */
  readonly prefix: string;
}

interface DispatchEntry {
  readonly key: string;
  readonly id: string;
  readonly rule: Rule;
}

/** The chain being rendered. */
interface ChainDraft {
  /** Nodes whose prefixes have at least this many digits have chains of their own. */
  readonly end: number;
  readonly isRoot: boolean;
  readonly rules: Rule[];
  readonly out: Map<string, Chain | undefined>;
}

/** A node of the radix tree: a leaf with entries, or branches by the next digit. */
interface TreeNode {
  readonly prefix: string;
  count: number;
  entries: Map<string, DispatchEntry> | undefined;
  branches: Map<string, TreeNode> | undefined;
  /** The chain rendered for this node. */
  chain: string | undefined;
  dirty: boolean;
}

/** The items that only one of two lists has: the earlier list those `removed`, the later one those `added`. */
export interface Exchange<T> {
  readonly removed: readonly T[];
  readonly added: readonly T[];
}

/** Items are the same when `sign` gives the same text. A tree gets the differences alone, because each entry that is set renders a leaf. */
export function exchange<T>(before: readonly T[], after: readonly T[], sign: (one: T) => string): Exchange<T> {
  if (before.length === 0) return { removed: before, added: after };
  const had = new Set(before.map(sign));
  const has = new Set(after.map(sign));
  return {
    removed: before.filter((one) => !has.has(sign(one))),
    added: after.filter((one) => !had.has(sign(one))),
  };
}

export class DispatchTree {
  readonly #space: KeySpace;
  readonly #names: TreeNames;
  readonly #root: TreeNode = newNode('');
  /** Chains of removed nodes. */
  readonly #dropped = new Set<string>();

  constructor(space: KeySpace, names: TreeNames) {
    this.#space = space;
    this.#names = names;
  }

  /** Number of entries. */
  get size(): number {
    return this.#root.count;
  }

  /** Add or replace the rule of an entry; `id` distinguishes entries of the same key. All keys have the same length. */
  set(key: string, id: string, value: Rule): void {
    const entry: DispatchEntry = { key, id, rule: value };
    const isNew = !this.#has(key, id);
    let node = this.#root;
    for (;;) {
      node.dirty = true;
      if (isNew) node.count += 1;
      if (node.entries !== undefined) break;
      node = branchOf(node, key);
    }
    node.entries.set(entryKey(key, id), entry);
    this.#splitWhereNeeded(node);
  }

  delete(key: string, id: string): void {
    if (!this.#has(key, id)) return;
    const way: TreeNode[] = [];
    let node = this.#root;
    for (;;) {
      way.push(node);
      node.dirty = true;
      node.count -= 1;
      if (node.entries !== undefined) break;
      node = branchOf(node, key);
    }
    node.entries.delete(entryKey(key, id));
    this.#mergeWhereNeeded(way);
  }

  /**
   * The chains that changed since the last call; undefined for a removed one. The root's chain is among them whenever it
   * changed, also when it became empty.
   */
  render(): Map<string, Chain | undefined> {
    const out = new Map<string, Chain | undefined>();
    if (this.#root.dirty || this.#root.chain === undefined) this.#renderNode(this.#root, this.#names.root, out);
    for (const chain of this.#dropped) if (!out.has(chain)) out.set(chain, undefined);
    this.#dropped.clear();
    return out;
  }

  #has(key: string, id: string): boolean {
    let node: TreeNode | undefined = this.#root;
    while (node?.branches !== undefined) node = node.branches.get(digitAt(node, key));
    return node?.entries?.has(entryKey(key, id)) ?? false;
  }

  #splitWhereNeeded(node: TreeNode): void {
    const entries = node.entries;
    if (entries === undefined || entries.size <= LEAF_RULES) return;
    const [first] = entries.values();
    if (first === undefined || first.key.length === node.prefix.length) return;
    node.entries = undefined;
    node.branches = new Map();
    for (const entry of entries.values()) {
      const branch = branchOf(node, entry.key);
      branch.entries?.set(entryKey(entry.key, entry.id), entry);
      branch.count += 1;
      branch.dirty = true;
    }
    for (const branch of node.branches.values()) this.#splitWhereNeeded(branch);
  }

  #mergeWhereNeeded(way: readonly TreeNode[]): void {
    for (const [i, node] of way.entries()) {
      if (node.branches === undefined) return;
      if (node.count <= LEAF_RULES) {
        const entries = new Map<string, DispatchEntry>();
        for (const branch of node.branches.values()) this.#collect(branch, entries);
        node.entries = entries;
        node.branches = undefined;
        return;
      }
      const next = way[i + 1];
      if (next !== undefined && next.count === 0) {
        node.branches.delete(digitAt(node, next.prefix));
        this.#dropChains(next);
        return;
      }
    }
  }

  /** Move all entries below a node into `into`, and drop the node. */
  #collect(node: TreeNode, into: Map<string, DispatchEntry>): void {
    this.#dropChain(node);
    for (const [key, entry] of node.entries ?? []) into.set(key, entry);
    for (const branch of node.branches?.values() ?? []) this.#collect(branch, into);
  }

  #dropChains(node: TreeNode): void {
    this.#dropChain(node);
    for (const branch of node.branches?.values() ?? []) this.#dropChains(branch);
  }

  #dropChain(node: TreeNode): void {
    if (node.chain !== undefined) this.#dropped.add(node.chain);
    node.chain = undefined;
  }

  #renderNode(node: TreeNode, chain: string, out: Map<string, Chain | undefined>): void {
    const rules: Rule[] = [];
    if (node.branches === undefined) this.#addEntries(node, rules);
    else this.#renderBranches(node, { end: endOf(node), isRoot: node === this.#root, rules, out });
    node.chain = chain;
    node.dirty = false;
    out.set(chain, rules);
  }

  /** The branches of a chain: down to leaves, or to nodes at its end. */
  #renderBranches(node: TreeNode, draft: ChainDraft): void {
    for (const digit of [...(node.branches?.keys() ?? [])].sort()) {
      const branch = this.#skipSingles(node.branches?.get(digit));
      if (branch === undefined) continue;
      if (branch.branches === undefined || branch.prefix.length >= draft.end) this.#renderBranch(branch, draft);
      else {
        // Its branches are part of this chain: it needs no chain of its own.
        this.#dropChain(branch);
        this.#renderBranches(branch, draft);
        branch.dirty = false;
      }
    }
  }

  #renderBranch(branch: TreeNode, { isRoot, rules, out }: ChainDraft): void {
    if (branch.branches === undefined && branch.count <= INLINE_RULES) {
      this.#dropChain(branch);
      branch.dirty = false;
      this.#addEntries(branch, rules);
      return;
    }
    const chain = `${this.#names.prefix}-${this.#space.label(branch.prefix)}`;
    const enter = isRoot ? jump : goTo;
    rules.push(rule([this.#space.match(branch.prefix), enter(chain)]));
    if (branch.dirty || branch.chain !== chain) this.#renderNode(branch, chain, out);
  }

  /** The first node below with more than one branch, or the leaf. The nodes skipped have no chain. */
  #skipSingles(start: TreeNode | undefined): TreeNode | undefined {
    let node = start;
    while (node?.branches?.size === 1) {
      this.#dropChain(node);
      const [only]: (TreeNode | undefined)[] = [...node.branches.values()];
      if (only !== undefined && node.dirty) only.dirty = true;
      node.dirty = false;
      node = only;
    }
    return node;
  }

  #addEntries(node: TreeNode, rules: Rule[]): void {
    const entries = [...(node.entries?.values() ?? [])].sort(byKey);
    for (const entry of entries) rules.push(entry.rule);
  }
}

function newNode(prefix: string): TreeNode {
  return { prefix, count: 0, entries: new Map(), branches: undefined, chain: undefined, dirty: true };
}

/** The end of a node's chain: past the first node at or below it that has more than one branch. */
function endOf(node: TreeNode): number {
  let fork: TreeNode | undefined = node;
  while (fork?.branches?.size === 1) [fork] = fork.branches.values();
  const { length } = (fork ?? node).prefix;
  return length - (length % STRIDE) + STRIDE;
}

function digitAt(node: TreeNode, key: string): string {
  return key.charAt(node.prefix.length);
}

/** The branch of a key; a missing one is created. */
function branchOf(node: TreeNode, key: string): TreeNode {
  const digit = digitAt(node, key);
  let branch = node.branches?.get(digit);
  if (branch === undefined) {
    branch = newNode(node.prefix + digit);
    node.branches?.set(digit, branch);
  }
  return branch;
}

function entryKey(key: string, id: string): string {
  return `${key} ${id}`;
}

function byKey(a: DispatchEntry, b: DispatchEntry): number {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
