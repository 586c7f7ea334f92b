/** What is asked of the probes (`probe-inside.ts`) by their parent, and what they tell. */
import type { Target } from './cluster.ts';

export interface ProbeOptions {
  readonly targets: readonly Target[];
  /** Questions a second, to the targets in turn. */
  readonly perSecond: number;
}

/** `end`: ask no more, and answer when the last question is over. */
export type ProbeCommand = { readonly kind: 'begin' | 'count' | 'end' };

export interface ProbeAnswer {
  readonly sent: number;
  readonly answered: number;
  /** First packets of connections that the kernel sent again: a connection may come to be all the same. */
  readonly sentAgain: number;
  /** Milliseconds of the slowest answer. */
  readonly slowest: number;
}

/** A question without an answer, with an answer of somebody else, or to the moving Service. */
export interface Probed {
  readonly target: Pick<Target, 'name' | 'protocol' | 'address' | 'port' | 'fromPort'>;
  /** Milliseconds of the monotonic clock: when it was asked, and when it was over. */
  readonly asked: number;
  readonly over: number;
  readonly outcome: 'lost' | 'wrong' | 'moving';
  /** The address that answered; or why nobody did. */
  readonly by: string;
}
