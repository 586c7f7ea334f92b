/** nftables mode: one table for each family, with maps whose elements are the Services (docs/nftables.md). */

import type { Family } from '../../../base/address.ts';
import type { NftKernel, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { TableRecord } from '../../../kernel/ruleset-record.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import type { CleanupPart } from '../cleanup.ts';
import {
  type FamilyMode,
  type FamilyPlan,
  familiesMode,
  NOTHING_SEEN,
  type PortChanges,
  type SeenFamily,
} from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { ConnectionCount, Heard, Mode, RuleCount, SetAside } from '../mode.ts';
import { countsOf } from '../nft-table/state.ts';
import { NftTable } from '../nft-table/table.ts';
import { LAYOUT } from './check.ts';
import { NftablesDesired } from './desire.ts';
import { SETS } from './names.ts';
import { frontendOf, udpFrontendsIn } from './observe.ts';
import type { NftablesSettings } from './settings.ts';

export interface NftablesOptions {
  readonly families: readonly NftablesSettings[];
  readonly kernel: NftKernel;
  /** Milliseconds on a monotonic clock. */
  readonly now?: () => number;
  /** Milliseconds for which an unused chain stays; see `DelayedRemovalOptions`. */
  readonly keep?: number;
  /** What agents left in the tables; without it they are read at the start. */
  readonly record?: TableRecord | undefined;
}

export function nftablesMode({ families: settings, ...options }: NftablesOptions): Mode {
  return familiesMode({
    name: 'nftables',
    // What an agent left is compared with the desired state.
    readsApart: () => !settings.some(({ family }) => options.record?.left(family) !== undefined),
    families: settings.map((one) => new NftablesFamily(one, options)),
  });
}

class NftablesFamily implements FamilyMode {
  readonly family: Family;
  readonly #countsConnections: boolean;
  readonly #desired: NftablesDesired;
  readonly #table: NftTable;
  #rendered = 0;

  constructor(
    settings: NftablesSettings,
    { kernel, now = () => performance.now(), keep = 1000, record }: Omit<NftablesOptions, 'families'>,
  ) {
    // Unknown is not empty: the installed ranges stay until the ranges are known.
    const untouched = settings.serviceCidrs === undefined ? [SETS.serviceCidrs] : [];
    this.family = settings.family;
    this.#countsConnections = settings.countsConnections;
    this.#table = new NftTable(settings.family, kernel, { layout: LAYOUT, untouched, keep, now, record });
    this.#desired = new NftablesDesired(settings, this.#table.remembered);
  }

  get inspection(): FamilyInspection {
    return this.#table.inspection;
  }

  get isKnown(): boolean {
    return this.#table.state.isKnown;
  }

  get isEmpty(): boolean {
    return !this.#table.state.hasTable;
  }

  get isWaiting(): boolean {
    return this.#table.isWaiting;
  }

  get rendered(): number {
    return this.#rendered;
  }

  get compared(): number {
    return this.#table.state.compared;
  }

  desire(changes: PortChanges, before: ReadonlyMap<ServicePortKey, ServicePort>): void {
    this.#rendered += this.#desired.update(changes, before);
  }

  async observe(): Promise<SeenFamily> {
    const seen = await this.#table.observe();
    // Unchanged: the frontends were reported after the last reading.
    if (seen === undefined) return NOTHING_SEEN;
    const isAsLeft = seen === 'as left';
    const installed = (set: NftSet) => this.#table.state.elementsOf(set).applied?.values() ?? [];
    return { isAsLeft, drift: isAsLeft ? [] : seen, udpFrontends: udpFrontendsIn(this.family, installed) };
  }

  plan(setAside: SetAside, mayBePart: boolean): FamilyPlan {
    const plan = this.#table.plan(setAside, mayBePart);
    return { steps: plan.steps, isPart: plan.isPart === true, apply: (signal) => this.#table.apply(plan, signal) };
  }

  async stands(): Promise<boolean> {
    return await this.#table.stands();
  }

  async heard(): Promise<Heard> {
    return await this.#table.heard();
  }

  ruleCounts(): readonly RuleCount[] {
    const { rules, elements } = countsOf(this.#table.state);
    return [{ family: this.family, table: 'nftables', total: rules, last: 0, elements }];
  }

  async connectionCounts(): Promise<readonly ConnectionCount[]> {
    const { family } = this;
    if (!this.#countsConnections || !this.isKnown || this.isEmpty) return [];
    const found: ConnectionCount[] = [];
    for (const set of [SETS.serviceConnections, SETS.nodePortConnections]) {
      for (const { key, owner, count } of await this.#table.lookups(set)) {
        found.push({ service: owner, family, ...frontendOf(set, key, family), count });
      }
    }
    return found;
  }

  removal(): CleanupPart {
    return { name: this.family, remove: () => this.#table.cleanup() };
  }
}
