/**
 * Deletes stale flows. It runs beside the syncs and never delays them (k8s#135323). Stale are UDP flows (`proxy/model/udp-flows.ts`),
 * connections of TCP and SCTP that are being opened towards a removed endpoint (`proxy/model/opening-flows.ts`), and with
 * --reset-gone those of TCP to endpoints that are gone (`proxy/model/gone-flows.ts`).
 *
 * The connection table is read part by part. The event loop runs after each, and no part is kept (k8s#129982).
 * After a sweep the sweeper rests nine times as long as it worked, so it takes at most a tenth of a core, whatever the churn. The time in
 * which others had the event loop is no work.
 * Unanswered connections are less urgent: their sweeps take at most a 300th, with a rest of at most 10 s. A failed sweep is
 * repeated: the remaining work is a state, not an event (k8s#126130). When the agent stops, or the next generation of its parts
 * takes over, the due flows are swept at once, and the rest is handed over.
 */

import type { Family } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import { breath, type Clock, Wait } from '../../base/clock.ts';
import type { Flow, FlowTable, OpenFlowTable } from '../../kernel/conntrack.ts';
import type { IsNodeAddress } from '../model/flow-leftovers.ts';
import { type FlowKind, type Flows, type FormerFrontends, USUAL_KINDS } from '../model/flows.ts';

/** The shortest rest between two sweeps. */
const MIN_REST_MS = 1000;
/** Rest this many times as long as the sweep took. */
const REST_FACTOR = 9;
/** The same for unanswered connections: TCP endpoints come and go all the time, and clients that got no answer try again. */
const OPENING_REST_FACTOR = 299;
/** The longest such rest, unless the tenth of a core needs a longer one. */
const MAX_OPENING_REST_MS = 10_000;
/** Sweeps of a table that changes during the reading, after which the seen flows count as all (docs/semantics.md 8.2). */
const MAX_CHANGED_SWEEPS = 5;
/** Sweeps that may delay a stop. */
const MAX_SWEEPS_AT_STOP = 3;

export interface SweeperParts {
  readonly flows: Flows;
  readonly open: OpenFlowTable;
  readonly clock: Clock;
  readonly families: readonly Family[];
  /** Called for each sweep, because a node's addresses change. */
  readonly nodeAddresses: (family: Family) => Promise<IsNodeAddress>;
  /** Milliseconds: the longest pause before a failed sweep is repeated. */
  readonly retry: number;
  readonly onSweep: (report: SweepReport) => void;
}

/** The counts of one kind of flows. */
export interface SweepCount {
  /** Flows that were read. */
  readonly seen: number;
  readonly deleted: number;
  /** The deleted flows of each family. */
  readonly deletedIn: ReadonlyMap<Family, number>;
  /** ServicePorts whose flows were deleted. */
  readonly owners: ReadonlySet<string>;
}

export interface SweepReport {
  /** The kinds that were swept. */
  readonly kinds: ReadonlyMap<FlowKind, SweepCount>;
  /** Milliseconds. */
  readonly duration: number;
  /** Milliseconds of it in which the sweep had the event loop. */
  readonly worked: number;
  /**
   * `complete`: every flow was seen. `changed`: the table changed during the reading, so flows may have been missed.
   * `stopped`: the agent stopped during the sweep.
   */
  readonly outcome: 'complete' | 'changed' | 'stopped' | 'failed';
  /** The cause of a failure. */
  readonly cause: string | undefined;
}

/** The state that one sweeper hands over to the next. */
export interface Unswept {
  readonly former: FormerFrontends;
  /** Which addresses took node ports. */
  readonly nodeAddresses: ReadonlyMap<Family, IsNodeAddress>;
}

export class FlowSweeper {
  readonly #parts: SweeperParts;
  readonly #wait: Wait;
  #isRequested = false;
  /** Unanswered connections are not swept before this time. */
  #openingsAt = Number.NEGATIVE_INFINITY;
  /** The next sweep includes unanswered connections. */
  #hurries = false;
  /** The node addresses of the last sweep that saw every flow, with all rules written. */
  #nodeAddresses: ReadonlyMap<Family, IsNodeAddress> = new Map();

  constructor(parts: SweeperParts) {
    this.#parts = parts;
    this.#wait = new Wait(parts.clock);
  }

  /**
   * Requests a sweep after rules were written. It happens if the flows need it. Never waits. `hurries`: unanswered connections do not wait
   * for the end of their longer rest, because a Node died.
   */
  request(hurries = false): void {
    this.#hurries ||= hurries;
    this.#isRequested = true;
    this.#wait.wake();
  }

