/** nftables mode: one table for each family, with maps whose elements are the Services (docs/nftables.md). */
import type { Family } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import type { NftKernel, NftSet, NftTables } from '../../../kernel/nftables-kernel.ts';
import type { TableRecord } from '../../../kernel/ruleset-record.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { type ApplyReport, failedReport, NOTHING_TO_DO, type Step, type StepName } from '../../reconcile/step.ts';
import {
  type FamilyMode,
  type FamilyPlan,
  familiesMode,
  NOTHING_SEEN,
  type PortChanges,
  type SeenFamily,
} from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { CleanupPart, ConnectionCount, Heard, LimitedPort, Mode, RuleCount, SetAside } from '../mode.ts';
import { countsOf } from '../nft-table/state.ts';
import { NftTable } from '../nft-table/table.ts';
import type { NftablesSettings } from './chains.ts';
import { NftablesDesired } from './desire.ts';
import { frontendOf, LAYOUT, limitChain, portId, SETS, udpFrontendsIn } from './table-layout.ts';

interface NftablesOptions {
  readonly families: readonly NftablesSettings[];
  readonly kernel: NftKernel;
  /** Milliseconds on a monotonic clock. */
  readonly now?: () => number;
  /** Milliseconds for which an unused chain stays; see `DelayedRemovalOptions`. */
  readonly keep?: number;
  /** Record of the tables that agents left; without it they are read at the start. */
  readonly record?: TableRecord | undefined;
}

export function nftablesMode({ families: settings, ...options }: NftablesOptions): Mode {
  return familiesMode({
    name: 'nftables',
    // A table that an agent left is compared with the desired state, which must be complete then.
    readsApart: () => !settings.some(({ family }) => options.record?.left(family) !== undefined),
    families: settings.map((one) => new NftablesFamily(one, options)),
  });
}

class NftablesFamily implements FamilyMode {
  readonly family: Family;
  readonly #countsConnections: boolean;
  readonly #desired: NftablesDesired;
  readonly #kernel: NftKernel;
  readonly #table: NftTable;
  #rendered = 0;

  constructor(
    settings: NftablesSettings,
    { kernel, now = () => performance.now(), keep = 1000, record }: Omit<NftablesOptions, 'families'>,
  ) {
    // Unknown is not empty: the installed ranges stay until the ranges are known.
    const untouched = settings.serviceCidrs === undefined ? [SETS.serviceCidrs] : [];
    this.family = settings.family;
    this.#kernel = kernel;
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
    // The table is unchanged, and its frontends were reported after the last reading.
    if (seen === undefined) return NOTHING_SEEN;
    const isAsLeft = seen === 'as left';
    const installed = (set: NftSet) => this.#table.state.elementsOf(set).applied?.values() ?? [];
    const { metBy: by } = this.#table;
    return { isAsLeft, drift: isAsLeft ? [] : seen, by, udpFrontends: udpFrontendsIn(this.family, installed) };
  }

