/**
 * Tells when addresses are in the kernel, without asking the agent. Its argument is how: `nft` listens to what the kernel
 * notifies of rules and elements, which it does when they were committed (nf_tables_commit); `ipvs` reads destinations each millisecond.
 */
import { setImmediate as breath, setTimeout as pause } from 'node:timers/promises';
import { ENOBUFS } from '../../native/errno.ts';
import {
  AF_NETLINK,
  bind,
  receive,
  SOCK_RAW,
  SOL_SOCKET,
  SystemError,
  setSocketOption,
  socket,
} from '../../native/libc.ts';
import { decodeMessages, NetlinkError } from '../../native/netlink.ts';
import { SO_RCVBUFFORCE, SOL_NETLINK } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER, netfilterType } from '../../native/nfnetlink.ts';
import { NFT_MSG_NEWRULE, NFT_MSG_NEWSETELEM } from '../../native/nft/constants.ts';
import { NFNL_SUBSYS_NFTABLES } from '../../native/nftables.ts';
import type { Address } from '../../src/base/address.ts';
import type { IpvsKernel } from '../../src/kernel/ipvs-kernel.ts';
import { NetlinkKernel } from '../../src/kernel/ipvs-netlink.ts';
import { obey, tell } from './inside.ts';
import type { Awaited, ProbeCommand, ProbeTold } from './kernel-probe-protocol.ts';
import { nanoseconds } from './monotonic.ts';
import { waitToReceive } from './sockets.ts';

/** linux/netlink.h, linux/netfilter/nfnetlink.h */
const NETLINK_ADD_MEMBERSHIP = 1;
const NETLINK_DROP_MEMBERSHIP = 2;
const NFNLGRP_NFTABLES = 7;
const NEWS = [NFT_MSG_NEWRULE, NFT_MSG_NEWSETELEM].map((message) => netfilterType(NFNL_SUBSYS_NFTABLES, message));
/** Bytes: hundreds of thousands of rules may be committed at once, and are notified before anything can be received. */
const RECEIVE_BUFFER = 512 * 1024 * 1024;
const DATAGRAM = 256 * 1024;
/** Milliseconds: how long a command may wait while the kernel is listened to. */
const TURN = 5;
/** Milliseconds between two readings of destinations. */
const READING = 1;

/** One way to see. */
interface Watch {
  /** Something is waited for. */
  readonly isWaiting: boolean;
  /** What is waited for from now on. */
  await(awaited: readonly Awaited[]): void;
  /** Look once. */
  look(): Promise<void>;
}

function say(told: ProbeTold): void {
  tell(told);
}

class RuleWatch implements Watch {
  readonly #descriptor = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
  readonly #buffer = Buffer.from(new ArrayBuffer(DATAGRAM));
  /** The same bytes as numbers of 32 bits: attributes begin at such, and so do the addresses within. */
  readonly #words = new Uint32Array(this.#buffer.buffer);
  /** By the word that they are in a message. */
  readonly #awaited = new Map<number, string>();
  #isListening = false;

  constructor() {
    const any = Buffer.alloc(12);
    any.writeUInt16LE(AF_NETLINK, 0);
    bind(this.#descriptor, any);
    setSocketOption(this.#descriptor, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER);
  }

  get isWaiting(): boolean {
    return this.#awaited.size > 0;
  }

  await(awaited: readonly Awaited[]): void {
    this.#awaited.clear();
    // What was notified before is of no meaning now.
    this.#drain(0);
    for (const { address } of awaited) this.#awaited.set(wordOf(address), address);
    this.#listen(awaited.length > 0);
  }

  async look(): Promise<void> {
    this.#drain(TURN);
    if (!this.isWaiting) this.#listen(false);
    await breath();
  }

  /** While nobody listens, the kernel makes no notifications: what is measured otherwise does not pay for them. */
  #listen(listens: boolean): void {
    if (listens === this.#isListening) return;
    const option = listens ? NETLINK_ADD_MEMBERSHIP : NETLINK_DROP_MEMBERSHIP;
    setSocketOption(this.#descriptor, SOL_NETLINK, option, NFNLGRP_NFTABLES);
    this.#isListening = listens;
  }

  /** Receive all that is there, after waiting for it so many milliseconds. */
  #drain(milliseconds: number): void {
    for (let patience = milliseconds; waitToReceive(this.#descriptor, patience); patience = 0) {
      try {
        const length = receive(this.#descriptor, this.#buffer);
        if (length > DATAGRAM) say({ lost: true });
        else this.#search(length, nanoseconds());
      } catch (error) {
        if (!(error instanceof SystemError && error.errno === ENOBUFS)) throw error;
        say({ lost: true });
      }
    }
  }

  #search(length: number, at: number): void {
    if (!this.isWaiting) return;
    for (const { type, start, end } of decodeMessages(this.#buffer, length)) {
      if (!NEWS.includes(type)) continue;
      for (let word = start >> 2; word < end >> 2; word++) this.#found(this.#words[word] as number, at);
    }
  }

  #found(word: number, at: number): void {
    const address = this.#awaited.get(word);
    if (address === undefined) return;
    this.#awaited.delete(word);
    say({ address, at });
  }
}

function wordOf(address: string): number {
  return Buffer.from(address.split('.').map(Number)).readUInt32LE(0);
}

class DestinationWatch implements Watch {
  readonly #kernel: IpvsKernel = NetlinkKernel.open();
  #awaited: readonly Awaited[] = [];

  get isWaiting(): boolean {
    return this.#awaited.length > 0;
  }

  await(awaited: readonly Awaited[]): void {
    this.#awaited = awaited;
  }

  async look(): Promise<void> {
    const before = this.#awaited;
    const seen = new Set<Awaited>();
    for (const one of before) {
      if (!(await this.#isThere(one))) continue;
      say({ address: one.address, at: nanoseconds() });
      seen.add(one);
    }
    if (seen.size > 0) this.#awaited = this.#awaited.filter((one) => !seen.has(one));
    await pause(READING);
  }

  async #isThere({ address, server }: Awaited): Promise<boolean> {
    if (server === undefined) throw new Error('a virtual server must be named');
    const id = { ...server, address: server.address as Address };
    try {
      return (await this.#kernel.destinations(id)).some((destination) => destination.address === address);
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      // There is no such server yet.
      return false;
    }
  }
}

const watch: Watch = process.argv[2] === 'ipvs' ? new DestinationWatch() : new RuleWatch();
let isLooking = false;

/** Look as long as somebody waits for something. */
async function lookOn(): Promise<void> {
  if (isLooking) return;
  isLooking = true;
  while (watch.isWaiting) await watch.look();
  isLooking = false;
}

obey<ProbeCommand, object>(({ awaited }) => {
  watch.await(awaited);
  void lookOn();
  return {};
});
