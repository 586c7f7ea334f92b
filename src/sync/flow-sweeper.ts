/**
 * Deletes stale flows, beside the syncs and never in their way (k8s#135323): of UDP (`model/udp-flows.ts`), and connections of TCP
 * and SCTP that are being opened towards an endpoint that left (`model/opening-flows.ts`).
 *
 * The table of connections is read part by part, with a breath after each, and nothing of it is kept (k8s#129982). After a
 * sweep the sweeper rests nine times as long as it worked, so that it never takes more than a tenth of a core, whatever
 * the churn; for connections that nobody answered, which are less urgent, it is a hundredth up to a rest of
 * 10 s. A sweep that failed is made again: the work left is a state, not an event (k8s#126130). When the agent stops, or other
 * parts of it take over, what is due is swept at once, and what was not is handed over.
 */

import { breath, type Clock } from '../host/clock.ts';
import type { FlowTable, OpenFlowTable } from '../host/conntrack.ts';
import type { Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import type { IsNodeAddress } from '../model/flow-leftovers.ts';
import { FLOW_KINDS, type FlowKind, type Flows, type FormerFrontends } from '../model/flows.ts';
import { Wait } from './wait.ts';

/** Milliseconds between two sweeps at least. */
const REST = 1000;
/** Rest this many times as long as the sweep took. */
const REST_FACTOR = 9;
/** And so many times before connections that nobody answered are swept again: endpoints of TCP come and go all the time, and who was kept out tries again. */
const OPENING_REST_FACTOR = 99;
/** Milliseconds after which that is enough. */
const OPENING_REST = 10_000;
/** Sweeps of a table that changes while it is read, after which what was seen is taken for all (docs/semantics.md 8.2). */
const MOST_CHANGED = 5;
/** Sweeps with which a stop is held up at most. */
const MOST_LAST = 3;

export interface SweeperParts {
  readonly flows: Flows;
  readonly open: OpenFlowTable;
  readonly clock: Clock;
  readonly families: readonly Family[];
  /** Made anew for each sweep: a node's addresses change. */
  readonly nodeAddresses: (family: Family) => Promise<IsNodeAddress>;
  /** Milliseconds after which a sweep that failed again and again is made again at the latest. */
  readonly retry: number;
  readonly onSweep: (report: SweepReport) => void;
}

/** Of one kind of flows. */
export interface SweepCount {
  /** Flows that were looked at. */
  readonly seen: number;
  readonly deleted: number;
  /** Of these, in each family. */
  readonly deletedIn: ReadonlyMap<Family, number>;
  /** ServicePorts whose flows were deleted. */
  readonly owners: ReadonlySet<string>;
}

export interface SweepReport {
  /** Of the kinds that were swept. */
  readonly kinds: ReadonlyMap<FlowKind, SweepCount>;
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

/** What one sweeper tells the one that takes over from it. */
export interface Unswept {
  readonly former: FormerFrontends;
  /** Which addresses took node ports. */
  readonly nodeAddresses: ReadonlyMap<Family, IsNodeAddress>;
}

export class FlowSweeper {
  readonly #parts: SweeperParts;
  readonly #wait: Wait;
  #isAsked = false;
  /** Connections that nobody answered are not swept before. */
  #openingsAt = Number.NEGATIVE_INFINITY;
  /** As they were when every flow was seen the last time, with all rules written. */
  #nodeAddresses: ReadonlyMap<Family, IsNodeAddress> = new Map();

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
    const { flows, retry, clock } = this.#parts;
    let failures = 0;
    while (!signal.aborted) {
      if (!this.#isAsked) await this.#wait.start({ time: undefined, isWakeable: true, signal });
      this.#isAsked = false;
      const rest = this.#openingsAt - clock.now();
      const due = flows.due.filter((kind) => kind !== 'opening' || rest <= 0);
      if (signal.aborted) return;
      if (due.length === 0) {
        if (!flows.isDirty) continue;
        await this.#wait.start({ time: rest, isWakeable: true, signal });
        this.#isAsked = true;
        continue;
      }
      const { outcome, duration } = await this.sweep(signal, due);
      failures = outcome === 'complete' ? 0 : failures + 1;
      if (outcome === 'changed' && failures >= MOST_CHANGED) {
        // What was seen is all, unless rules were written meanwhile.
        if (!this.#isAsked) flows.begin(due);
        failures = 0;
      }
      if (failures > 0 || flows.isDirty) this.#isAsked = true;
      if (due.includes('opening')) this.#openingsAt = clock.now() + openingRest(duration);
      const patience = outcome === 'failed' ? Math.min(Math.max(REST, retry), REST * 2 ** (failures - 1)) : REST;
      await this.#wait.start({ time: Math.max(patience, duration * REST_FACTOR), isWakeable: false, signal });
    }
  }

  /** `start` has ended, and nothing is written any more: sweep what is due, until the signal aborts. */
  async finish(signal: AbortSignal): Promise<void> {
    const { flows } = this.#parts;
    for (let n = 1; n <= MOST_LAST && flows.isDirty && !signal.aborted; n++) {
      if ((await this.sweep(signal, flows.due)).outcome === 'failed') return;
    }
  }

  /** For the one that takes over. */
  handOver(): Unswept {
    return { former: this.#parts.flows.handOver(), nodeAddresses: this.#nodeAddresses };
  }

  /** What one before this did not come to is swept once the rules are written. */
  inherit({ former, nodeAddresses }: Unswept): void {
    this.#parts.flows.inherit(former);
    this.#nodeAddresses = nodeAddresses;
  }

  /** One sweep of all families. What fails is in the report. */
  async sweep(signal: AbortSignal, kinds: readonly FlowKind[] = FLOW_KINDS): Promise<SweepReport> {
    const { flows, clock, onSweep } = this.#parts;
    const counts = new Map(kinds.map((kind) => [kind, newCount()]));
    const marks = flows.begin(kinds);
    const start = clock.now();
    const now = new Map<Family, IsNodeAddress>();
    let outcome: SweepReport['outcome'];
    let cause: string | undefined;
    try {
      outcome = (await this.#sweepAll({ counts, now, signal })) ? 'changed' : 'complete';
    } catch (error) {
      outcome = 'failed';
      cause = causeOf(error);
    }
    if (signal.aborted) outcome = 'stopped';
    if (outcome === 'complete') flows.swept(marks);
    else flows.notSwept(marks);
    if (outcome === 'complete' && kinds.length === FLOW_KINDS.length && !flows.isAllPending) this.#nodeAddresses = now;
    const report = { kinds: counts, duration: clock.now() - start, outcome, cause };
    onSweep(report);
    return report;
  }

  /** Returns whether a flow may have been missed. */
  async #sweepAll({ counts, now, signal }: Sweep): Promise<boolean> {
    const { open, families, nodeAddresses } = this.#parts;
    let hasChanged = false;
    const table = await open();
    try {
      for (const family of families) {
        now.set(family, await nodeAddresses(family));
        for (const [kind, count] of counts) {
          if (await this.#sweepKind({ family, kind, table, count, now, signal })) hasChanged = true;
        }
      }
    } finally {
      table.close();
    }
    return hasChanged;
  }

  async #sweepKind({ family, kind, table, count, now, signal }: KindSweep): Promise<boolean> {
    const { flows } = this.#parts;
    const nodes = { now: now.get(family) ?? nowhere, before: this.#nodeAddresses.get(family) ?? nowhere };
    const parts = kind === 'udp' ? table.udpFlows(family) : table.openings(family);
    while (!signal.aborted) {
      const next = parts.next();
      if (next.done === true) return next.value;
      count.seen += next.value.length;
      const stale = next.value.filter((flow) => {
        const verdict = flows.judge(family, flow, nodes);
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

interface Count extends SweepCount {
  seen: number;
  deleted: number;
  readonly deletedIn: Map<Family, number>;
  readonly owners: Set<string>;
}

interface Sweep {
  readonly counts: ReadonlyMap<FlowKind, Count>;
  /** Filled in: which addresses take node ports. */
  readonly now: Map<Family, IsNodeAddress>;
  readonly signal: AbortSignal;
}

interface KindSweep extends Omit<Sweep, 'counts'> {
  readonly family: Family;
  readonly kind: FlowKind;
  readonly table: FlowTable;
  readonly count: Count;
}

function openingRest(duration: number): number {
  return Math.max(REST, duration * REST_FACTOR, Math.min(duration * OPENING_REST_FACTOR, OPENING_REST));
}

function newCount(): Count {
  return { seen: 0, deleted: 0, deletedIn: new Map(), owners: new Set() };
}

const nowhere: IsNodeAddress = () => false;
