/** The simulated kernel's nftables, for the agent, for other programs, and for the checks. It outlives every process. */
import type { NetlinkTransport, openTransport } from '../../../../native/netlink-socket.ts';
import { NFT_MSG_NEWRULE, NFTA_RULE_CHAIN, NFTA_RULE_TABLE } from '../../../../native/nft/constants.ts';
import type { TableId } from '../../../../native/nft/request.ts';
import type { Writer } from '../../../../native/nftables.ts';
import type { Family } from '../../../../src/base/address.ts';
import { type NftState, TABLE } from '../../../../src/kernel/nftables-kernel.ts';
import { type NftNetlink, openNftables } from '../../../../src/kernel/nftables-netlink.ts';
import type { JournalOptions } from '../../../../src/kernel/ruleset-journal.ts';
import type { FamilyView } from '../../../../src/proxy/modes/view.ts';
import type { SimProcess } from '../../engine/process.ts';
import { textAttribute } from '../netlink/format.ts';
import { objectHeader } from './format.ts';
import { type NftCommit, NftKernelState } from './kernel.ts';
import { OtherPrograms } from './others.ts';
import { KernelReader } from './reader.ts';
import { listenerOf, type SimListener, transportsOf } from './transports.ts';
import { viewOfState } from './view.ts';

export interface SimNftablesOptions {
  /** Milliseconds of simulated time. */
  readonly now: () => number;
  /** Bytes of the longest datagram of a listing: small ones make listings that others write between. */
  readonly longestPart?: number;
  /** Bytes of the longest datagram that a program can send (net.core.wmem_max). */
  readonly longestSent?: number | undefined;
  /** See `JournalOptions`: with a small number few objects are very many. */
  readonly mostNamed?: number | undefined;
}

/** A chain of another subsystem of the same generation, such as iptables-nft, that was written. */
export interface TouchedChain {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
}

export class SimNftables {
  readonly others: OtherPrograms;
  /** The kernel itself. */
  readonly state: NftKernelState;
  readonly #reader: KernelReader;
  readonly #options: SimNftablesOptions;

  constructor(options: SimNftablesOptions) {
    const { now, longestPart = 1500 } = options;
    this.#options = options;
    this.state = new NftKernelState({ now, longestPart });
    this.#reader = new KernelReader(this.state);
    this.others = new OtherPrograms(this.state);
  }

  /** Of the ruleset: a new number after each transaction, of iptables-nft too. */
  get generation(): number {
    return this.state.generation;
  }

  /** Who made the present generation; undefined: nobody did yet. */
  get lastWriter(): NftCommit | undefined {
    return this.state.last;
  }

  /** Opens sockets of a process, as `openTransport`. */
  transport(
    process: SimProcess,
  ): (...how: Parameters<typeof openTransport>) => NetlinkTransport & { readonly port: number } {
    return transportsOf(this.state, process, this.#options.longestSent ?? Number.POSITIVE_INFINITY);
  }

  /** Opens a listener of a process; `own`: the port whose writes it does not hear about, but for their generations. */
  listener(process: SimProcess, own?: number): SimListener {
    return listenerOf(this.state, process, own);
  }

  /** The real client in a process. Throws NftUnusable. */
  open(process: SimProcess): NftNetlink {
    return openNftables(this.transport(process), this.journal(process));
  }

  /** How a process hears the notices of transactions. */
  journal(process: SimProcess): Pick<JournalOptions, 'open' | 'mostNamed'> {
    return { open: (own) => this.listener(process, own), mostNamed: this.#options.mostNamed };
  }

  /** Called after each transaction that changed the ruleset, before its answer. Not for `bumpGeneration`. */
  onCommit(call: (commit: NftCommit) => void): void {
    this.state.onCommit(call);
  }

  /** iptables-nft committed; listeners hear of these chains. */
  bumpGeneration(by: Writer, touched: readonly TouchedChain[] = []): void {
    this.state.bump(
      by,
      // The tool opens a socket for itself.
      this.state.socket(0).port,
      touched.map(({ family, table, chain }) => ({
        type: NFT_MSG_NEWRULE,
        body: () =>
          Buffer.concat([
            objectHeader(family === 'IPv4' ? 2 : 10, 0),
            textAttribute(NFTA_RULE_TABLE, table),
            textAttribute(NFTA_RULE_CHAIN, chain),
          ]),
      })),
    );
  }

  /** A packet's rule adds an element to a memory, or renews it: no transaction, and nobody is told. False when there is no such set. */
  remember(id: TableId, set: string, { key, seconds }: { readonly key: string; readonly seconds: number }): boolean {
    return this.state.remember(id, set, { key, seconds });
  }

  /** A table as the real decoders read it; undefined when there is none. The same object as long as it is the same. */
  stateOf(family: Family, table: string): NftState | undefined {
    return this.#reader.stateOf(family, table);
  }

  /** slicewire's table of a family; undefined when there is none. */
  view(family: Family): FamilyView | undefined {
    const state = this.stateOf(family, TABLE);
    return state && viewOfState(state, family);
  }

  /** Names of a family's tables. */
  tables(family: Family): readonly string[] {
    return [...this.state.ruleset.values()]
      .filter((table) => table.family === (family === 'IPv4' ? 2 : 10))
      .map(({ name }) => name);
  }

  /** All that is not in a table of slicewire, with its handles, as text. */
  bytesOfOthers(): string {
    return this.#reader.bytesOfOthers();
  }
}
