/** The settings of one family that rules of every mode depend on. */
import type { Address, Family } from '../../../base/address.ts';
import type { LocalDetector } from './local-traffic.ts';

export interface FamilySettings {
  readonly family: Family;
  readonly masqueradeBit: number;
  readonly masqueradeAll: boolean;
  readonly localDetector: LocalDetector;
  /** The node's own addresses: a source range that holds one lets the node itself in (docs/semantics.md 6.14). */
  readonly nodeAddresses: readonly Address[];
}
