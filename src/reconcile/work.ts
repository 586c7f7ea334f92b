/**
 * The work of a sync, counted where it is done (invariant 11). Counts only grow. The work of one sync is the growth from its
 * start to its end, and counting costs one addition for each batch.
 */

/** The work of a mode since it was made. */
export interface ModeWork {
  /** Kernel objects whose desired value was rendered: chains, servers, destinations, addresses, entries of sets. */
  readonly rendered: number;
  /** Kernel objects whose desired and believed values were compared for plans. */
  readonly compared: number;
  /** Steps of the plans. */
  readonly steps: number;
}

export interface Work extends ModeWork {
  /** Services that the model visited. */
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
