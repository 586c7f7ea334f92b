/** The findings of a shadow, which outlive the parts that found them. Times are milliseconds of the clock that never goes backwards. */
import { Latencies } from '../base/latencies.ts';
import type { VerifiedDifference } from '../inspect/wire/verification.ts';
import type { Plan } from '../proxy/reconcile/step.ts';
import { LastingDifferences } from './lasting-differences.ts';
import { Programming } from './programming.ts';

/** A comparison of all Services. */
export interface Round {
  /** When it ended. */
  readonly at: number;
  readonly connections: number;
  readonly milliseconds: number;
  readonly onPurpose: readonly VerifiedDifference[];
  readonly onPurposeCount: number;
}

/** The writes of a switch. */
export interface SwitchPlan {
  readonly at: number;
  readonly create: number;
  readonly update: number;
  readonly remove: number;
  /** Open connections to Services; undefined when they cannot be read. */
  readonly connections: number | undefined;
}

/** Receives the measured values. */
export interface MeasuredLatencies {
  /** Milliseconds. */
  theirs(latency: number): void;
  plan(latency: number): void;
}

export class Findings {
  readonly differences = new LastingDifferences();
  readonly planned = new Latencies();
  readonly programming: Programming;
  readonly #measured: MeasuredLatencies;
  round: Round | undefined;
  plan: SwitchPlan | undefined;
  /** Connections that were followed since the start. */
  connections = 0;
  /** Why nothing can be compared now; undefined when it can. */
  problem: string | undefined = 'no comparison has ended yet';

  constructor(measured: MeasuredLatencies) {
    this.#measured = measured;
    this.programming = new Programming((latency) => measured.theirs(latency));
  }

  /** slicewire took so many milliseconds to make its rules for the changes that came together, of which this is one. */
  planReady(at: number, latency: number): void {
    this.planned.add(at, latency);
    this.#measured.plan(latency);
  }

  switchPlanned(plan: Plan, at: number, connections: number | undefined): void {
    const count = (action: Plan['steps'][number]['action']) =>
      plan.steps.filter((step) => step.action === action).length;
    this.plan = { at, create: count('create'), update: count('update'), remove: count('remove'), connections };
  }
}
