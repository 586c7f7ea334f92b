/**
 * One mode takes over from another on a live node: the new one writes all that it has first; only when that is complete
 * does the old one begin to leave, and goes on leaving as its connections end.
 */
import { causeOf } from '../model/cause.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { Observed } from '../reconcile/observed.ts';
import { type ApplyReport, failedReport, mergeReports, type Plan } from '../reconcile/step.ts';
import { type ModeWork, sumOfWork } from '../reconcile/work.ts';
import {
  type ConnectionCount,
  type Mode,
  NOBODY,
  type ObserveReport,
  type PacketCount,
  type RuleCount,
  type SetAside,
} from './mode.ts';

/** Rounds of leaving in one sync: connections end, then servers go, then rules, then sets. */
const MOST_ROUNDS = 4;

interface HandoverPlan extends Plan {
  readonly next: Plan;
  /** Who was refused by the new mode is still served by the old one. */
  readonly mayLeave: boolean;
}

/** `leaving` wants nothing. Until its last trace is gone, the result waits. */
export function handover(next: Mode, leaving: Mode): Mode {
  return new Handover(next, leaving) as Mode;
}

class Handover implements Mode<HandoverPlan> {
  readonly readsApart = false;
  readonly #next: Mode;
  readonly #leaving: Mode;
  /** Nothing of it is left: it is looked at no more. */
  #hasLeft = false;

  constructor(next: Mode, leaving: Mode) {
    this.#next = next;
    this.#leaving = leaving;
  }

  get name(): Mode['name'] {
    return this.#next.name;
  }

  get isObserved(): boolean {
    return this.#next.isObserved;
  }

  get isWaiting(): boolean {
    return this.#next.isWaiting || (!this.#hasLeft && this.#leaving.isWaiting);
  }

  get work(): ModeWork {
    return sumOfWork(this.#next.work, this.#leaving.work);
  }

  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    this.#next.desire(changes);
  }

  settle(): void {
    this.#next.settle();
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    const seen = await this.#next.observe(signal);
    if (seen.kind === 'unknown' || this.#hasLeft) return seen;
    const old = await this.#leaving.observe(signal);
    // The mode that leaves may serve still.
    const value = { ...seen.value, isBare: false };
    if (old.kind === 'unknown') return { kind: 'known', value: { ...value, unread: [...value.unread, old.cause] } };
    return { kind: 'known', value: { ...value, udpFrontends: [...value.udpFrontends, ...old.value.udpFrontends] } };
  }

  async refresh(signal: AbortSignal): Promise<void> {
    await this.#next.refresh(signal);
    if (!this.#hasLeft) await this.#leaving.refresh(signal);
  }

  plan(setAside: SetAside = NOBODY): HandoverPlan {
    const next = this.#next.plan(setAside);
    const old = this.#leaving.isObserved && !this.#hasLeft ? this.#leaving.plan().steps : [];
    const mayLeave = setAside.size === 0;
    return { next, mayLeave, steps: mayLeave ? [...next.steps, ...old] : next.steps };
  }

  async apply({ next, mayLeave }: HandoverPlan, signal: AbortSignal): Promise<ApplyReport> {
    const reports = [await this.#next.apply(next, signal)];
    if (reports[0]?.outcome !== 'complete' || !mayLeave || this.#hasLeft) return mergeReports(reports);
    for (let round = 1; round <= MOST_ROUNDS; round++) {
      if (!this.#leaving.isObserved) {
        const seen = await this.#leaving.observe(signal);
        if (seen.kind === 'unknown') return mergeReports([...reports, notRead(seen.cause)]);
      }
      try {
        await this.#leaving.refresh(signal);
      } catch (error) {
        if (signal.aborted) throw error;
        return mergeReports([...reports, notRead(causeOf(error))]);
      }
      const plan = this.#leaving.plan();
      if (plan.steps.length === 0) {
        this.#hasLeft = !this.#leaving.isWaiting;
        break;
      }
      const report = await this.#leaving.apply(plan, signal);
      reports.push(report);
      if (report.outcome !== 'complete') break;
    }
    return mergeReports(reports);
  }

  async probe(signal: AbortSignal): Promise<boolean> {
    return await this.#next.probe(signal);
  }

  async mayDiffer(): Promise<boolean> {
    return (await this.#next.mayDiffer?.()) ?? false;
  }

  async differs(signal: AbortSignal): Promise<boolean | undefined> {
    return this.#next.differs === undefined ? false : await this.#next.differs(signal);
  }

  async connectionCounts(): Promise<readonly ConnectionCount[]> {
    return (await this.#next.connectionCounts?.()) ?? [];
  }

  async packetCounts(signal: AbortSignal): Promise<readonly PacketCount[]> {
    return (await this.#next.packetCounts?.(signal)) ?? [];
  }

  ruleCounts(): readonly RuleCount[] {
    return this.#next.ruleCounts();
  }

  async cleanup(signal: AbortSignal): Promise<readonly string[]> {
    return [...(await this.#next.cleanup(signal)), ...(await this.#leaving.cleanup(signal))];
  }
}

function notRead(cause: string): ApplyReport {
  const key = 'what the mode before left';
  return failedReport(key, `${key}: ${cause}`);
}
