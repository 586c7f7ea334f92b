/** An nftables table of a predecessor: kube-proxy, or slicewire in nftables mode. It is removed as a whole when not needed. */

import type { Family } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import type { NftTables } from '../../../kernel/nftables-kernel.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { type ApplyReport, failedReport, NOTHING_TO_DO, type Step, type StepName } from '../../reconcile/step.ts';
import type { CleanupPart } from '../cleanup.ts';
import { type FamilyMode, type FamilyPlan, familiesMode, type SeenFamily } from '../families.ts';
import type { Mode } from '../mode.ts';
import { SETS } from './names.ts';
import { udpFrontendsIn } from './observe.ts';

export interface TableId {
  readonly family: Family;
  readonly table: string;
}

/** The maps whose keys a table translates: addresses and ports of Services, and node ports. Both programs have the same keys. */
const MAPS: Readonly<Record<string, { readonly services: string; readonly nodePorts: string }>> = {
  slicewire: { services: SETS.services.name, nodePorts: SETS.nodePorts.name },
  'kube-proxy': { services: 'service-ips', nodePorts: 'service-nodeports' },
};

/** The predecessor mode of these tables. It desires nothing: all of them are removed. */
export function tablesPredecessor(kernel: NftTables, tables: readonly TableId[]): Mode {
  return familiesMode({
    name: 'nftables',
    readsApart: true,
    families: tables.map((id) => new PredecessorTable(kernel, id)),
  });
}

class PredecessorTable implements FamilyMode {
  readonly rendered = 0;
  readonly compared = 0;
  readonly #kernel: NftTables;
  readonly #id: TableId;
  /** undefined: not read yet. */
  #isThere: boolean | undefined;

  constructor(kernel: NftTables, id: TableId) {
    this.#kernel = kernel;
    this.#id = id;
  }

  get family(): Family {
    return this.#id.family;
  }

  get isKnown(): boolean {
    return this.#isThere !== undefined;
  }

  get isEmpty(): boolean {
    return this.#isThere === false;
  }

  desire(): void {}

  async observe(): Promise<SeenFamily> {
    this.#isThere = undefined;
    const { family, table } = this.#id;
    const isThere = this.#kernel.hasTable(family, table);
    const udpFrontends = isThere ? await this.#udpFrontends() : [];
    this.#isThere = isThere;
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
    if (this.#isThere !== true) return { steps: [], apply: () => Promise.resolve(NOTHING_TO_DO) };
    return {
      steps: [stepOf(this.#id)],
      apply: (signal) => {
        signal.throwIfAborted();
        // The kernel is read again after the write.
        this.#isThere = undefined;
        return Promise.resolve(this.#remove());
      },
    };
  }

  #remove(): ApplyReport {
    try {
      this.#kernel.deleteTable(this.#id.family, this.#id.table);
      return { ...NOTHING_TO_DO, applied: 1 };
    } catch (error) {
      return failedReport(nameOf(this.#id), causeOf(error));
    }
  }

  stands(): Promise<boolean> {
    return Promise.resolve(true);
  }

  removal(): CleanupPart {
    const { family, table } = this.#id;
    const { key: name } = nameOf(this.#id);
    const remove = () => {
      if (!this.#kernel.hasTable(family, table)) return [];
      this.#kernel.deleteTable(family, table);
      return [name];
    };
    return { name, remove: () => Promise.try(remove) };
  }
}

/** No rules of the mode that took over: it does not count as a failed write of those. */
function nameOf({ family, table }: TableId): StepName {
  return { key: `${family} nftables table ${table}`, family, kind: 'kernel' };
}

function stepOf(id: TableId): Step {
  return {
    ...nameOf(id),
    action: 'remove',
    phase: 'remove rules',
    owner: undefined,
    concerns: () => [],
    lines: () => [],
  };
}
