/**
 * A view of the objects that a mode has in the kernel: as read, as believed, or as desired. `inspect/explain/` walks packets through it.
 * A view is looked up lazily, and nothing is copied to make one.
 */

import type { Address, Family } from '../../base/address.ts';
import type { SeenDestination, Server, ServerId } from '../../kernel/ipvs-kernel.ts';
import type { Hook, Latin1Bytes, NftElement, NftSet, ReadRule } from '../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../model/objects.ts';
import type { Rule, Table } from './netfilter/rules.ts';

/** The objects of one family. A mode without a kind of object leaves it undefined. */
export interface FamilyView {
  readonly family: Family;
  /** Chains of iptables: iptables mode and IPVS mode. */
  readonly rules?: RulesView | undefined;
  /** Virtual servers, sets and addresses: IPVS mode. */
  readonly servers?: ServersView | undefined;
  /** The table of nftables mode. */
  readonly table?: TableView | undefined;
}

/** Chains of iptables. */
export interface RulesView {
  /**
   * The rules of a chain, in order, without `-A CHAIN`; undefined when there is no such chain. Of a built-in chain only the jumps into our
   * chains, because the view is of the proxy alone.
   */
  chain(table: Table, name: string): readonly Rule[] | undefined;
  /** The policy of a built-in chain of the table `filter`, which decides at its end. */
  policy(chain: string): 'accept' | 'drop';
}

/** Virtual servers of IPVS, and the sets that its rules refer to. */
export interface ServersView {
  /** Undefined when there is no such virtual server. Throws RangeError for one that the focus of a reading left out. */
  server(id: ServerId): ServerView | undefined;
  /** `set`: its name in the kernel. `entry`: as `ipset list` prints it. */
  hasEntry(set: string, entry: string): boolean;
  /** Returns whether the device of Services has the address. */
  hasAddress(address: Address): boolean;
}

export interface ServerView {
  readonly server: Server;
  readonly destinations: readonly Pick<SeenDestination, 'address' | 'port' | 'weight'>[];
  readonly owner: ServiceKey | undefined;
}

/** The table of a proxy in nftables. */
export interface TableView {
  readonly name: string;
  /** The chains that the kernel calls at a hook, in the order of their priorities. */
  called(hook: Hook['hook']): readonly CalledChain[];
  /** Undefined when there is no such chain. */
  chain(name: string): readonly ReadRule[] | undefined;
  /** Undefined when there is no such set. */
  set(name: string): NftSet | undefined;
  /** An element by its exact key. */
  element(set: string, key: Latin1Bytes): ElementView | undefined;
  /** All elements of a set, for ranges. */
  elements(set: string): Iterable<ElementView>;
}

/** A chain that the kernel calls. One of type `nat` sees the first packet of a connection alone. */
export interface CalledChain {
  readonly name: string;
  readonly type: Hook['type'];
}

export interface ElementView extends NftElement {
  /** Undefined when Services share the element, or when unknown. */
  readonly owner: ServiceKey | undefined;
}