  /** Sweeps on request, until the signal aborts. */
  async start(signal: AbortSignal): Promise<void> {
    const { flows, retry, clock } = this.#parts;
    let failures = 0;
    while (!signal.aborted) {
      if (!this.#isRequested) await this.#wait.start({ time: undefined, isWakeable: true, signal });
      this.#isRequested = false;
      const rest = this.#hurries ? 0 : this.#openingsAt - clock.now();
      const due = flows.due.filter((kind) => kind !== 'opening' || rest <= 0);
      if (signal.aborted) return;
      if (due.length === 0) {
        if (!flows.isDirty) continue;
        await this.#wait.start({ time: rest, isWakeable: true, signal });
        this.#isRequested = true;
        continue;
      }
      if (due.includes('opening')) this.#hurries = false;
      const isLast = failures + 1 >= MAX_CHANGED_SWEEPS;
      const { outcome, worked } = await this.sweep(signal, due, isLast);
      failures = outcome === 'complete' || (outcome === 'changed' && isLast) ? 0 : failures + 1;
      if (failures > 0 || flows.isDirty) this.#isRequested = true;
      if (due.includes('opening')) this.#openingsAt = clock.now() + openingRest(worked);
      const shortest =
        outcome === 'failed' ? Math.min(Math.max(MIN_REST_MS, retry), MIN_REST_MS * 2 ** (failures - 1)) : MIN_REST_MS;
      await this.#wait.start({ time: Math.max(shortest, worked * REST_FACTOR), isWakeable: false, signal });
    }
  }

  /** Sweeps the due flows, until the signal aborts. Call it after `start` has ended and all writes are done. */
  async finish(signal: AbortSignal): Promise<void> {
    const { flows } = this.#parts;
    for (let n = 1; n <= MAX_SWEEPS_AT_STOP && flows.isDirty && !signal.aborted; n++) {
      if ((await this.sweep(signal, flows.due)).outcome === 'failed') return;
    }
  }

  /** The state for the next sweeper. */
  handOver(): Unswept {
    return { former: this.#parts.flows.handOver(), nodeAddresses: this.#nodeAddresses };
  }

  /** Accepts the state of the sweeper before this one. Its unswept flows are swept once the rules are written. */
  inherit({ former, nodeAddresses }: Unswept): void {
    this.#parts.flows.inherit(former);
    this.#nodeAddresses = nodeAddresses;
  }

  /** One sweep of all families. A failure is in the report. If it `isLast`, the flows that it saw of a changing table count as all. */
  async sweep(signal: AbortSignal, kinds: readonly FlowKind[] = USUAL_KINDS, isLast = false): Promise<SweepReport> {
    const { flows, clock, onSweep } = this.#parts;
    const counts = new Map(kinds.map((kind) => [kind, newCount()]));
    const marks = flows.begin(kinds);
    const start = clock.now();
    const sweep: Sweep = { counts, now: new Map(), signal, worked: 0 };
    let outcome: SweepReport['outcome'];
    let cause: string | undefined;
    try {
      outcome = (await this.#sweepAll(sweep)) ? 'changed' : 'complete';
    } catch (error) {
      outcome = 'failed';
      cause = causeOf(error);
    }
    if (signal.aborted) outcome = 'stopped';
    // Not where rules were written meanwhile.
    const isEnough = outcome === 'changed' && isLast && !this.#isRequested;
    if (outcome === 'complete' || isEnough) flows.swept(marks);
    else flows.notSwept(marks);
    const isOfAll = USUAL_KINDS.every((kind) => kinds.includes(kind));
    if (outcome === 'complete' && isOfAll && !flows.isAllPending) this.#nodeAddresses = sweep.now;
    const report = { kinds: counts, duration: clock.now() - start, worked: sweep.worked, outcome, cause };
    onSweep(report);
    return report;
  }

  /** Returns whether a flow may have been missed. */
  async #sweepAll(sweep: Sweep): Promise<boolean> {
    const { open, families, nodeAddresses } = this.#parts;
    let hasChanged = false;
    const table = await open();
    try {
      const { counts } = sweep;
      const udp = counts.get('udp');
      // The kernel filters by protocol in one family at a time.
      for (const family of families) {
        sweep.now.set(family, await nodeAddresses(family));
        if (udp === undefined) continue;
        const listing = { kind: 'udp', parts: table.udpFlows(family), table, count: udp } as const;
        if (await this.#sweepParts(sweep, listing)) hasChanged = true;
      }
      for (const kind of ['opening', 'gone'] as const) {
        const count = counts.get(kind);
        if (count === undefined) continue;
        const parts = kind === 'opening' ? table.openings() : table.translated();
        if (await this.#sweepParts(sweep, { kind, parts, table, count })) hasChanged = true;
      }
    } finally {
      table.close();
    }
    return hasChanged;
  }

  async #sweepParts(sweep: Sweep, { kind, parts, table, count }: Listing): Promise<boolean> {
    const { clock, families } = this.#parts;
    while (!sweep.signal.aborted) {
      const begun = clock.now();
      const next = parts.next();
      if (next.done === true) {
        sweep.worked += clock.now() - begun;
        return next.value;
      }
      const flows = next.value.filter(({ family }) => families.includes(family));
      count.seen += flows.length;
      const stale = flows.filter((flow) => this.#isStale({ kind, flow }, sweep, count));
      for (const [family, some] of Map.groupBy(stale, (flow) => flow.family)) {
        const deleted = table.delete(some);
        count.deleted += deleted;
        count.deletedIn.set(family, (count.deletedIn.get(family) ?? 0) + deleted);
      }
      sweep.worked += clock.now() - begun;
      await breath();
    }
    return true;
  }

  #isStale({ kind, flow }: { kind: FlowKind; flow: Flow }, { now }: Sweep, { owners }: Count): boolean {
    const nodes = { now: now.get(flow.family) ?? noNode, before: this.#nodeAddresses.get(flow.family) ?? noNode };
    const judgement = this.#parts.flows.judge(flow, nodes, kind);
    if (judgement.kind === 'stale') owners.add(judgement.owner ?? 'a Service that is gone');
    return judgement.kind === 'stale';
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
  /** Filled by the sweep: which addresses take node ports. */
  readonly now: Map<Family, IsNodeAddress>;
  readonly signal: AbortSignal;
  /** See `SweepReport`. */
  worked: number;
}

/** The flows of one listing, part by part. */
interface Listing {
  readonly kind: FlowKind;
  readonly parts: ReturnType<FlowTable['openings']>;
  readonly table: FlowTable;
  readonly count: Count;
}

function openingRest(worked: number): number {
  return Math.max(MIN_REST_MS, worked * REST_FACTOR, Math.min(worked * OPENING_REST_FACTOR, MAX_OPENING_REST_MS));
}

function newCount(): Count {
  return { seen: 0, deleted: 0, deletedIn: new Map(), owners: new Set() };
}

const noNode: IsNodeAddress = () => false;
