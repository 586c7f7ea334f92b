/**
 * One mode takes over from its predecessor on a live node. The new mode writes everything first. When that is complete, the
 * objects of the predecessor are removed; those with open connections follow as the connections end.
 *
 * Frontends that nobody serves any more go before that: no Service has them, or no endpoint takes their packets. A takeover may have been
 * interrupted: the rules of the new mode are there already, the predecessor's objects are behind them, and would serve such a frontend as soon
 * as the new mode drops it. The predecessor's last sync may have been interrupted, too: its rules drop such packets, and its servers would not.
 * Where they cannot be removed, the new mode waits a few syncs before it writes.
 */
import { familyOf } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import { frontendKey, protocolKey, protocolKeysOf } from '../model/flow-leftovers.ts';
import type { GoneEndpoint } from '../model/gone-endpoints.ts';
import type { Frontend, ServicePort, ServicePortKey } from '../model/service-port.ts';
import { type ApplyReport, failedReport, mergeReports, NOTHING_TO_DO, type Observed } from '../reconcile/step.ts';
import { type ModeWork, sumOfWork } from '../reconcile/work.ts';
import type { ModeInspection } from './inspection.ts';
import {
  type IsServed,
  type KernelProbe,
  type Met,
  type Mode,
  type ModeMetrics,
  type ModePlan,
  NOTHING_SET_ASIDE,
  type ObserveReport,
  type SetAside,
} from './mode.ts';

/** Limit of rounds of removal in one sync: connections end, then servers are removed, then rules, then sets. */
const MAX_ROUNDS = 4;

/**
 * Syncs in a row that write no rules of the new mode because the predecessor cannot be read, or frontends that nobody serves any more cannot be
 * removed from it. The predecessor serves meanwhile.
 */
const MAX_PUT_OFF = 3;

/** `predecessor` must desire nothing. The result is waiting (`isWaiting`) until the predecessor's last object is removed. */
export function handover(next: Mode, predecessor: Mode): Mode {
  return new Handover(next, predecessor);
}

class Handover implements Mode {
  readonly readsApart = false;
  readonly #next: Mode;
  readonly #predecessor: Mode;
  /** Every object of the predecessor is removed, so it is not read again. */
  #isPredecessorGone = false;
  /** See `MAX_PUT_OFF`. */
  #putOff = 0;
  /** The predecessor, which runs yet, may have written its objects again since they were read. */
  #mayBeBack = false;
  /** The frontends of ServicePorts that are served (`protocolKeysOf`), for a predecessor that retires others, until its removal begins. */
  #frontends: Map<ServicePortKey, readonly string[]> | undefined;

  constructor(next: Mode, predecessor: Mode) {
    this.#next = next;
    this.#predecessor = predecessor;
    if (predecessor.retire !== undefined) this.#frontends = new Map();
  }

  get name(): Mode['name'] {
    return this.#next.name;
  }

  get isObserved(): boolean {
    return this.#next.isObserved;
  }

  get isObservedInPart(): boolean {
    return this.#next.isObservedInPart;
  }

  get isWaiting(): boolean {
    return this.#next.isWaiting || (!this.#isPredecessorGone && this.#predecessor.isWaiting);
  }

