/**
 * Implements RulesetNotices by a netlink socket. The kernel names a writer only once, in the message about the new generation
 * (nf_tables_gen_notify), so somebody must listen all the time. While somebody listens the kernel makes messages of all changes, so it
 * begins after the first writes.
 */
import { EACCES, EAFNOSUPPORT, EAGAIN, ENOBUFS, EPERM, EPROTONOSUPPORT, errnoOf } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { decodeMessages } from '../../native/netlink.ts';
import type { MulticastSocket } from '../../native/netlink-socket.ts';
import { openNotices } from '../../native/nft/notices.ts';
import { CommitRecord, type CommitRecordOptions } from './commit-record.ts';
import type { Commit, RulesetNotices } from './ruleset-notices.ts';

/** The kernel makes datagrams of a page at most (NLMSG_GOODSIZE), unless one message is longer. */
const DATAGRAM = 64 * 1024;
/** Answers to a process that may never listen, and of a kernel without nftables. */
const FOR_GOOD: readonly number[] = [EPERM, EACCES, EPROTONOSUPPORT, EAFNOSUPPORT];
/** See `JournalOptions.rest`. */
const REST = 5;

export interface JournalOptions extends CommitRecordOptions {
  /** Opens the listener; the port is that of our own writes, whose objects we know. Throws SystemError. */
  readonly open?: (own?: number) => MulticastSocket;
  /** Milliseconds between two times that messages are taken in because they arrived. */
  readonly rest?: number;
}

export class RulesetJournal implements RulesetNotices {
  readonly #options: JournalOptions;
  readonly #buffer = Buffer.alloc(DATAGRAM);
  readonly #record: CommitRecord;
  readonly #calls = new Set<() => void>();
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
    if (this.#isDeaf) return;
    try {
      this.#listener ??= this.#opened();
      this.#hear(this.#listener);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      // Messages are lost until the next question opens another socket.
      this.#record.lose();
      this.#isDeaf = FOR_GOOD.includes(error.errno);
      this.#drop();
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
    // Who asks from now on does without.
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

  /** At once, and then not again for a moment: a program may commit thousands of transactions in a second. */
  #wake(): void {
    if (this.#resting !== undefined) return;
    this.#takeIn();
    const { rest = REST } = this.#options;
    if (rest === 0) return;
    this.#resting = setTimeout(() => {
      this.#resting = undefined;
      this.#takeIn();
    }, rest);
    this.#resting.unref();
  }

  #takeIn(): void {
    const { others } = this.#record;
    this.listen();
    if (this.#record.others !== others) for (const call of this.#calls) call();
  }

  #hear(listener: MulticastSocket): void {
    for (;;) {
      let length: number;
      try {
        length = listener.receive(this.#buffer);
      } catch (error) {
        const errno = errnoOf(error);
        if (errno === EAGAIN) {
          this.#record.emptied();
          return;
        }
        if (errno !== ENOBUFS) throw error;
        this.#record.lose();
        continue;
      }
      if (length > DATAGRAM) this.#record.lose();
      else for (const message of decodeMessages(this.#buffer, length)) this.#record.take(this.#buffer, message);
    }
  }
}
