/**
 * Deletes stale UDP flows (`model/udp-flows.ts`), beside the syncs and never in their way (k8s#135323).
 *
 * The table of connections is read part by part, with a breath after each, and nothing of it is kept (k8s#129982). After a
 * sweep the sweeper rests nine times as long as it worked, so that it never takes more than a tenth of a core, whatever
 * the churn. A sweep that failed is made again: the work left is a state, not an event (k8s#126130).
 */

import { breath, type Clock } from '../host/clock.ts';
import type { FlowTable, OpenFlowTable } from '../host/conntrack.ts';
import type { Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import type { IsNodeAddress, UdpFlows } from '../model/udp-flows.ts';
import { Wait } from './wait.ts';

/** Milliseconds between two sweeps at least. */
const REST = 1000;
/** Rest this many times as long as the sweep took. */
const REST_FACTOR = 9;
/** Sweeps of a table that changes while it is read, after which what was seen is taken for all (reference 8.2). */
const MOST_CHANGED = 5;

export interface SweeperParts {
  readonly flows: UdpFlows;
  readonly open: OpenFlowTable;
  readonly clock: Clock;
  readonly families: readonly Family[];
  /** Made anew for each sweep: a node's addresses change. */
  readonly nodeAddresses: (family: Family) => Promise<IsNodeAddress>;
  /** Milliseconds after which a sweep that failed again and again is made again at the latest. */
  readonly retry: number;
  readonly onSweep: (report: SweepReport) => void;
}

export interface SweepReport {
  /** UDP flows that were looked at. */
  readonly seen: number;
  readonly deleted: number;
  /** Of these, in each family. */
  readonly deletedIn: ReadonlyMap<Family, number>;
  /** ServicePorts whose flows were deleted. */
  readonly owners: ReadonlySet<string>;
  /** Milliseconds. */
  readonly duration: number;
  /**
   * Whether every flow was seen; the table changed while it was read, so that one may have been missed; the sweep was
   * stopped with the agent; or it failed.
   */
  readonly outcome: 'complete' | 'changed' | 'stopped' | 'failed';
  /** Why it failed. */
  readonly cause: string | undefined;
}

export class FlowSweeper {
  readonly #parts: SweeperParts;
  readonly #wait: Wait;
  #isAsked = false;

  constructor(parts: SweeperParts) {
    this.#parts = parts;
    this.#wait = new Wait(parts.clock);
  }

  /** Rules were written: sweep, if the flows need it. Never waits. */
  request(): void {
    this.#isAsked = true;
    this.#wait.wake();
  }

  /** Sweep when asked, until the signal aborts. */
  async start(signal: AbortSignal): Promise<void> {
    const { flows, retry } = this.#parts;
    let failures = 0;
    while (!signal.aborted) {
      if (!this.#isAsked) await this.#wait.start({ time: undefined, isWakeable: true, signal });
      this.#isAsked = false;
      if (signal.aborted || !flows.isDirty) continue;
      const { outcome, duration } = await this.sweep(signal);
      failures = outcome === 'complete' ? 0 : failures + 1;
      if (outcome === 'changed' && failures >= MOST_CHANGED) {
        // What was seen is all, unless rules were written meanwhile.
        if (!this.#isAsked) flows.begin();
        failures = 0;
      }
      if (failures > 0) this.#isAsked = true;
      const patience = outcome === 'failed' ? Math.min(Math.max(REST, retry), REST * 2 ** (failures - 1)) : REST;
      await this.#wait.start({ time: Math.max(patience, duration * REST_FACTOR), isWakeable: false, signal });
    }
  }

  /** One sweep of all families. What fails is in the report. */
  async sweep(signal: AbortSignal): Promise<SweepReport> {
    const { flows, open, clock, families, onSweep } = this.#parts;
    const count = { seen: 0, deleted: 0, deletedIn: new Map<Family, number>(), owners: new Set<string>() };
    const mark = flows.begin();
    const start = clock.now();
    let outcome: SweepReport['outcome'] = 'complete';
    let cause: string | undefined;
    try {
      const table = await open();
      try {
        for (const family of families) {
          if (await this.#sweepFamily({ family, table, count, signal })) outcome = 'changed';
        }
      } finally {
        table.close();
      }
    } catch (error) {
      outcome = 'failed';
      cause = causeOf(error);
    }
    if (signal.aborted) outcome = 'stopped';
    if (outcome === 'complete') flows.swept(mark);
    else flows.notSwept();
    const report = { ...count, duration: clock.now() - start, outcome, cause };
    onSweep(report);
    return report;
  }

  /** Returns whether a flow may have been missed. */
  async #sweepFamily({ family, table, count, signal }: FamilySweep): Promise<boolean> {
    const { flows, nodeAddresses } = this.#parts;
    const isNodeAddress = await nodeAddresses(family);
    const parts = table.udpFlows(family);
    while (!signal.aborted) {
      const next = parts.next();
      if (next.done === true) return next.value;
      count.seen += next.value.length;
      const stale = next.value.filter((flow) => {
        const verdict = flows.judge(family, flow, isNodeAddress);
        if (verdict.kind === 'stale') count.owners.add(verdict.owner ?? 'a Service that is gone');
        return verdict.kind === 'stale';
      });
      const deleted = table.delete(family, stale);
      count.deleted += deleted;
      count.deletedIn.set(family, (count.deletedIn.get(family) ?? 0) + deleted);
      await breath();
    }
    return true;
  }
}

interface FamilySweep {
  readonly family: Family;
  readonly table: FlowTable;
  readonly count: {
    seen: number;
    deleted: number;
    readonly deletedIn: Map<Family, number>;
    readonly owners: Set<string>;
  };
  readonly signal: AbortSignal;
}
