/**
 * How many processes a tree starts, counted by the kernel: each fork and each exec is notified (connector/cn_proc.h), so
 * that none is missed however short it lives, and those of other processes of the machine do not count. Needs root in the
 * machine's first network namespace, and a kernel with CONFIG_PROC_EVENTS.
 */
import {
  AF_NETLINK,
  bind,
  close,
  receive,
  SOCK_DGRAM,
  SOL_SOCKET,
  SystemError,
  sendTo,
  setSocketOption,
  socket,
} from '../../native/libc.ts';
import { SO_RCVBUFFORCE } from '../../native/netlink-socket.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { treeOf } from './process-cost.ts';
import { waitToReceive } from './sockets.ts';

/** linux/netlink.h, linux/connector.h, linux/cn_proc.h */
const NETLINK_CONNECTOR = 11;
const CN_IDX_PROC = 1;
const CN_VAL_PROC = 1;
const PROC_CN_MCAST_LISTEN = 1;
const PROC_EVENT_FORK = 1;
const PROC_EVENT_EXEC = 2;
/** After struct nlmsghdr (16 bytes) and struct cn_msg (20): struct proc_event, whose data begin 16 bytes further. */
const EVENT = 36;
const DATA = EVENT + 16;
/** Bytes; an event takes less than one thousand there. */
const RECEIVE_BUFFER = 32 * 1024 * 1024;
/** Milliseconds between two times that events are taken in. */
const DRAIN = 50;

export interface Starts {
  /** Processes that came to be; threads are none. */
  readonly processes: number;
  /** Programs that were executed, also those within the same process: `ip netns exec` becomes what it executes. */
  readonly programs: number;
}

export class StartCounter {
  readonly #descriptor: number;
  readonly #buffer = Buffer.alloc(4096);
  readonly #tree: Set<number>;
  readonly #timer: NodeJS.Timeout;
  #processes = 0;
  #programs = 0;
  #problem: unknown;

  /**
   * Count from now on what a process and its descendants start. undefined when this kernel does not tell it, or not here:
   * it is tried with a process of our own.
   */
  static async of(pid: number): Promise<StartCounter | undefined> {
    try {
      const trial = new StartCounter(process.pid);
      await realCommands.run({ file: 'true', args: [] }, new AbortController().signal);
      return trial.stop().processes > 0 ? new StartCounter(pid) : undefined;
    } catch (error) {
      if (error instanceof SystemError) return undefined;
      throw error;
    }
  }

  private constructor(pid: number) {
    this.#descriptor = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_CONNECTOR);
    this.#tree = new Set(treeOf(pid));
    try {
      setSocketOption(this.#descriptor, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER);
      bind(this.#descriptor, netlinkAddress(CN_IDX_PROC));
      sendTo(this.#descriptor, listenMessage(), netlinkAddress(0));
    } catch (error) {
      close(this.#descriptor);
      throw error;
    }
    this.#timer = setInterval(() => this.#drain(), DRAIN).unref();
  }

  /** What was started so far. Throws SystemError (ENOBUFS) when events were lost. */
  so(): Starts {
    this.#drain();
    if (this.#problem !== undefined) throw this.#problem;
    return { processes: this.#processes, programs: this.#programs };
  }

  stop(): Starts {
    clearInterval(this.#timer);
    try {
      return this.so();
    } finally {
      close(this.#descriptor);
    }
  }

  #drain(): void {
    try {
      while (waitToReceive(this.#descriptor, 0)) {
        const length = receive(this.#descriptor, this.#buffer);
        if (length >= DATA + 16) this.#count();
      }
    } catch (error) {
      this.#problem = error;
    }
  }

  #count(): void {
    const what = this.#buffer.readUInt32LE(EVENT);
    // Of a fork: the parent's thread and process, then the child's. Of an exec: the thread and the process.
    const [, process = 0, childThread, child = 0] = [0, 4, 8, 12].map((at) => this.#buffer.readUInt32LE(DATA + at));
    if (!this.#tree.has(process)) return;
    if (what === PROC_EVENT_EXEC) this.#programs += 1;
    if (what !== PROC_EVENT_FORK || child !== childThread) return;
    this.#processes += 1;
    this.#tree.add(child);
  }
}

/** struct sockaddr_nl */
function netlinkAddress(groups: number): Buffer {
  const address = Buffer.alloc(12);
  address.writeUInt16LE(AF_NETLINK, 0);
  address.writeUInt32LE(groups, 8);
  return address;
}

/** struct nlmsghdr of an NLMSG_DONE, struct cn_msg, and what is asked for. */
function listenMessage(): Buffer {
  const message = Buffer.alloc(40);
  message.writeUInt32LE(40, 0);
  message.writeUInt16LE(3, 4);
  message.writeUInt32LE(CN_IDX_PROC, 16);
  message.writeUInt32LE(CN_VAL_PROC, 20);
  message.writeUInt16LE(4, 32);
  message.writeUInt32LE(PROC_CN_MCAST_LISTEN, 36);
  return message;
}
