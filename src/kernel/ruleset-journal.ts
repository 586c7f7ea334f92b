/**
 * RulesetNotices over a netlink socket. The kernel names a writer only once, in the message about the new generation (nf_tables_gen_notify),
 * so the socket must be open all the time. While it is open the kernel makes messages of all changes, so it is opened after the first
 * writes.
 */

import { readFileSync, readlinkSync } from 'node:fs';
import { EACCES, EAFNOSUPPORT, EAGAIN, ENOBUFS, EPERM, EPROTONOSUPPORT, errnoOf } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { decodeMessages, type Message } from '../../native/netlink.ts';
import type { MulticastSocket } from '../../native/netlink-socket.ts';
import { decodeNotice, type ObjectNotice, openNotices } from '../../native/nft/notices.ts';
import { decodeGeneration, decodeWriter } from '../../native/nftables.ts';
import { type Commit, generationAfter, type RulesetNotices, type TouchedTable, tableKey } from './ruleset-notices.ts';

/** The kernel makes datagrams of a page at most (NLMSG_GOODSIZE), unless one message is longer. */
const DATAGRAM = 64 * 1024;
/** Errors with which no later attempt succeeds: the process may not listen, or the kernel has no nftables. */
const FOR_GOOD: readonly number[] = [EPERM, EACCES, EPROTONOSUPPORT, EAFNOSUPPORT];
/** The default of `JournalOptions.rest`. */
const REST_MS = 5;
/** After so long others of this process run, because a flush is told in some ten thousand messages. */
const HEARING_MS = 10;
const BREATH_MS = 1;

export interface JournalOptions extends CommitRecordOptions {
  /** Opens the listener. The port is that of our own writes, whose objects are known. Throws SystemError. */
  readonly open?: (own?: number) => MulticastSocket;
  /** Milliseconds between two reads of messages that arrive. */
  readonly rest?: number;
}

export class RulesetJournal implements RulesetNotices {
  readonly #options: JournalOptions;
  readonly #buffer = Buffer.alloc(DATAGRAM);
  readonly #record: CommitRecord;
  readonly #calls = new Set<() => void>();
  /** The transactions of others that were told to `#calls`, counted as in the record. */
  #told = 0;
  #listener: MulticastSocket | undefined;
  #stopData: (() => void) | undefined;
  #resting: NodeJS.Timeout | undefined;
  #isDeaf = false;

  constructor(options: JournalOptions = {}) {
    this.#options = options;
    this.#record = new CommitRecord(options);
  }

  get last(): Commit | undefined {
    return this.#record.last;
  }

  listen(): void {
    this.#readAndTell(Number.POSITIVE_INFINITY);
  }

  /** Returns whether no message waits any more. A transaction that is read here is told of here: the socket wakes nobody for it again. */
  #readAndTell(milliseconds: number): boolean {
    const isEmpty = this.#read(milliseconds);
    const { others } = this.#record;
    if (others !== this.#told) {
      this.#told = others;
      for (const call of this.#calls) call();
    }
    return isEmpty;
  }

  #read(milliseconds: number): boolean {
    if (this.#isDeaf) return true;
    try {
      this.#listener ??= this.#opened();
      return this.#hear(this.#listener, performance.now() + milliseconds);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      // Messages are lost until the next call opens another socket. Where none was open, nothing more is lost than was known.
      if (this.#listener !== undefined) this.#record.lose();
      this.#isDeaf = FOR_GOOD.includes(error.errno);
      this.#drop();
      return true;
    }
  }

  between(from: number, to: number): readonly Commit[] | undefined {
    this.listen();
    return this.#record.between(from, to);
  }

  onCommit(call: () => void): () => void {
    this.#calls.add(call);
    return () => void this.#calls.delete(call);
  }

  close(): void {
    // Later callers get no notices.
    this.#isDeaf = true;
    this.#drop();
  }

  #drop(): void {
    clearTimeout(this.#resting);
    this.#resting = undefined;
    this.#stopData?.();
    this.#stopData = undefined;
    this.#listener?.close();
    this.#listener = undefined;
  }

  #opened(): MulticastSocket {
    const { open = openNotices, ownPort } = this.#options;
    const listener = open(ownPort?.());
    this.#stopData = listener.onData(() => this.#wake());
    return listener;
  }

