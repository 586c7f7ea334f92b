/**
 * The kernel of a simulated node: nftables, both variants of iptables, IPVS, conntrack, settings and the facts of the machine. It
 * survives the processes, and tells of every commit: packets flow between any two.
 */
import type { Kernel } from '../../../src/agent/platform.ts';
import { type Family, familyOf } from '../../../src/base/address.ts';
import type { IptablesVariant } from '../../../src/kernel/iptables-tools.ts';
import { RulesetJournal } from '../../../src/kernel/ruleset-journal.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import type { SimProcess } from '../engine/process.ts';
import type { SimTime } from '../engine/time.ts';
import { SimConntrack } from './conntrack.ts';
import { SimIptables } from './iptables/iptables.ts';
import { othersIn } from './iptables/others.ts';
import { TABLES } from './iptables/rule-store.ts';
import { simOpenRules } from './iptables/rules-socket.ts';
import { SimIpvs } from './ipvs/ipvs.ts';
import { SimMachine } from './machine.ts';
import { SimNftables } from './nft/sim-nftables.ts';
import { NO_RECORD, SimRecord } from './record.ts';
import { SimSettings } from './settings.ts';

export interface KernelOptions {
  readonly time: SimTime;
  /** The variant of the command `iptables`; default: nft. */
  readonly iptables?: IptablesVariant;
  /** See `SimNftablesOptions`. */
  readonly longestSent?: number | undefined;
  /** See `SimNftablesOptions`. */
  readonly mostNamed?: number | undefined;
}

/** A part of the kernel that packets meet changed. */
export interface KernelCommit {
  readonly part: 'nftables' | 'iptables' | 'ipvs';
  /** For people. */
  readonly what: string;
}

/** What the modes have in a family, each undefined where it has nothing. */
export interface KernelViews {
  readonly nftables: FamilyView | undefined;
  /** Rules of iptables mode; those of IPVS mode are with its servers. */
  readonly iptables: FamilyView | undefined;
  readonly ipvs: FamilyView | undefined;
}

export class SimKernel {
  readonly time: SimTime;
  readonly nft: SimNftables;
  readonly iptables: SimIptables;
  readonly ipvs: SimIpvs;
  readonly conntrack: SimConntrack;
  readonly settings = new SimSettings();
  readonly record = new SimRecord('ruleset');
  readonly ramps = new SimRecord('slow-start');
  readonly machine: SimMachine;
  /** Called after each commit. */
  onCommit: (commit: KernelCommit) => void = () => undefined;
  /** Beyond the numbers of real processes (linux/threads.h, PID_MAX_LIMIT), about which nobody must ask. */
  #pids = 5_000_000;

  constructor({ time, iptables = 'nft', longestSent, mostNamed }: KernelOptions) {
    this.time = time;
    this.nft = new SimNftables({ now: () => time.now, longestSent, mostNamed });
    this.nft.onCommit(({ name }) => this.onCommit({ part: 'nftables', what: `a transaction by ${name}` }));
    this.iptables = new SimIptables({
      time,
      variant: iptables,
      hasSet: (name) => this.ipvs.state.sets.has(name),
      nextPid: () => this.nextPid(),
      onCommit: ({ family, table, chains, variant, writer }) => {
        const touched = chains.map((chain) => ({ family, table, chain }));
        if (variant === 'nft') this.nft.bumpGeneration(writer, touched);
        this.onCommit({ part: 'iptables', what: `${family} ${table} by ${writer.name}` });
      },
    });
    this.ipvs = new SimIpvs({
      time,
      onCommit: ({ kind }) => this.onCommit({ part: 'ipvs', what: kind }),
      isSetUsed: (name) => this.iptables.refersTo(name),
      others: (family) => this.machine.addressesOf(family),
    });
    this.conntrack = new SimConntrack(time);
    this.machine = new SimMachine({
      legacyTables: (family) =>
        TABLES.filter((table) => this.iptables.stores.legacy.table(family, table) !== undefined),
      setNames: () => [...this.ipvs.state.sets.keys()],
      hasServiceDevice: () => this.ipvs.state.hasDevice,
      hasServiceAddress: (family) => this.ipvs.state.addresses.values().some((one) => familyOf(one) === family),
    });
  }

  /** The number of a new process. */
  nextPid(): number {
    this.#pids += 1;
    return this.#pids;
  }

  /** The kernel as a process calls it. */
  calls(process: SimProcess): Kernel {
    const settings = this.settings.files(process);
    return {
      openNftables: () => this.nft.open(process),
      openIpvs: (signal) => this.ipvs.open(process, signal),
      openNotices: () => new RulesetJournal({ ...this.nft.journal(process), starterOf: () => undefined }),
      openRules: simOpenRules(process, this.iptables, this.nft),
      openFlowTable: this.conntrack.open(process, settings),
      settings,
      record: this.record.file(process),
      ramps: this.ramps.file(process),
      takeover: { state: NO_RECORD, kept: NO_RECORD },
      removeLeftTraces: () => process.call({ what: 'look for traces', effect: () => [], fail: () => [] }),
    };
  }

  /** The same objects until something changes. */
  views(family: Family): KernelViews {
    const rules = this.iptables.stores[this.iptables.variant].view(family);
    const hasServers = this.ipvs.state.servers.size > 0 || this.ipvs.state.addresses.size > 0;
    const hasRules = rules.chain('nat', 'KUBE-SERVICES') !== undefined;
    return {
      nftables: this.nft.view(family),
      iptables: hasRules && !hasServers ? { family, rules } : undefined,
      ipvs: hasServers ? { family, rules, servers: this.ipvs.view() } : undefined,
    };
  }

  /** Everything in the kernel that is not slicewire's, as text. */
  bytesOfOthers(): string {
    return [this.nft.bytesOfOthers(), othersIn(this.iptables), this.ipvs.othersAsText()].join('\n');
  }
}
