/** nftables mode: one table a family, of maps whose elements are the Services (docs/nftables.md). */
import type { NftKernel } from '../../host/nftables-kernel.ts';
import type { Family } from '../../model/address.ts';
import { causeOf } from '../../model/cause.ts';
import { familyOfPort, type ServicePort, type ServicePortKey } from '../../model/service-port.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { Observed } from '../../reconcile/observed.ts';
import { type ApplyReport, failedReport, mergeReports, type Plan } from '../../reconcile/step.ts';
import type { ModeWork } from '../../reconcile/work.ts';
import { cleanUp } from '../cleanup.ts';
import { type ConnectionCount, type Mode, NOBODY, type ObserveReport, type RuleCount, type SetAside } from '../mode.ts';
import { NftablesDesired } from './desire.ts';
import { SETS } from './names.ts';
import { frontendOf, udpFrontendsIn } from './observe.ts';
import type { TablePlan } from './plan.ts';
import type { NftablesSettings } from './settings.ts';
import { FamilyTable } from './table.ts';

export interface NftablesOptions {
  readonly families: readonly NftablesSettings[];
  readonly kernel: NftKernel;
  /** Milliseconds for which a chain stays to which nothing leads any more; see `FamilyTable`. */
  readonly keep?: number;
}

interface FamilyState {
  readonly family: Family;
  readonly countsConnections: boolean;
  readonly desired: NftablesDesired;
  readonly table: FamilyTable;
  /** Why the last read failed, if it did. */
  unread: string | undefined;
}

export interface NftablesPlan extends Plan {
  readonly tables: readonly TablePlan[];
}

export function nftablesMode({ families, kernel, keep = 1000 }: NftablesOptions): Mode<NftablesPlan> {
  return new NftablesMode(
    families.map((settings) => {
      // Not known is not none: what stands of them stays until they are.
      const left = settings.serviceCidrs === undefined ? [SETS.serviceCidrs] : [];
      const table = new FamilyTable(settings.family, kernel, { left, keep });
      const { family, countsConnections } = settings;
      return { family, countsConnections, table, desired: new NftablesDesired(settings, table), unread: undefined };
    }),
  );
}

class NftablesMode implements Mode<NftablesPlan> {
  readonly name = 'nftables';
  readonly readsApart = true;
  readonly #families: readonly FamilyState[];
  #rendered = 0;
  #steps = 0;

  constructor(families: readonly FamilyState[]) {
    this.#families = families;
  }

  get isObserved(): boolean {
    return this.#families.every(({ table }) => table.isKnown);
  }

  get isWaiting(): boolean {
    return this.#families.some(({ table }) => table.isWaiting);
  }

  get work(): ModeWork {
    const compared = this.#families.reduce((sum, { table }) => sum + table.compared, 0);
    return { rendered: this.#rendered, compared, steps: this.#steps };
  }

  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const { family, desired } of this.#families) {
      this.#rendered += desired.update([...changes].filter(([key]) => familyOfPort(key) === family));
    }
  }

  settle(): void {
    // Nothing is shared that would be rendered later.
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    const drift: string[] = [];
    const udpFrontends: UdpFrontend[] = [];
    for (const state of this.#families) {
      state.unread = undefined;
      try {
        const changed = await state.table.observe();
        // What stood there before was told the last time.
        if (changed === undefined) continue;
        drift.push(...changed);
        udpFrontends.push(...udpFrontendsIn(state.family, (set) => state.table.elements(set)));
      } catch (error) {
        if (signal.aborted) throw error;
        state.unread = causeOf(error);
      }
    }
    const causes = this.#families.map((state) => state.unread).filter((cause) => cause !== undefined);
    if (causes.length === this.#families.length) return { kind: 'unknown', cause: causes.join('; ') };
    const isBare = causes.length === 0 && this.#families.every(({ table }) => table.isEmpty);
    return { kind: 'known', value: { isBare, drift, unread: causes, udpFrontends } };
  }

  /** Elements change by nobody's hand but a program's. */
  refresh(): Promise<void> {
    return Promise.resolve();
  }

  plan(setAside: SetAside = NOBODY): NftablesPlan {
    const tables = this.#families.filter(({ table }) => table.isKnown).map(({ table }) => table.plan(setAside));
    const steps = tables.flatMap((table) => table.steps);
    this.#steps += steps.length;
    return { steps, tables };
  }

  async apply(plan: NftablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    const reports: ApplyReport[] = [];
    for (const { family, table, unread } of this.#families) {
      const part = plan.tables.find((candidate) => candidate.family === family);
      reports.push(
        part === undefined ? failedReport(`${family} read`, unread ?? 'not read yet') : await table.apply(part, signal),
      );
    }
    return mergeReports(reports);
  }

  async probe(): Promise<boolean> {
    for (const { table } of this.#families) if (!(await table.stands())) return false;
    return true;
  }

  ruleCounts(): readonly RuleCount[] {
    return this.#families.map(({ family, table: { counts } }) => ({
      ...{ family, table: 'nftables', total: counts.rules, last: 0 },
      elements: counts.elements,
    }));
  }

  async connectionCounts(): Promise<readonly ConnectionCount[]> {
    const found: ConnectionCount[] = [];
    for (const { family, countsConnections, table } of this.#families) {
      if (!countsConnections || !table.isKnown || table.isEmpty) continue;
      for (const set of [SETS.serviceConnections, SETS.nodePortConnections]) {
        for (const { key, owner, count } of await table.lookups(set)) {
          found.push({ service: owner, family, ...frontendOf(set, key, family), count });
        }
      }
    }
    return found;
  }

  cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const parts = this.#families.map(({ family, table }) => ({ name: family, remove: () => table.cleanup() }));
    return cleanUp(parts, signal);
  }
}
