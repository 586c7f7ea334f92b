/** NftKernel over netlink: reads and watches slicewire's table, and writes transactions (linux/netfilter/nf_tables.h). */

import { EAGAIN, EBUSY, EEXIST, EINTR, ENOBUFS, ENOENT, ENOMEM, EPERM, ERESTART, errnoOf } from '../../native/errno.ts';
import { NetlinkError, type NetlinkRequest } from '../../native/netlink.ts';
import { NetlinkSocket, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { readElement, readElements, readRules, readSets, tableFacts, tableHandle } from '../../native/nft/listings.ts';
import { elementAt } from '../../native/nft/sets.ts';
import { deleteChain, deleteTable, setDormant } from '../../native/nft/table-requests.ts';
import { commit } from '../../native/nft/transaction.ts';
import { countedPackets, decodeGeneration, generationRequest, NO_NFTABLES } from '../../native/nftables.ts';
import type { Family } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { breath } from '../base/clock.ts';
import { encode, type RequestOrigin } from './nftables-encoding.ts';
import {
  type AnyTable,
  type AnyTables,
  type Latin1Bytes,
  type LookedUpTable,
  type NftKernel,
  NftMissing,
  type NftPart,
  type NftRefusal,
  type NftState,
  type NftTables,
  type NftTouched,
  NftUnusable,
  type NftWrite,
  type NftWriter,
  TABLE,
  type TableChange,
  type TablePresence,
} from './nftables-kernel.ts';
import { readAnyTable, readPart, readTable, TableLookups } from './nftables-reading.ts';
import { SeenTables } from './nftables-seen.ts';
import { type JournalOptions, RulesetJournal } from './ruleset-journal.ts';
import type { RulesetNotices } from './ruleset-notices.ts';

/** Bytes of the longest transaction. */
export const MAX_TRANSACTION_BYTES = 64 * 1024 * 1024;
/** Bytes of the longest request of a read. */
const MAX_REQUEST_BYTES = 4096;
/** Bytes of a message's header with padding, and of the two messages around a transaction. */
const MESSAGE = 20;
const BRACKETS = 64;
/** Attempts to write a transaction without a write of another program in between. The next attempt writes in any case. */
const MAX_TRIES = 8;
/** Errors that do not depend on the request. */
const ENVIRONMENT: readonly number[] = [EPERM, EINTR, EAGAIN, ENOMEM, ENOBUFS];
/** A process can have the capability in its own user namespace while another one owns the network namespace (user_namespaces(7)). */
const NEEDED_RIGHTS =
  'slicewire needs the capability NET_ADMIN over its network namespace: run it as root, or in the user namespace that owns the network namespace';

/**
 * Opens nftables of this network namespace; `sockets`: as of NftNetlink. Throws NftMissing when the kernel has none, NftUnusable when it
 * denies permission.
 */
export function openNftables(...sockets: ConstructorParameters<typeof NftNetlink>): NftNetlink {
  let kernel: NftNetlink | undefined;
  try {
    kernel = new NftNetlink(...sockets);
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

interface Sockets {
  readonly main: NetlinkSocket;
  /** Beside the main one, which may be in the middle of a listing. */
  readonly asking: NetlinkSocket;
  /** Opens another one. */
  readonly open: typeof openTransport;
}

export class NftNetlink implements NftKernel, NftTables, AnyTables {
  readonly #sockets: Sockets;
  /** The transactions of all programs. */
  readonly notices: RulesetNotices;
  readonly seen: SeenTables;

  /** Throws SystemError. `open` opens sockets, for example in another network namespace; `journal`: how notices are heard. */
  constructor(open: typeof openTransport = openTransport, journal: Pick<JournalOptions, 'open' | 'mostNamed'> = {}) {
    const transport = open(NETLINK_NETFILTER, MAX_TRANSACTION_BYTES);
    const { port } = transport;
    const main = new NetlinkSocket(transport);
    const asking = askingSocket(open, main);
    this.#sockets = { main, asking, open };
    this.notices = new RulesetJournal({ ...journal, ownPort: () => port });
    this.seen = new SeenTables({
      table: TABLE,
      generation: () => generationOf(asking),
      handle: (family) => tableHandle(main, { family, table: TABLE }),
      notices: this.notices,
      port,
    });
  }

  close(): void {
    const { main, asking } = this.#sockets;
    for (const socket of [main, asking, this.notices]) socket.close();
  }

  get room(): number | undefined {
    return this.#sockets.main.room;
  }

  async read(family: Family): Promise<NftState | undefined> {
    const began = performance.now();
    const found = await readTable(this.#sockets.main, { family, table: TABLE }, () =>
      generationOf(this.#sockets.asking),
    );
    this.seen.read(family, found, began);
    return found?.state;
  }

  async touched(family: Family): Promise<NftTouched | undefined> {
    return await this.seen.touched(family);
  }

  async readPart(family: Family, touched: NftTouched): Promise<NftPart | undefined> {
    const { main, asking } = this.#sockets;
    const began = generationOf(asking);
    const part = await readPart(main, { family, table: TABLE }, touched);
    return (await this.seen.hasRead(family, touched, began)) ? part : undefined;
  }

  async inspect(family: Family): Promise<NftState | undefined> {
    // A socket has one listing at a time.
    const socket = new NetlinkSocket(this.#sockets.open(NETLINK_NETFILTER, MAX_REQUEST_BYTES));
    try {
      return (await readTable(socket, { family, table: TABLE }, () => generationOf(this.#sockets.asking)))?.state;
    } finally {
      socket.close();
    }
  }

  isUnchanged(family: Family): boolean {
    return this.seen.isUnchanged(family);
  }

  async counts(family: Family, set: string): Promise<ReadonlyMap<Latin1Bytes, number>> {
    const counts = new Map<Latin1Bytes, number>();
    // Callers ask at any time, and a socket has one listing at a time.
    const socket = new NetlinkSocket(this.#sockets.open(NETLINK_NETFILTER, MAX_REQUEST_BYTES));
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

  async ruleCounts(family: Family, chains: readonly string[]): Promise<ReadonlyMap<string, readonly number[]>> {
    const counts = new Map<string, readonly number[]>();
    const socket = new NetlinkSocket(this.#sockets.open(NETLINK_NETFILTER, MAX_REQUEST_BYTES));
    try {
      for (const chain of chains) {
        const rules = [...readRules(socket, { family, table: TABLE }, chain)];
        const packets = rules.map(({ expressions }) => countedIn(Buffer.from(expressions, 'latin1')));
        counts.set(
          chain,
          packets.filter((count) => count !== undefined),
        );
        await breath();
      }
      return counts;
    } finally {
      socket.close();
    }
  }

  async expirations(family: Family, set: string): Promise<ReadonlyMap<Latin1Bytes, number>> {
    const seconds = new Map<Latin1Bytes, number>();
    const socket = new NetlinkSocket(this.#sockets.open(NETLINK_NETFILTER, MAX_REQUEST_BYTES));
    try {
      for (const part of readElements(socket, { family, table: TABLE }, set)) {
        for (const { key, expiration } of part) if (expiration !== undefined) seconds.set(key, expiration / 1000);
        await breath();
      }
      return seconds;
    } catch (error) {
      if (error instanceof NetlinkError && error.errno === ENOENT) return seconds;
      throw error;
    } finally {
      socket.close();
    }
  }

  lastWriter(): NftWriter | undefined {
    const generation = generationOf(this.#sockets.asking);
    this.notices.listen();
    const { last } = this.notices;
    const heard = last?.generation === generation ? last : undefined;
    // In a container the kernel's number of a process differs from the process's own.
    const isUs = this.seen.isOwn(generation);
    if (heard === undefined && !isUs) return undefined;
    const { pid, name, startedBy } = heard ?? { pid: process.pid, name: 'slicewire', startedBy: undefined };
    return { pid, name, startedBy, isUs };
  }

  hasTable(family: Family, table: string): boolean {
    return tableHandle(this.#sockets.main, { family, table }) !== undefined;
  }

  async keys(family: Family, table: string, set: string): Promise<readonly Latin1Bytes[]> {
    const id = { family, table };
    const keys: Latin1Bytes[] = [];
    if (![...readSets(this.#sockets.main, id)].some(({ name }) => name === set)) return keys;
    for (const part of readElements(this.#sockets.main, id, set)) {
      for (const { key } of part) keys.push(key);
      await breath();
    }
    return keys;
  }

  lookUp(family: Family, table: string): LookedUpTable {
    // Questions have the asking socket: the main one may be in the middle of a listing.
    const { asking } = this.#sockets;
    return new TableLookups(asking, { family, table }, () => generationOf(asking));
  }

  async readTable(family: Family, table: string): Promise<AnyTable | undefined> {
    return await readAnyTable(this.#sockets.main, { family, table }, () => generationOf(this.#sockets.asking));
  }

  expiration(
    family: Family,
    table: string,
    at: { readonly set: string; readonly key: Latin1Bytes },
  ): number | undefined {
    const milliseconds = readElement(this.#sockets.main, { family, table }, at)?.expiration;
    return milliseconds === undefined ? undefined : milliseconds / 1000;
  }

  isDormant(family: Family, table: string): boolean {
    return tableFacts(this.#sockets.main, { family, table })?.isDormant === true;
  }

  changeTables(changes: readonly TableChange[]): void {
    const requests = changes.map(({ to, ...id }) =>
      to === 'gone' ? deleteTable(id) : setDormant(id, to === 'dormant'),
    );
    const error = commit(this.#sockets.main, requests).find((one) => one !== undefined);
    if (error !== undefined) throw error;
  }

  /**
   * Checks that the kernel accepts these writes, in a table of another name. The transaction ends with a write that the kernel
   * always refuses, so nothing is carried out. Throws NftUnusable with the first refused write.
   */
  check(family: Family, writes: readonly NftWrite[]): void {
    const table = `${TABLE}-check`;
    const { requests, of } = encode({ family, table }, writes);
    const results = commit(this.#sockets.main, [...requests, deleteChain({ family, table }, 'none-of-this-name')]);
    for (const [i, { write }] of of.entries()) {
      const what = writes[write];
      if (results[i] === undefined || what === undefined) continue;
      const text = what.kind === 'add-rule' ? `the rule "${what.rule.text}"` : describe(what);
      throw new NftUnusable(`${family}: this kernel refuses ${text} of nftables mode: ${results[i].message}`);
    }
  }

  async commit(family: Family, writes: readonly NftWrite[]): Promise<readonly NftRefusal[]> {
    const { requests, of } = encode({ family, table: TABLE }, writes);
    const tooLong = refusalOfLength(requests, this.room);
    if (tooLong !== undefined) return [tooLong];
    for (let tries = 1; ; tries++) {
      const before = tries > MAX_TRIES ? undefined : generationOf(this.#sockets.asking);
      let results: readonly (NetlinkError | undefined)[];
      try {
        results = commit(this.#sockets.main, requests, before);
      } catch (error) {
        if (before === undefined || !(error instanceof NetlinkError && error.errno === ERESTART)) throw error;
        await breath();
        continue;
      }
      const refusals = results.flatMap((error, i) => {
        const origin = of[i];
        const isOptional = mayLack(writes[origin?.write ?? -1]);
        return error === undefined ? [] : [refusal(error, requests[i], { origin, isOptional })];
      });
      if (refusals.length === 0) this.seen.wrote(family, before);
      return refusals;
    }
  }

  presence(family: Family): Promise<TablePresence> {
    this.notices.listen();
    return Promise.resolve(this.seen.presence(family));
  }
}

/** Closes the main socket when another one cannot be opened. */
function askingSocket(open: typeof openTransport, main: NetlinkSocket): NetlinkSocket {
  try {
    return new NetlinkSocket(open(NETLINK_NETFILTER, MAX_REQUEST_BYTES));
  } catch (error) {
    main.close();
    throw error;
  }
}

/** The refusal of a transaction that is too long to send. It has a single Service then, because the mode splits larger ones. */
function refusalOfLength(requests: readonly NetlinkRequest[], room: number | undefined): NftRefusal | undefined {
  const bytes = requests.reduce((sum, { body }) => sum + MESSAGE + body.reduce((all, part) => all + part.length, 0), 0);
  if (room === undefined || bytes <= room - BRACKETS) return undefined;
  const cause = `a transaction of ${bytes} bytes exceeds the socket's ${room}: raise net.core.wmem_max on the node to ${bytes}, or run slicewire as root of the node`;
  return { write: 0, element: 0, cause, blame: 'content' };
}

function generationOf(socket: NetlinkSocket): number {
  const generation = socket.ask(generationRequest(), decodeGeneration);
  if (generation === undefined) throw new RangeError('nftables answered without the generation of its ruleset');
  return generation;
}

function describe(what: NftWrite): string {
  if ('chain' in what) return `the chain ${what.chain}`;
  return 'set' in what ? `the set ${typeof what.set === 'string' ? what.set : what.set.name}` : 'the table';
}

/** Whether the kernel may lack a part that the write needs and all others do not: it answers ENOENT, as for a chain that is gone. */
export function mayLack(write: NftWrite | undefined): boolean {
  if (write?.kind !== 'add-rule') return false;
  return write.rule.expressions.some((one) => one.do === 'over-rate' || one.do === 'over-connections');
}

function countedIn(list: Buffer): number | undefined {
  return countedPackets(list, 0, list.length);
}

/** Exported for its test. `isOptional`: see `mayLack`. */
export function refusal(
  error: NetlinkError,
  request: NetlinkRequest | undefined,
  { origin, isOptional }: { readonly origin: RequestOrigin | undefined; readonly isOptional: boolean },
): NftRefusal {
  const at = request === undefined || error.offset === undefined ? undefined : elementAt(request, error.offset);
  const isOfTable = (error.errno === ENOENT && !isOptional) || error.errno === EEXIST;
  const isOfEnvironment = isOfTable || ENVIRONMENT.includes(error.errno);
  return {
    write: origin?.write ?? 0,
    element: at === undefined ? undefined : (origin?.first ?? 0) + at,
    cause: error.message,
    blame: error.errno === EBUSY ? 'use' : isOfEnvironment ? 'environment' : 'content',
  };
}
