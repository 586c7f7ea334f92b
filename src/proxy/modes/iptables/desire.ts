/**
 * The desired chains of one family, kept up to date by changes (docs/iptables.md). Pure: it holds state, and does no I/O.
 *
 * Goals, and how each is met:
 * 1. The cost follows the change: only changed ServicePorts are rendered, and only those leaves of the trees that hold
 *    their entries.
 * 2. The result does not depend on the history (invariant 12): a chain comes from one ServicePort, and a shared chain from
 *    a tree whose shape is a function of its keys.
 */
import type { Address } from '../../../base/address.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import { countHolder } from '../../reconcile/shared.ts';
import { DispatchTree, exchange } from '../netfilter/dispatch-tree.ts';
import { addressSpace, PORTS } from '../netfilter/key-space.ts';
import { type ChainKey, chainKey, EXTERNAL_SERVICES, SERVICES } from '../netfilter/names.ts';
import type { Chain } from '../netfilter/rules.ts';
import { hairpinEntry, type RenderedChains, renderPort, TREES, type TreeEntry, type TreeName } from './render.ts';
import {
  externalFromNode,
  type IptablesSettings,
  nodePortJumps,
  nodePortRejectJumps,
  staticChains,
} from './static-chains.ts';

/** Chains that changed; a chain to remove is undefined. */
export type ChainChanges = ReadonlyMap<ChainKey, Chain | undefined>;

const NOTHING: RenderedChains = { chains: [], entries: [], hairpin: [] };

export class IptablesDesired {
  readonly #settings: IptablesSettings;
  readonly #rendered = new Map<ServicePortKey, RenderedChains>();
  readonly #trees: Readonly<Record<TreeName, DispatchTree>>;
  /** Backends that may reach themselves → number of ServicePorts that have them. */
  readonly #hairpins = new Map<Address, number>();
  #isFirst = true;

  constructor(settings: IptablesSettings) {
    this.#settings = settings;
    const { family } = settings;
    const byDestination = addressSpace(family, '-d');
    this.#trees = {
      services: new DispatchTree(byDestination, TREES.services),
      nodePorts: new DispatchTree(PORTS, TREES.nodePorts),
      hairpin: new DispatchTree(addressSpace(family, '-s'), TREES.hairpin),
      rejects: new DispatchTree(byDestination, TREES.rejects),
      externalRejects: new DispatchTree(byDestination, TREES.externalRejects),
      nodePortRejects: new DispatchTree(PORTS, TREES.nodePortRejects),
      healthPorts: new DispatchTree(PORTS, TREES.healthPorts),
      firewall: new DispatchTree(byDestination, TREES.firewall),
    };
  }

  /** Accept changed ServicePorts of this family; a deleted one is undefined. `shared` renders the chains that they share. */
  update(ports: Iterable<readonly [ServicePortKey, ServicePort | undefined]>): ChainChanges {
    const changes = new Map<ChainKey, Chain | undefined>();
    const added: RenderedChains[] = [];
    // Removals first: an entry that moves from one ServicePort to another must not be deleted after it was added.
    for (const [key, port] of ports) {
      const before = this.#rendered.get(key) ?? NOTHING;
      const after = port === undefined ? NOTHING : renderPort(port, this.#settings);
      if (port === undefined) this.#rendered.delete(key);
      else this.#rendered.set(key, after);
      const entries = exchange(before.entries, after.entries, ({ tree, key, id, rule }) =>
        [tree, key, id, rule.text].join(),
      );
      const hairpin = exchange(before.hairpin, after.hairpin, String);
      for (const [chain] of before.chains) changes.set(chain, undefined);
      for (const entry of entries.removed) this.#trees[entry.tree].delete(entry.key, entry.id);
      for (const address of hairpin.removed) this.#countHairpin(address, -1);
      added.push({ chains: after.chains, entries: entries.added, hairpin: hairpin.added });
    }
    for (const { chains, entries, hairpin } of added) {
      for (const [chain, rules] of chains) changes.set(chain, rules);
      for (const entry of entries) this.#setEntry(entry.tree, entry);
      for (const address of hairpin) this.#countHairpin(address, 1);
    }
    return changes;
  }

  /** The shared chains that changed since the last call. They are rendered once for many changes. */
  shared(): ChainChanges {
    const changes = new Map<ChainKey, Chain | undefined>();
    if (this.#isFirst) for (const [key, chain] of staticChains(this.#settings)) changes.set(key, chain);
    for (const name of Object.keys(TREES) as TreeName[]) this.#renderTree(name, changes);
    this.#isFirst = false;
    return changes;
  }

  #setEntry(tree: TreeName, entry: Omit<TreeEntry, 'tree'>): void {
    this.#trees[tree].set(entry.key, entry.id, entry.rule);
  }

  #countHairpin(address: Address, by: 1 | -1): void {
    const isHeld = countHolder(this.#hairpins, address, by);
    const entry = hairpinEntry(address);
    if (isHeld === true) this.#setEntry('hairpin', entry);
    if (isHeld === false) this.#trees.hairpin.delete(entry.key, entry.id);
  }

  #renderTree(name: TreeName, changes: Map<ChainKey, Chain | undefined>): void {
    const { table, root } = TREES[name];
    for (const [chain, rules] of this.#trees[name].render()) {
      const rest = chain === root ? this.#afterTree(name) : [];
      changes.set(chainKey(table, chain), rules === undefined ? undefined : [...rules, ...rest]);
    }
  }

  /** The rules after a tree in its root's chain. */
  #afterTree(name: TreeName): Chain {
    const { table, root } = TREES[name];
    if (table === 'nat' && root === SERVICES) return nodePortJumps(this.#settings);
    if (table === 'filter' && root === SERVICES) return [externalFromNode()];
    return table === 'filter' && root === EXTERNAL_SERVICES ? nodePortRejectJumps(this.#settings) : [];
  }
}
