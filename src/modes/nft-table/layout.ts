/** What a table is made of, for the code that keeps it in the kernel: its chains, its sets, and how their elements belong together. */
import type { Hook, NftElement, NftRule, NftSet } from '../../host/nftables-kernel.ts';
import type { Family } from '../../model/address.ts';
import type { ServiceKey } from '../../model/objects.ts';

export interface NftChain {
  readonly hook?: Hook;
  readonly rules: readonly NftRule[];
}

/** An element with the Service that it is for; undefined: shared, or unknown. */
export interface Entry extends NftElement {
  readonly owner: ServiceKey | undefined;
}

/** Where desired objects go; undefined for one that is not wanted. */
export interface DesiredSink {
  chain(name: string, chain: NftChain | undefined): void;
  set(name: string, set: NftSet | undefined): void;
  element(set: NftSet, key: string, entry: Entry | undefined): void;
}

export interface TableLayout {
  /** Every set whose elements are ours to write. */
  readonly sets: readonly NftSet[];
  /** A set by its name; undefined for one that is not ours. */
  readonly setNamed: (name: string) => NftSet | undefined;
  /** Sets whose elements stay for a moment after nobody wants them. */
  readonly lasting: readonly NftSet[];
  /** Sets with shared elements without which a new Service would not serve everybody: they are written before it. */
  readonly neededFirst: readonly NftSet[];
  /** Sets whose keys begin with a frontend, and how many bytes come after it. Elements of one frontend are written together. */
  readonly afterFrontend: ReadonlyMap<NftSet, (family: Family) => number>;
}
