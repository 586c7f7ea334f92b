/**
 * The work of a sync, counted where it is done (invariant 11). Every count only grows: what a sync did is how much they
 * grew from its start to its end, and counting costs an addition for each batch.
 */

/** What a mode did since it was built. */
export interface ModeWork {
  /** Kernel objects whose desired value was made: chains, servers, destinations, addresses, entries of sets. */
  readonly rendered: number;
  /** Kernel objects whose desired and believed values were compared to make plans. */
  readonly compared: number;
  /** Steps of the plans. */
  readonly steps: number;
}

export interface Work extends ModeWork {
  /** Services that the model settled. */
  readonly services: number;
}

export function sumOfWork(a: ModeWork, b: ModeWork): ModeWork {
  return { rendered: a.rendered + b.rendered, compared: a.compared + b.compared, steps: a.steps + b.steps };
}

export function workBetween(before: Work, after: Work): Work {
  return {
    services: after.services - before.services,
    rendered: after.rendered - before.rendered,
    compared: after.compared - before.compared,
    steps: after.steps - before.steps,
  };
}
