/** Implements NftKernel over netlink: reads and watches slicewire's table, and writes transactions (linux/netfilter/nf_tables.h). */

import {
  EAFNOSUPPORT,
  EAGAIN,
  EBUSY,
  EEXIST,
  EINTR,
  EINVAL,
  ENOBUFS,
  ENOENT,
  ENOMEM,
  EOPNOTSUPP,
  EPERM,
  EPROTONOSUPPORT,
  ERESTART,
  errnoOf,
} from '../../native/errno.ts';
import { NetlinkError, type Request } from '../../native/netlink.ts';
import { NetlinkSocket, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { readElements, readRules, readSets, tableHandle } from '../../native/nft/listings.ts';
import { deleteChain, deleteTable } from '../../native/nft/objects.ts';
import type { TableId } from '../../native/nft/request.ts';
import { elementAt } from '../../native/nft/sets.ts';
import { commit } from '../../native/nft/transaction.ts';
import { decodeGeneration, generationRequest } from '../../native/nftables.ts';
import type { Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import { breath } from './clock.ts';
import { elementOf, encode, type Origin } from './nftables-encoding.ts';
import {
  type Bytes,
  type NftElement,
  type NftKernel,
  NftMissing,
  type NftRefusal,
  type NftState,
  type NftTables,
  NftUnusable,
  type NftWrite,
  type Standing,
} from './nftables-kernel.ts';

/** The name of the table in each family. */
export const TABLE = 'slicewire';
/** Bytes of the longest transaction. */
const LONGEST = 64 * 1024 * 1024;
/** Bytes of the longest request of a read. */
const LONGEST_QUESTION = 4096;
/** Bytes of a message's header with padding, and of the two messages around a transaction. */
const MESSAGE = 20;
const BRACKETS = 64;
/** Attempts to write a transaction without a write of another program in between. After these it is written in any case. */
const TRIES = 8;
/** Attempts to read the table without a write of another program in between. After these the last read counts: most likely the others wrote to other tables. */
const READS = 5;
/** The largest share of the time for reading the table only to find out whether another program changed it. */
const READING_SHARE = 0.01;
/** Errors that do not depend on the request. */
const ENVIRONMENT: readonly number[] = [EPERM, EINTR, EAGAIN, ENOMEM, ENOBUFS];
/** Answers of a kernel without nftables; EINVAL is nfnetlink's for a subsystem that it does not know (nfnetlink.c). */
const NO_NFTABLES: readonly number[] = [EINVAL, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT];
/** A process can have the capability in its own user namespace while another one owns the network namespace (user_namespaces(7)). */
const NEEDED_RIGHTS =
  'slicewire needs the capability NET_ADMIN over its network namespace: run it as root, or in the user namespace that owns the network namespace';

/** Opens nftables of this network namespace. Throws NftMissing when the kernel has none, NftUnusable when it denies permission. */
export function openNftables(): NftNetlink {
  let kernel: NftNetlink | undefined;
  try {
    kernel = new NftNetlink();
    kernel.hasTable('IPv4', TABLE);
    return kernel;
  } catch (error) {
    kernel?.close();
    const cause = causeOf(error);
    const errno = errnoOf(error);
    if (errno === EPERM)
      throw new NftUnusable(`no permission to use the kernel's nftables: ${cause}; ${NEEDED_RIGHTS}`);
    const isMissing = errno !== undefined && NO_NFTABLES.includes(errno);
    if (isMissing) throw new NftMissing(`the kernel has no nftables: ${cause}; load the module nf_tables`);
    throw new NftUnusable(`the kernel's nftables cannot be used: ${cause}`);
  }
}

/** The table when it was last read or written. */
interface Seen {
  readonly handle: bigint;
  /** The generation of the ruleset then; undefined when another program wrote meanwhile. */
  readonly generation: number | undefined;
  /** Time of the clock `performance`, in milliseconds, from which the table may be read only to check it. */
  readonly due: number;
}

export class NftNetlink implements NftKernel, NftTables {
  readonly #open: typeof openTransport;
  readonly #socket: NetlinkSocket;
  readonly #seen = new Map<Family, Seen>();

  /** Throws SystemError. `open` opens sockets, for example in another network namespace. */
  constructor(open: typeof openTransport = openTransport) {
    this.#open = open;
    this.#socket = new NetlinkSocket(open(NETLINK_NETFILTER, LONGEST));
  }

  close(): void {
    this.#socket.close();
  }

  get room(): number | undefined {
    return this.#socket.room;
  }

  async read(family: Family): Promise<NftState | undefined> {
    const id = { family, table: TABLE };
    for (let tries = 1; ; tries++) {
      const began = performance.now();
      const before = this.#generation();
      const handle = tableHandle(this.#socket, id);
      if (handle === undefined) {
        this.#seen.delete(family);
        return undefined;
      }
      const state = await this.#state(id).catch((error: unknown) => {
        // The table was deleted meanwhile: ask again.
        if (tries < READS && error instanceof NetlinkError && error.errno === ENOENT) return undefined;
        throw error;
      });
      if (state === undefined) continue;
      const isSame = this.#generation() === before;
      // Another program wrote meanwhile: entries may be missing.
      if (!isSame && tries < READS) continue;
      const now = performance.now();
      const due = now + (now - began) / READING_SHARE;
      this.#seen.set(family, { handle, generation: isSame ? before : undefined, due });
      return state;
    }
  }

  async #state(id: TableId): Promise<NftState> {
    const chains = new Map<string, { rules: string[] }>();
    for (const { chain, comment } of readRules(this.#socket, id)) {
      const known = chains.get(chain) ?? { rules: [] };
      known.rules.push(comment);
      chains.set(chain, known);
    }
    const sets = new Map<string, readonly NftElement[]>();
    // A socket has one listing at a time.
    for (const { name, isDynamic } of [...readSets(this.#socket, id)]) {
      const elements: NftElement[] = [];
      if (!isDynamic) {
        for (const part of readElements(this.#socket, id, name)) {
          for (const element of part) elements.push(elementOf(element));
          await breath();
        }
      }
      sets.set(name, elements);
    }
    return { chains, sets };
  }

  isUnchanged(family: Family): boolean {
    return this.#seen.get(family)?.generation === this.#generation();
  }

  async counts(family: Family, set: string): Promise<ReadonlyMap<Bytes, number>> {
    const counts = new Map<Bytes, number>();
    // Callers ask at any time, and a socket has one listing at a time.
    const socket = new NetlinkSocket(this.#open(NETLINK_NETFILTER, LONGEST_QUESTION));
    try {
      for (const part of readElements(socket, { family, table: TABLE }, set)) {
        for (const { key, packets } of part) if (packets !== undefined) counts.set(key, packets);
        await breath();
      }
      return counts;
    } finally {
      socket.close();
    }
  }

  hasTable(family: Family, table: string): boolean {
    return tableHandle(this.#socket, { family, table }) !== undefined;
  }

  async keys(family: Family, table: string, set: string): Promise<readonly Bytes[]> {
    const id = { family, table };
    const keys: Bytes[] = [];
    if (![...readSets(this.#socket, id)].some(({ name }) => name === set)) return keys;
    for (const part of readElements(this.#socket, id, set)) {
      for (const { key } of part) keys.push(key);
      await breath();
    }
    return keys;
  }

  deleteTable(family: Family, table: string): void {
    const [error] = commit(this.#socket, [deleteTable({ family, table })]);
    if (error !== undefined) throw error;
  }

  /**
   * Checks that the kernel accepts these writes, in a table of another name. The transaction ends with a write that the kernel
   * always refuses, so nothing is carried out. Throws NftUnusable with the first refused write.
   */
  check(family: Family, writes: readonly NftWrite[]): void {
    const table = `${TABLE}-check`;
    const { requests, of } = encode({ family, table }, writes);
    const results = commit(this.#socket, [...requests, deleteChain({ family, table }, 'none-of-this-name')]);
    for (const [i, { write }] of of.entries()) {
      const what = writes[write];
      if (results[i] === undefined || what === undefined) continue;
      const text = what.kind === 'add-rule' ? `the rule "${what.rule.text}"` : describe(what);
      throw new NftUnusable(`${family}: this kernel refuses ${text} of nftables mode: ${results[i].message}`);
    }
  }

  async commit(family: Family, writes: readonly NftWrite[]): Promise<readonly NftRefusal[]> {
    const { requests, of } = encode({ family, table: TABLE }, writes);
    const tooLong = this.#tooLong(requests);
    if (tooLong !== undefined) return [tooLong];
    for (let tries = 1; ; tries++) {
      const before = tries > TRIES ? undefined : this.#generation();
      let results: readonly (NetlinkError | undefined)[];
      try {
        results = commit(this.#socket, requests, before);
      } catch (error) {
        if (before === undefined || !(error instanceof NetlinkError && error.errno === ERESTART)) throw error;
        await breath();
        continue;
      }
      const refusals = results.flatMap((error, i) => (error === undefined ? [] : [refusal(error, requests[i], of[i])]));
      if (refusals.length === 0) this.#wrote(family, before);
      return refusals;
    }
  }

  /** The refusal of a transaction that is too long to send. It is about a single Service then: the mode makes other transactions fit. */
  #tooLong(requests: readonly Request[]): NftRefusal | undefined {
    const { room } = this;
    const bytes = requests.reduce(
      (sum, { body }) => sum + MESSAGE + body.reduce((all, part) => all + part.length, 0),
      0,
    );
    if (room === undefined || bytes <= room - BRACKETS) return undefined;
    const cause = `a transaction of ${bytes} bytes exceeds the socket's ${room}: raise net.core.wmem_max on the node to ${bytes}, or run slicewire as root of the node`;
    return { write: 0, element: 0, cause, blame: 'content' };
  }

  stands(family: Family): Promise<Standing> {
    const handle = tableHandle(this.#socket, { family, table: TABLE });
    const seen = this.#seen.get(family);
    if (handle === undefined || handle !== seen?.handle) return Promise.resolve('no');
    const isUnclear = seen.generation !== this.#generation() && performance.now() >= seen.due;
    return Promise.resolve(isUnclear ? 'unclear' : 'yes');
  }

  /** A transaction of ours moved the generation by one (nf_tables_api.c, nft_base_seq_inc), and nothing else changed. */
  #wrote(family: Family, before: number | undefined): void {
    const generation = before === undefined ? undefined : (before + 1) >>> 0 || 1;
    for (const [of, seen] of this.#seen) {
      if (before !== undefined && seen.generation === before) this.#seen.set(of, { ...seen, generation });
    }
    if (this.#seen.has(family)) return;
    const handle = tableHandle(this.#socket, { family, table: TABLE });
    if (handle !== undefined) this.#seen.set(family, { handle, generation, due: 0 });
  }

  #generation(): number {
    const said = this.#socket.ask(generationRequest(), decodeGeneration);
    if (said === undefined) throw new RangeError('nftables answered without the generation of its ruleset');
    return said;
  }
}

function describe(what: NftWrite): string {
  if ('chain' in what) return `the chain ${what.chain}`;
  return 'set' in what ? `the set ${typeof what.set === 'string' ? what.set : what.set.name}` : 'the table';
}

function refusal(error: NetlinkError, request: Request | undefined, origin: Origin | undefined): NftRefusal {
  const at = request === undefined || error.offset === undefined ? undefined : elementAt(request, error.offset);
  const isOfTable = error.errno === ENOENT || error.errno === EEXIST;
  const isOfEnvironment = isOfTable || ENVIRONMENT.includes(error.errno);
  return {
    write: origin?.write ?? 0,
    element: at === undefined ? undefined : (origin?.first ?? 0) + at,
    cause: error.message,
    blame: error.errno === EBUSY ? 'use' : isOfEnvironment ? 'environment' : 'content',
  };
}