  /** Reads at once, and then not again for a moment: a program may commit thousands of transactions in a second. */
  #wake(): void {
    if (this.#resting !== undefined) return;
    const isEmpty = this.#readAndTell(HEARING_MS);
    const { rest = REST_MS } = this.#options;
    if (!isEmpty || rest > 0) this.#rest(isEmpty ? rest : BREATH_MS);
  }

  #rest(milliseconds: number): void {
    this.#resting = setTimeout(() => {
      this.#resting = undefined;
      if (!this.#readAndTell(HEARING_MS)) this.#rest(BREATH_MS);
    }, milliseconds);
    this.#resting.unref();
  }

  #hear(listener: MulticastSocket, until: number): boolean {
    while (performance.now() < until) {
      let length: number;
      try {
        length = listener.receive(this.#buffer);
      } catch (error) {
        const errno = errnoOf(error);
        if (errno === EAGAIN) {
          this.#record.emptied();
          return true;
        }
        if (errno !== ENOBUFS) throw error;
        this.#record.lose();
        continue;
      }
      if (length > DATAGRAM) this.#record.lose();
      else for (const message of decodeMessages(this.#buffer, length)) this.#record.take(this.#buffer, message);
    }
    return false;
  }
}

// The last transactions of nftables, put together from the kernel's messages.

/** Transactions that are remembered, with fewer names of objects than this in all. */
const MAX_COMMITS = 1000;
const MAX_NAMES = 50_000;
/**
 * The default of `JournalOptions.mostNamed`. A sync of iptables mode with a hundred changes touches some hundred chains, and must be told from
 * the write of another program that comes beside it.
 */
const MOST_NAMED = 4000;

interface TouchedDraft {
  isWhole: boolean;
  readonly chains: Set<string>;
  readonly sets: Set<string>;
  readonly elements: Map<string, Set<string>>;
}

/** The number of names. */
function sizeOf({ chains, sets, elements }: TouchedTable): number {
  let size = chains.size + sets.size;
  for (const keys of elements.values()) size += keys.size;
  return size;
}

interface CommitRecordOptions {
  /** The port of the socket that writes for this process. */
  readonly ownPort?: () => number | undefined;
  /** The program that started a process; undefined where it cannot be found out. */
  readonly starterOf?: (pid: number, name: string) => string | undefined;
  /**
   * Names of objects of a table that a transaction touched. Where it touched more, whole sets are named, and where it touched more chains, the
   * whole table counts as touched.
   */
  readonly mostNamed?: number | undefined;
}

class CommitRecord {
  readonly #options: CommitRecordOptions;
  #commits: Commit[] = [];
  /** Names in all of them. */
  #names = 0;
  /** The objects of the messages since the last generation. */
  #touched = new Map<string, TouchedDraft>();
  /** Whether messages were lost. Then everything until the buffer is empty, and the transaction after that, may be incomplete. */
  #lost: 'no' | 'now' | 'until the next' = 'no';
  #others = 0;

  constructor(options: CommitRecordOptions) {
    this.#options = options;
  }

  get last(): Commit | undefined {
    return this.#commits.at(-1);
  }

  /** The number of transactions of others and of losses of messages, which may have been about such transactions. */
  get others(): number {
    return this.#others;
  }

  /** See `RulesetNotices`. */
  between(from: number, to: number): readonly Commit[] | undefined {
    if (from === to) return [];
    const found: Commit[] = [];
    let next = generationAfter(from);
    const first = this.#commits.findIndex(({ generation }) => generation === next);
    if (first < 0) return undefined;
    for (const commit of this.#commits.slice(first)) {
      if (commit.generation !== next) return undefined;
      found.push(commit);
      if (commit.generation === to) return found;
      next = generationAfter(next);
    }
    return undefined;
  }

  /** Messages were dropped. Those in the buffer are older, and those after them may begin in the middle of a transaction. */
  lose(): void {
    this.#lost = 'now';
    this.#others += 1;
  }

  /** The buffer is empty. */
  emptied(): void {
    if (this.#lost === 'now') this.#lost = 'until the next';
  }

  take(buffer: Buffer, message: Message): void {
    const generation = decodeGeneration(buffer, message);
    if (generation === undefined) {
      const notice = decodeNotice(buffer, message);
      if (notice !== undefined) this.#touch(notice);
      return;
    }
    const { pid = 0, name = '' } = decodeWriter(buffer, message) ?? {};
    const tables = this.#lost === 'no' ? new Map<string, TouchedTable>(this.#touched) : undefined;
    const isOwn = message.port === this.#options.ownPort?.();
    const startedBy = isOwn ? undefined : this.#starterOf(pid, name);
    if (!isOwn) this.#others += 1;
    this.#keep({ generation, port: message.port, pid, name, startedBy, tables });
    this.#touched = new Map();
    if (this.#lost === 'until the next') this.#lost = 'no';
  }

  #keep(commit: Commit): void {
    this.#commits.push(commit);
    this.#names += namesOf(commit);
    if (this.#commits.length <= 2 * MAX_COMMITS && this.#names <= 2 * MAX_NAMES) return;
    // Forgotten in large parts, so that each costs next to nothing.
    let first = this.#commits.length - 1;
    for (let names = namesOf(commit); first > 0 && this.#commits.length - first < MAX_COMMITS; first--) {
      names += namesOf(this.#commits[first - 1]);
      if (names > MAX_NAMES) break;
    }
    this.#commits = this.#commits.slice(first);
    this.#names = this.#commits.reduce((sum, one) => sum + namesOf(one), 0);
  }

  /** One process may commit very often, so the last answer is used again. */
  #starterOf(pid: number, name: string): string | undefined {
    const { last } = this;
    if (last?.pid === pid && last.name === name && last.startedBy !== undefined) return last.startedBy;
    return (this.#options.starterOf ?? starterIn)(pid, name);
  }

  #touch({ family, table, what }: ObjectNotice): void {
    const key = tableKey(family, table);
    const touched = this.#touched.get(key) ?? {
      isWhole: false,
      chains: new Set(),
      sets: new Set(),
      elements: new Map(),
    };
    this.#touched.set(key, touched);
    if (touched.isWhole) return;
    if (what.kind === 'chain') touched.chains.add(what.name);
    else if (what.kind === 'elements') {
      if (touched.sets.has(what.set)) return;
      const keys = touched.elements.get(what.set) ?? new Set();
      for (const one of what.keys) keys.add(one);
      touched.elements.set(what.set, keys);
    } else if (what.kind === 'set' || what.isGone) touched.isWhole = true;
    const { mostNamed = MOST_NAMED } = this.#options;
    if (sizeOf(touched) > mostNamed) {
      for (const set of touched.elements.keys()) touched.sets.add(set);
      touched.elements.clear();
    }
    if (sizeOf(touched) > mostNamed) touched.isWhole = true;
    if (!touched.isWhole) return;
    touched.chains.clear();
    touched.sets.clear();
    touched.elements.clear();
  }
}

function namesOf(commit: Commit | undefined): number {
  let names = 0;
  for (const table of commit?.tables?.values() ?? []) names += sizeOf(table);
  return names;
}

/** The first namespace of processes (linux/proc_ns.h, PROC_PID_INIT_INO). */
const FIRST_PROCESSES = 'pid:[4026531836]';

/**
 * The program that started the process, from /proc; undefined where the process has ended, and in a container with a process namespace of
 * its own, because the kernel's number is that of the first namespace.
 */
function starterIn(pid: number, name: string): string | undefined {
  try {
    if (readlinkSync('/proc/self/ns/pid') !== FIRST_PROCESSES) return undefined;
    const stat = statOf(pid);
    return stat?.name === name ? statOf(stat.parent)?.name : undefined;
  } catch {
    return undefined;
  }
}

/** proc(5): `PID (NAME) STATE PARENT …`; the name may hold brackets. */
function statOf(pid: number): { readonly name: string; readonly parent: number } | undefined {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [open, end] = [text.indexOf('('), text.lastIndexOf(')')];
  const parent = Number(text.slice(end + 2).split(' ')[1]);
  return open < 0 || end < open ? undefined : { name: text.slice(open + 1, end), parent };
}
