/** The part of a mode that exists once for the node. `families.ts` drives it. */
import type { ApplyReport, Step } from '../reconcile/step.ts';
import type { NodeInspection } from './inspection.ts';
import type { CleanupPart } from './mode.ts';

export interface NodePlan {
  readonly steps: readonly Step[];
  /** Write the part that comes before the families. `isBlocked` means that the families cannot be written. */
  before(signal: AbortSignal): Promise<{ readonly reports: readonly ApplyReport[]; readonly isBlocked: boolean }>;
  /** Write the part that comes after the families. */
  after(signal: AbortSignal): Promise<readonly ApplyReport[]>;
}

/** The part of a mode that exists once for the node, not for each family. */
export interface NodePart {
  readonly isKnown: boolean;
  readonly isWaiting: boolean;
  readonly compared: number;
  /** Read it. When it throws, nothing is known. */
  observe(): Promise<void>;
  /** `isEmptied` means that no family needs it any more. */
  plan(isEmptied: boolean): NodePlan;
  isInstalled(): Promise<boolean>;
  /** Predecessors have none. */
  readonly inspection?: NodeInspection | undefined;
  removal(signal: AbortSignal): CleanupPart | undefined;
}

export const NO_NODE_PART: NodePart = {
  isKnown: true,
  isWaiting: false,
  compared: 0,
  observe: () => Promise.resolve(),
  plan: () => ({
    steps: [],
    before: () => Promise.resolve({ reports: [], isBlocked: false }),
    after: () => Promise.resolve([]),
  }),
  isInstalled: () => Promise.resolve(true),
  removal: () => undefined,
};