  plan(setAside: SetAside, mayBePart: boolean): FamilyPlan {
    const plan = this.#table.plan(setAside, mayBePart);
    return { steps: plan.steps, isPart: plan.isPart === true, apply: (signal) => this.#table.apply(plan, signal) };
  }

  async isInstalled(): Promise<boolean> {
    return await this.#table.isInstalled();
  }

  async heard(): Promise<Heard> {
    return await this.#table.heard();
  }

  async mayDiffer(): Promise<boolean> {
    return await this.#table.mayDiffer();
  }

  async differs(): Promise<boolean | undefined> {
    return await this.#table.differs();
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

  async limitCounts(ports: readonly LimitedPort[]): Promise<ReadonlyMap<LimitedPort, readonly number[]>> {
    if (!this.isKnown || this.isEmpty) return new Map();
    const chains = new Map(ports.map((port) => [limitChain(portId(port)), port]));
    const counts = await this.#kernel.ruleCounts(this.family, [...chains.keys()]);
    return new Map([...chains].map(([chain, port]) => [port, counts.get(chain) ?? []]));
  }

  removal(): CleanupPart {
    return { name: this.family, remove: () => this.#table.cleanup() };
  }
}

// A predecessor that wrote nftables: kube-proxy, or slicewire in nftables mode. Its table is removed as a whole when not needed.

export interface TableId {
  readonly family: Family;
  readonly table: string;
}

/** The maps by whose keys a table translates: addresses and ports of Services, and node ports. Both programs have the same keys. */
const MAPS: Readonly<Record<string, { readonly services: string; readonly nodePorts: string }>> = {
  slicewire: { services: SETS.services.name, nodePorts: SETS.nodePorts.name },
  'kube-proxy': { services: 'service-ips', nodePorts: 'service-nodeports' },
};

/**
 * The predecessor mode of these tables. It desires nothing: all of them are removed. With `keeps` they become dormant instead: until a takeover is
 * confirmed, the way back is to wake them.
 */
export function tablesPredecessor(kernel: NftTables, tables: readonly TableId[], keeps = false): Mode {
  return familiesMode({
    name: 'nftables',
    readsApart: true,
    families: tables.map((id) => new PredecessorTable(kernel, id, keeps)),
  });
}

class PredecessorTable implements FamilyMode {
  readonly rendered = 0;
  readonly compared = 0;
  readonly #kernel: NftTables;
  readonly #id: TableId;
  readonly #keeps: boolean;
  /** Whether there is something to do. Undefined until it was read. */
  #exists: boolean | undefined;

  constructor(kernel: NftTables, id: TableId, keeps: boolean) {
    this.#kernel = kernel;
    this.#id = id;
    this.#keeps = keeps;
  }

  get family(): Family {
    return this.#id.family;
  }

  get isKnown(): boolean {
    return this.#exists !== undefined;
  }

  get isEmpty(): boolean {
    return this.#exists === false;
  }

  desire(): void {}

  async observe(): Promise<SeenFamily> {
    this.#exists = undefined;
    const { family, table } = this.#id;
    const exists = this.#kernel.hasTable(family, table);
    const udpFrontends = exists ? await this.#udpFrontends() : [];
    this.#exists = exists && !(this.#keeps && this.#kernel.isDormant(family, table));
    return { drift: [], udpFrontends };
  }

  /** Flows to these frontends outlive the table, and the new mode may not have such a Service any more. */
  async #udpFrontends(): Promise<readonly UdpFrontend[]> {
    const { family, table } = this.#id;
    const maps = MAPS[table];
    if (maps === undefined) return [];
    const services = await this.#kernel.keys(family, table, maps.services);
    const nodePorts = await this.#kernel.keys(family, table, maps.nodePorts);
    return udpFrontendsIn(family, (set) => (set === SETS.services ? services : nodePorts).map((key) => ({ key })));
  }

  plan(): FamilyPlan {
    if (this.#exists !== true) return { steps: [], apply: () => Promise.resolve(NOTHING_TO_DO) };
    return {
      steps: [stepOf(this.#id, this.#keeps ? 'dormant' : 'gone')],
      apply: (signal) => {
        signal.throwIfAborted();
        // The kernel is read again after the write.
        this.#exists = undefined;
        return Promise.resolve(this.#remove());
      },
    };
  }

  #remove(): ApplyReport {
    try {
      this.#kernel.changeTables([{ ...this.#id, to: this.#keeps ? 'dormant' : 'gone' }]);
      return { ...NOTHING_TO_DO, applied: 1 };
    } catch (error) {
      return failedReport(nameOf(this.#id), causeOf(error));
    }
  }

  isInstalled(): Promise<boolean> {
    return Promise.resolve(true);
  }

  removal(): CleanupPart {
    const { family, table } = this.#id;
    const { key: name } = nameOf(this.#id);
    const remove = () => {
      if (!this.#kernel.hasTable(family, table)) return [];
      this.#kernel.changeTables([{ family, table, to: 'gone' }]);
      return [name];
    };
    return { name, remove: () => Promise.try(remove) };
  }
}

/** The kind is not `rules`: a failed removal does not count as a failed write of the mode that took over. */
function nameOf({ family, table }: TableId): StepName {
  return { key: `${family} nftables table ${table}`, family, kind: 'kernel' };
}

function stepOf(id: TableId, to: 'dormant' | 'gone'): Step {
  return {
    ...nameOf(id),
    action: to === 'gone' ? 'remove' : 'update',
    phase: 'remove rules',
    owner: undefined,
    concerns: () => [],
    lines: () => (to === 'gone' ? [] : ['+ flags dormant']),
  };
}