  get work(): ModeWork {
    return sumOfWork(this.#next.work, this.#predecessor.work);
  }

  get probe(): KernelProbe {
    return this.#next.probe;
  }

  get metrics(): ModeMetrics {
    return this.#next.metrics;
  }

  /** The objects of the predecessor are not inspected: none of them is desired. */
  get inspection(): ModeInspection {
    return this.#next.inspection;
  }

  lookForPredecessor(): void {
    this.#next.lookForPredecessor?.();
    this.#isPredecessorGone = false;
    this.#mayBeBack = true;
  }

  desire(
    changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void {
    this.#next.desire(changes, before);
    if (this.#frontends === undefined) return;
    for (const [key, port] of changes) {
      if (port === undefined) this.#frontends.delete(key);
      else this.#frontends.set(key, protocolKeysOf({ ...port, frontends: port.frontends.filter(isServedBy(port)) }));
    }
  }

  end(gone: readonly GoneEndpoint[]): void {
    this.#next.end(gone);
  }

  settle(): void {
    this.#next.settle();
  }

  takeMet(): Met | undefined {
    return this.#next.takeMet();
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    const seen = await this.#next.observe(signal);
    if (seen.kind === 'unknown' || this.#isPredecessorGone) return seen;
    const old = await this.#predecessor.observe(signal);
    // The predecessor's rules may still serve, and were read.
    const value = { ...seen.value, isBare: false, isAsLeft: false };
    if (old.kind === 'unknown') return { kind: 'known', value: { ...value, unread: [...value.unread, old.cause] } };
    const unread = [...value.unread, ...old.value.unread];
    const udpFrontends = [...value.udpFrontends, ...old.value.udpFrontends];
    return { kind: 'known', value: { ...value, unread, udpFrontends } };
  }

  async refresh(signal: AbortSignal): Promise<void> {
    await this.#next.refresh(signal);
    if (!this.#isPredecessorGone) await this.#predecessor.refresh(signal);
  }

  plan(setAside: SetAside = NOTHING_SET_ASIDE): ModePlan {
    const next = this.#next.plan(setAside);
    // The predecessor still serves Services that the new mode could not write.
    const mayRemove = setAside.size === 0;
    const old =
      mayRemove && this.#predecessor.isObserved && !this.#isPredecessorGone ? this.#predecessor.plan().steps : [];
    return {
      steps: [...next.steps, ...old],
      apply: async (signal) => {
        const report = await this.#takeOver(next, mayRemove, signal);
        // A predecessor that runs yet writes its objects again until the next attempt, and its rules name sets, which then cannot be removed.
        const isTried = report.outcome === 'complete' && mayRemove;
        if (!isTried && !this.#isPredecessorGone) this.#mayBeBack = true;
        return report;
      },
    };
  }

  async #takeOver(next: ModePlan, mayRemove: boolean, signal: AbortSignal): Promise<ApplyReport> {
    // Refused Services have frontends too: what serves them stays.
    const retired = await this.#retire(signal);
    this.#putOff = retired.outcome === 'complete' ? 0 : this.#putOff + 1;
    if (this.#putOff > 0 && this.#putOff <= MAX_PUT_OFF) return retired;
    const report = afterRetiring(retired, await next.apply(signal));
    if (report.outcome !== 'complete' || !mayRemove || this.#isPredecessorGone) return report;
    const removed = mergeReports([report, ...(await this.#removePredecessor(signal))]);
    // The objects of its predecessor may have come back with those of this one.
    if (removed.outcome !== 'complete') this.#next.lookForPredecessor?.();
    return removed;
  }

  /** The rules of the new mode are written in the end whatever becomes of it: a new Service must not wait for ever for one that is gone. */
  async #retire(signal: AbortSignal): Promise<ApplyReport> {
    if (this.#frontends === undefined || this.#predecessor.retire === undefined) return NOTHING_TO_DO;
    const served = new Set([...this.#frontends.values()].flat());
    const isServed: IsServed = ({ protocol, address, port }) =>
      [address, undefined].some((at) => served.has(protocolKey(protocol, frontendKey(familyOf(address), at, port))));
    for (let attempt = 1; attempt <= 2; attempt++) {
      const unread = await this.#readAgain(signal);
      if (unread !== undefined) return notRead(unread);
      const report = await this.#predecessor.retire(isServed, signal);
      // Otherwise another program wrote in between, or the outcome of a write is unknown.
      if (this.#predecessor.isObserved) return report;
    }
    return notRead('its objects change while they are removed');
  }

  /** Remove the objects of the predecessor that are no longer in use, in rounds. */
  async #removePredecessor(signal: AbortSignal): Promise<readonly ApplyReport[]> {
    const reports: ApplyReport[] = [];
    for (let round = 1; round <= MAX_ROUNDS; round++) {
      const unread = await this.#readAgain(signal);
      if (unread !== undefined) return [...reports, notRead(unread)];
      const plan = this.#predecessor.plan();
      if (plan.steps.length === 0 && this.#predecessor.isObserved) {
        this.#frontends = undefined;
        this.#isPredecessorGone = !this.#predecessor.isWaiting;
        break;
      }
      // Also without a step: a family that could not be read is in the report, with the cause.
      const report = await plan.apply(signal, async () => {
        const broken = await this.#brokenBy(signal);
        return broken === undefined ? undefined : putOff(broken);
      });
      reports.push(report);
      if (report.outcome !== 'complete') break;
      this.#frontends = undefined;
    }
    return reports;
  }

  /**
   * Resolves with the reason why the new mode's objects may be broken since they were written: then the predecessor may be all that serves.
   * undefined where nobody touched them, as far as the kernel's notices say, or a reading where there are no notices.
   */
  async #brokenBy(signal: AbortSignal): Promise<string | undefined> {
    const touched = 'another program touched the rules of the new mode';
    try {
      const { probe } = this.#next;
      const { kind } = await probe.heard();
      if (kind !== 'unknown') return kind === 'something' ? touched : undefined;
      const areAsWritten = (await probe.isInstalled(signal)) && (await probe.differs(signal)) === false;
      return areAsWritten ? undefined : touched;
    } catch (error) {
      if (signal.aborted) throw error;
      return `the rules of the new mode cannot be checked: ${causeOf(error)}`;
    }
  }

  /** Resolves with the reason why the predecessor could not be read, or with undefined on success. */
  async #readAgain(signal: AbortSignal): Promise<string | undefined> {
    if (!this.#predecessor.isObserved || this.#mayBeBack) {
      this.#mayBeBack = false;
      const seen = await this.#predecessor.observe(signal);
      if (seen.kind === 'unknown') return seen.cause;
    }
    try {
      await this.#predecessor.refresh(signal);
      return undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      return causeOf(error);
    }
  }

  async cleanup(signal: AbortSignal): Promise<readonly string[]> {
    return [...(await this.#next.cleanup(signal)), ...(await this.#predecessor.cleanup(signal))];
  }
}

/** Whether an endpoint takes packets to a frontend of this ServicePort. Pods reach all endpoints by an external address of policy Local, too. */
function isServedBy({ cluster }: ServicePort): (frontend: Frontend) => boolean {
  return ({ role, empty }) => empty === undefined || (role !== 'cluster-ip' && cluster.length > 0);
}

/** The report of a sync that wrote after it retired. What was retired does not make a success of rules that were not written. */
function afterRetiring(retired: ApplyReport, written: ApplyReport): ApplyReport {
  const merged = mergeReports([retired, written]);
  return written.outcome === 'failed' ? { ...merged, outcome: 'failed', applied: written.applied } : merged;
}

function notRead(cause: string): ApplyReport {
  const key = 'the state of the previous mode';
  return failedReport({ key, family: undefined, kind: 'kernel' }, `${key}: ${cause}`);
}

function putOff(cause: string): ApplyReport {
  const key = 'the removal of the previous mode';
  return failedReport({ key, family: undefined, kind: 'kernel' }, `${key} waits for the next sync: ${cause}`);
}
