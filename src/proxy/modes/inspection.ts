/** Answers to questions about the kernel: what a mode has there, wants there, and where both differ. Nothing here writes. */
import type { Address, Family } from '../../base/address.ts';
import type { ServiceKey } from '../model/objects.ts';
import type { Because, Unlike } from '../reconcile/compare.ts';
import type { FamilyView } from './view.ts';

/** A kernel object that is not as desired. */
export interface ObjectDifference {
  readonly family: Family | undefined;
  /** The kernel object in the words of the mode's steps, such as `nat chain KUBE-SVC-XPGD46QRK7WJZT7O` or `services 10.96.0.20 . tcp . 80`. */
  readonly object: string;
  /** The Service that it belongs to; undefined when it is shared or foreign. */
  readonly owner: ServiceKey | undefined;
  /**
   * `missing`: desired and not installed. `changed`: installed with another content. `foreign`: installed in our tables, and not desired.
   * `order`: the same rules in another order or number.
   */
  readonly kind: 'missing' | 'changed' | 'foreign' | 'order';
  /** Lines that are desired and not installed. */
  readonly wanted: readonly string[];
  /** Lines that are installed and not desired. */
  readonly found: readonly string[];
  /**
   * Why it may differ without a fault: the change is not written yet, the kernel refuses the Service, or the removal waits until connections
   * end. Undefined when another program wrote.
   */
  readonly because: Because | undefined;
  /** Whether slicewire repairs it after its next reading of the kernel. It does not see a rule of nftables that was replaced under its comment. */
  readonly isRepaired: boolean;
}

/** The program that committed the last change of the kernel's nft ruleset. */
export interface LastWriter {
  readonly pid: number;
  readonly name: string;
  /** Whether it is this process. */
  readonly isUs: boolean;
}

export interface Comparison {
  readonly differences: readonly ObjectDifference[];
  /** Number of kernel objects that were compared: chains, jumps, sets, elements, servers, destinations, addresses. */
  readonly compared: number;
  /** Undefined where the kernel does not know it, as with legacy iptables. */
  readonly lastWriter: LastWriter | undefined;
}

/** A virtual destination that limits a reading, where a mode can read less than all of it. */
export interface Focus {
  readonly address: Address;
  readonly port: number;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
}

/** Inspects the kernel for a mode. Views stay valid until the next sync. */
export interface ModeInspection {
  /** The believed state, from memory. A family that was not read yet is left out. */
  believed(): readonly FamilyView[];
  /** The desired state, from memory. */
  desired(): readonly FamilyView[];
  /** Whether no other program wrote since the believed state was read or written, as far as the kernel knows at once. False when unknown. */
  isCertain(): Promise<boolean>;
  /** Read the kernel now, in portions between which the event loop runs; the believed state stays the same. Throws when it cannot be read. */
  read(signal: AbortSignal, focus?: Focus): Promise<readonly FamilyView[]>;
  /**
   * Read the kernel and compare it with the desired state, in portions. `setAside`: owners and keys that the kernel refused
   * (`SetAside`). Throws when it cannot be read.
   */
  compare(signal: AbortSignal, setAside?: ReadonlySet<string>): Promise<Comparison>;
  /** See `Comparison`. */
  lastWriter(): Promise<LastWriter | undefined>;
  /**
   * Seconds for which session affinity still remembers this client, by the name of the memory. Memories without the client are left out.
   */
  remembered(family: Family, memories: Memories, client: Address): Promise<ReadonlyMap<string, number>>;
}

/** Memories of session affinity. */
export interface Memories {
  /** Names of `recent` lists of iptables, or of sets of nftables. */
  readonly lists: readonly string[];
  /** Destinations of IPVS (`destinationKey`). */
  readonly destinations: readonly string[];
}

/** The inspection of one family; see `ModeInspection`. */
export interface FamilyInspection {
  /** Number of our writes so far. */
  readonly writes: number;
  /** Undefined until it was read. */
  believed(): FamilyView | undefined;
  desired(): FamilyView;
  isCertain(): Promise<boolean>;
  read(signal: AbortSignal, focus?: Focus): Promise<FamilyView>;
  /** Read the kernel. The result compares as it is iterated: one value for each object, undefined when it is as desired. */
  compared(signal: AbortSignal): Promise<Iterable<Unlike | undefined>>;
  remembered(memories: Memories, client: Address): Promise<ReadonlyMap<string, number>>;
  /** See `Comparison`. */
  lastWriter(): Promise<LastWriter | undefined>;
}

/** The inspection of the objects that no family has. */
export type NodeInspection = Pick<FamilyInspection, 'compared'>;
