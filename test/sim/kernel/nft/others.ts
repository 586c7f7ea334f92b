/** Other programs that write nftables. Each write is a transaction of its own, as of a program that ends after it. */

import type { NetlinkError, NetlinkRequest } from '../../../../native/netlink.ts';
import { NetlinkSocket } from '../../../../native/netlink-socket.ts';
import {
  NFT_MSG_DELRULE,
  NFT_MSG_DELSETELEM,
  NFTA_RULE_CHAIN,
  NFTA_RULE_HANDLE,
  NFTA_RULE_TABLE,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
} from '../../../../native/nft/constants.ts';
import * as expressions from '../../../../native/nft/expressions.ts';
import { request, type TableId } from '../../../../native/nft/request.ts';
import { deleteElements } from '../../../../native/nft/sets.ts';
import {
  addChain,
  addRule,
  addTable,
  deleteChain,
  deleteTable,
  flushChain,
} from '../../../../native/nft/table-requests.ts';
import { commit } from '../../../../native/nft/transaction.ts';
import type { Writer } from '../../../../native/nftables.ts';
import type { NftKernelState } from './kernel.ts';
import { type Table, tableKey } from './ruleset.ts';

const RECEIVE_BUFFER = 2 * 1024 * 1024;
/** Rules of the table `other-program` before it is flushed. */
const MAX_RULES = 8;
/** The table of another program, which `touch` writes. */
export const FOREIGN = 'other-program';

export class OtherPrograms {
  readonly #kernel: NftKernelState;

  constructor(kernel: NftKernelState) {
    this.#kernel = kernel;
  }

  /** A transaction; returns the refusals of its requests, none of success. */
  writeAs(by: Writer, requests: readonly NetlinkRequest[]): readonly NetlinkError[] {
    const kernel = this.#kernel;
    const socket = kernel.socket(RECEIVE_BUFFER);
    const netlink = new NetlinkSocket({
      send: (datagram) => kernel.take(datagram, socket, by),
      receive: (into) => socket.receive(into),
      close: () => kernel.closed(socket),
    });
    try {
      return commit(netlink, requests).filter((error) => error !== undefined);
    } finally {
      netlink.close();
    }
  }

  /** Whether there was something to flush. */
  flushChain(by: Writer, id: TableId, chain: string): boolean {
    const isThere = (this.#table(id)?.chains.get(chain)?.rules.length ?? 0) > 0;
    return isThere && this.#did(by, [flushChain(id, chain)]);
  }

  /** `nft flush table`: all rules; the chains and sets stay. */
  flushTable(by: Writer, id: TableId): boolean {
    if (this.#table(id) === undefined) return false;
    return this.#did(by, [request(NFT_MSG_DELRULE, id, 0, (body) => body.text(NFTA_RULE_TABLE, id.table))]);
  }

  /** Deletes the rule of that index, the last one for a higher one; false without rules. */
  deleteRule(by: Writer, id: TableId, chain: string, index: number): boolean {
    const rules = this.#table(id)?.chains.get(chain)?.rules ?? [];
    const rule = rules[Math.min(index, rules.length - 1)];
    if (rule === undefined) return false;
    const remove = request(NFT_MSG_DELRULE, id, 0, (body) =>
      body.text(NFTA_RULE_TABLE, id.table).text(NFTA_RULE_CHAIN, chain).u64be(NFTA_RULE_HANDLE, BigInt(rule.handle)),
    );
    return this.#did(by, [remove]);
  }

  /** Deletes the element of that index, the last one for a higher one; false without elements. */
  deleteElement(by: Writer, id: TableId, set: string, index: number): boolean {
    const elements = [...(this.#table(id)?.sets.get(set)?.elements.values() ?? [])];
    const element = elements.at(Math.min(index, elements.length - 1));
    return element !== undefined && this.#did(by, [deleteElements(id, set, [{ key: element.key, end: element.end }])]);
  }

  /** `nft flush set`; false without elements. */
  flushSet(by: Writer, id: TableId, set: string): boolean {
    if ((this.#table(id)?.sets.get(set)?.elements.size ?? 0) === 0) return false;
    const flush = request(NFT_MSG_DELSETELEM, id, 0, (body) =>
      body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set),
    );
    return this.#did(by, [flush]);
  }

  /** False when the kernel refuses, because something leads to the chain, or there is none. */
  deleteChain(by: Writer, id: TableId, chain: string): boolean {
    return this.#did(by, [deleteChain(id, chain)]);
  }

  deleteTable(by: Writer, id: TableId): boolean {
    return this.#table(id) !== undefined && this.#did(by, [deleteTable(id)]);
  }

  /** Appends a rule to one of our chains, or to any other. */
  addRule(by: Writer, id: TableId, chain: string, comment = 'by another program'): boolean {
    return this.#did(by, [addRule(id, chain, [expressions.verdict({ kind: 'return' })], comment)]);
  }

  /** Writes a table of its own. Nothing of it concerns Services, but the generation moves. */
  touch(by: Writer, family: TableId['family'] = 'IPv4'): void {
    const id = { family, table: FOREIGN };
    const rules = this.#table(id)?.chains.get('counting')?.rules.length ?? 0;
    this.#did(by, [
      addTable(id, 'of another program'),
      addChain(id, 'counting', { type: 'filter', hook: 'forward', priority: 10 }),
      ...(rules >= MAX_RULES ? [flushChain(id, 'counting')] : []),
      addRule(id, 'counting', [expressions.verdict({ kind: 'return' })], 'touched'),
    ]);
  }

  #did(by: Writer, requests: readonly NetlinkRequest[]): boolean {
    return this.writeAs(by, requests).length === 0;
  }

  #table({ family, table }: TableId): Table | undefined {
    return this.#kernel.ruleset.get(tableKey(family === 'IPv4' ? 2 : 10, table));
  }
}
