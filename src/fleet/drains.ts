/**
 * The questions of `/drained` that wait. An endpoint is drained when it takes no new connections by the newest objects, and every node
 * that counts has the versions in its kernel that were the newest when that became true (k8s#106476). Pure.
 */

import type { Drained, NodeBehind } from '../answers/drained.ts';
import { API_VERSION } from '../answers/head.ts';
import { NoAnswer } from '../answers/problem.ts';
import type { Clock } from '../host/clock.ts';
import type { FleetNodes } from './nodes.ts';
import type { FleetObjects, Target } from './objects.ts';

export interface DrainsOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
}

export interface Patience {
  /** Milliseconds. */
  readonly timeout: number;
  /** Ends the question: the promise rejects with its reason. */
  readonly signal: AbortSignal;
}

export class Drains {
  constructor(_options: DrainsOptions) {}

  /** Questions that wait. */
  get waiting(): number {
    return 0;
  }

  /** Answers since the start: drained, or not within the time. */
  get answered(): { readonly yes: number; readonly late: number } {
    return { yes: 0, late: 0 };
  }

  /**
   * Resolves as soon as the target is drained, or with `drained: false` when the time is over. Rejects with NoAnswer where the fleet knows
   * too little until then (its lists are not complete, or no node counts), where too many questions wait, and where it stops; with the
   * signal's reason when it aborts.
   */
  ask(_target: Target, _patience: Patience): Promise<Drained> {
    return Promise.reject(new NoAnswer(API_VERSION));
  }

  /** The fleet stops: all that wait are rejected with a NoAnswer of these words. */
  stop(_why: string): void {}
}

export type { NodeBehind };
