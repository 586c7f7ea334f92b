/**
 * The programs that commit transactions of nftables. The kernel keeps no writer: it names it once, in the message about the new
 * generation of the ruleset (nf_tables_gen_notify), so somebody must listen all the time. The listener gets only these messages. While
 * it listens the kernel makes messages of all changes, so it begins to listen with the first check of the kernel, after the first writes.
 */
import { EAGAIN, ENOBUFS, errnoOf } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { decodeMessages } from '../../native/netlink.ts';
import { openListener, type Transport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER, netfilterType } from '../../native/nfnetlink.ts';
import { NFNLGRP_NFTABLES } from '../../native/nft/constants.ts';
import {
  decodeGeneration,
  decodeWriter,
  NFNL_SUBSYS_NFTABLES,
  NFT_MSG_NEWGEN,
  type Writer,
} from '../../native/nftables.ts';

/** Bytes of the receive buffer: some hundred transactions between two questions. */
const BUFFER = 256 * 1024;
const DATAGRAM = 8192;

/** Opens the listener of this network namespace. Throws SystemError. */
export function listenForWriters(): Transport {
  const type = netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN);
  return openListener(NETLINK_NETFILTER, NFNLGRP_NFTABLES, BUFFER, type);
}

export class NftWriters {
  readonly #open: () => Transport;
  readonly #buffer = Buffer.alloc(DATAGRAM);
  #listener: Transport | undefined;
  #isDeaf = false;
  #last: (Writer & { readonly generation: number }) | undefined;

  constructor(open: () => Transport = listenForWriters) {
    this.#open = open;
  }

  /** The program whose transaction made this generation; undefined when that was not heard. */
  of(generation: number): Writer | undefined {
    this.listen();
    if (this.#last?.generation !== generation) return undefined;
    const { pid, name } = this.#last;
    return { pid, name };
  }

  /** Take in what was said. A process that may not listen does without: nothing depends on the answer. */
  listen(): void {
    if (this.#isDeaf) return;
    try {
      this.#listener ??= this.#open();
      this.#hear(this.#listener);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      this.#isDeaf = true;
      this.close();
    }
  }

  close(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  #hear(listener: Transport): void {
    for (;;) {
      let length: number;
      try {
        length = listener.receive(this.#buffer);
      } catch (error) {
        const errno = errnoOf(error);
        if (errno === EAGAIN) return;
        // Messages were dropped. Those that came later are still there.
        if (errno === ENOBUFS) continue;
        throw error;
      }
      for (const message of decodeMessages(this.#buffer, Math.min(length, DATAGRAM))) {
        const generation = decodeGeneration(this.#buffer, message);
        const writer = decodeWriter(this.#buffer, message);
        if (generation !== undefined && writer !== undefined) this.#last = { ...writer, generation };
      }
    }
  }
}
