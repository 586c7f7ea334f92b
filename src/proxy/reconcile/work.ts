/**
 * The work of a sync, counted where it is done (docs/architecture.md, invariant 11). Counts only grow, and a sync's work is their
 * growth. Counting costs an addition for each batch.
 */

/** The work of a mode so far. */
export interface ModeWork {
  /** Kernel objects whose desired value was rendered: chains, servers, destinations, addresses, entries of sets. */
  readonly rendered: number;
  /** Kernel objects whose desired and believed values were compared for plans. */
  readonly compared: number;
  /** Steps of the plans. */
  readonly steps: number;
}

/** The work of a mode and of the model. */
export interface Work extends ModeWork {
  /** Services that the model visited. */
  readonly services: number;
}

/** The sum of two modes' work. */
export function sumOfWork(a: ModeWork, b: ModeWork): ModeWork {
  return { rendered: a.rendered + b.rendered, compared: a.compared + b.compared, steps: a.steps + b.steps };
}

/** The work between two readings of the counts. */
export function workBetween(before: Work, after: Work): Work {
  return {
    services: after.services - before.services,
    rendered: after.rendered - before.rendered,
    compared: after.compared - before.compared,
    steps: after.steps - before.steps,
  };
}
