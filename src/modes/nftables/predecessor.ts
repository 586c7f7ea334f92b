/** Tables of nftables that another proxy left, or this one in another mode: each goes as a whole, once it is not needed. */
import type { NftTables } from '../../host/nftables-kernel.ts';
import type { Family } from '../../model/address.ts';
import { causeOf } from '../../model/cause.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { Observed } from '../../reconcile/observed.ts';
import {
  type ApplyReport,
  failedReport,
  mergeReports,
  NOTHING_TO_DO,
  type Plan,
  type Step,
} from '../../reconcile/step.ts';
import type { ModeWork } from '../../reconcile/work.ts';
import { cleanUp } from '../cleanup.ts';
import type { Mode, ObserveReport, RuleCount } from '../mode.ts';
import { SETS } from './names.ts';
import { udpFrontendsIn } from './observe.ts';

export interface TableId {
  readonly family: Family;
  readonly table: string;
}

/** Maps whose keys are what a table translates: addresses and ports of Services, and node ports. The keys are alike. */
const MAPS: Readonly<Record<string, { readonly services: string; readonly nodePorts: string }>> = {
  slicewire: { services: SETS.services.name, nodePorts: SETS.nodePorts.name },
  'kube-proxy': { services: 'service-ips', nodePorts: 'service-nodeports' },
};

interface TablesPlan extends Plan {
  readonly tables: readonly TableId[];
}

export function predecessorTables(kernel: NftTables, tables: readonly TableId[]): Mode {
  return new PredecessorTables(kernel, tables) as Mode;
}

class PredecessorTables implements Mode<TablesPlan> {
  readonly name = 'nftables';
  readonly readsApart = true;
  readonly isWaiting = false;
  readonly #kernel: NftTables;
  readonly #tables: readonly TableId[];
  /** undefined: not read yet. */
  #there: readonly TableId[] | undefined;

  constructor(kernel: NftTables, tables: readonly TableId[]) {
    this.#kernel = kernel;
    this.#tables = tables;
  }

  get isObserved(): boolean {
    return this.#there !== undefined;
  }

  /** Nothing that grows with anything. */
  get work(): ModeWork {
    return { rendered: 0, compared: 0, steps: 0 };
  }

  desire(): void {}

  settle(): void {}

  async observe(): Promise<Observed<ObserveReport>> {
    this.#there = undefined;
    try {
      const there = this.#tables.filter(({ family, table }) => this.#kernel.hasTable(family, table));
      const udpFrontends: UdpFrontend[] = [];
      for (const id of there) udpFrontends.push(...(await this.#udpFrontends(id)));
      this.#there = there;
      return { kind: 'known', value: { isBare: there.length === 0, drift: [], unread: [], udpFrontends } };
    } catch (error) {
      return { kind: 'unknown', cause: causeOf(error) };
    }
  }

  /** Flows to these are left when the table goes, and who comes next may not have such a Service any more. */
  async #udpFrontends({ family, table }: TableId): Promise<readonly UdpFrontend[]> {
    const maps = MAPS[table];
    if (maps === undefined) return [];
    const services = await this.#kernel.keys(family, table, maps.services);
    const nodePorts = await this.#kernel.keys(family, table, maps.nodePorts);
    return udpFrontendsIn(family, (set) => (set === SETS.services ? services : nodePorts).map((key) => ({ key })));
  }

  refresh(): Promise<void> {
    return Promise.resolve();
  }

  plan(): TablesPlan {
    const tables = this.#there ?? [];
    return { tables, steps: tables.map(stepOf) };
  }

  apply({ tables }: TablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    signal.throwIfAborted();
    // What there is now is read again.
    this.#there = undefined;
    return Promise.resolve(mergeReports(tables.map((id) => this.#remove(id))));
  }

  #remove(id: TableId): ApplyReport {
    try {
      this.#kernel.deleteTable(id.family, id.table);
      return { ...NOTHING_TO_DO, applied: 1 };
    } catch (error) {
      return failedReport(stepOf(id).key, causeOf(error));
    }
  }

  probe(): Promise<boolean> {
    return Promise.resolve(true);
  }

  ruleCounts(): readonly RuleCount[] {
    return [];
  }

  cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const parts = this.#tables.map(({ family, table }) => {
      const name = `${family} nftables table ${table}`;
      const remove = () => {
        if (!this.#kernel.hasTable(family, table)) return [];
        this.#kernel.deleteTable(family, table);
        return [name];
      };
      return { name, remove: () => Promise.try(remove) };
    });
    return cleanUp(parts, signal);
  }
}

function stepOf({ family, table }: TableId): Step {
  return {
    key: `${family} nftables table ${table}`,
    action: 'remove',
    phase: 'remove rules',
    owner: undefined,
    concerns: () => [],
    lines: () => [],
  };
}
