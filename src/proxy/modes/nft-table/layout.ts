/** The parts of a table, for the code that writes it: chains, sets, and how their elements belong together. */

import type { Family } from '../../../base/address.ts';
import type { Hook, NftElement, NftRule, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';

export interface NftChain {
  readonly hook?: Hook;
  readonly rules: readonly NftRule[];
  /** The Service that alone uses it: its other rules are written with the elements of that Service. */
  readonly owner?: ServiceKey;
}

/** An element with its Service. It is undefined when Services share the element, or when unknown. */
export interface OwnedElement extends NftElement {
  readonly owner: ServiceKey | undefined;
}

/** Receives desired objects; an object to remove is undefined. */
export interface DesiredSink {
  chain(name: string, chain: NftChain | undefined): void;
  set(name: string, set: NftSet | undefined): void;
  element(set: NftSet, key: string, entry: OwnedElement | undefined): void;
  isDesired(set: NftSet, key: string): boolean;
}

export interface TableLayout {
  /** Every set whose elements we write. */
  readonly sets: readonly NftSet[];
  /** Returns undefined for a set that is not ours. */
  readonly setNamed: (name: string) => NftSet | undefined;
  /** Sets whose elements stay for a moment after they are no longer desired (`DelayedRemovalOptions.keep`). */
  readonly lasting: readonly NftSet[];
  /** Sets with shared elements that a new Service needs to serve every client: they are written before it. */
  readonly neededFirst: readonly NftSet[];
  /** Sets whose keys begin with a frontend, with the number of bytes after it. Elements of one frontend are written together. */
  readonly afterFrontend: ReadonlyMap<NftSet, (family: Family) => number>;
}
