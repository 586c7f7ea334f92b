/** A netlink socket of the simulated kernel: what waits to be received, and the listing that goes on while it is received (af_netlink.c). */
import { EAGAIN, ENOBUFS } from '../../../../native/errno.ts';
import { SystemError } from '../../../../native/libc.ts';

/** Bytes that a datagram takes in a receive buffer beside its content (struct sk_buff). */
const OVERHEAD = 512;

/** A listing: its next datagram; undefined at its end. */
export type NextPart = () => Buffer | undefined;

export class SimSocket {
  /** nl_pid */
  readonly port: number;
  readonly #room: number;
  #waiting: Buffer[] = [];
  #bytes = 0;
  /** Datagrams were dropped, and the next `receive` says so. */
  #isOverrun = false;
  #listing: NextPart | undefined;
  #onData: () => void = () => undefined;

  /** `room`: bytes of the receive buffer. */
  constructor(port: number, room: number) {
    this.port = port;
    this.#room = room;
  }

  get isListing(): boolean {
    return this.#listing !== undefined;
  }

  onData(call: () => void): void {
    this.#onData = call;
  }

  /** The kernel sends a datagram; it is dropped when the buffer is full. */
  deliver(datagram: Buffer): void {
    if (this.#bytes + datagram.length + OVERHEAD > this.#room) this.#isOverrun = true;
    else {
      this.#waiting.push(datagram);
      this.#bytes += datagram.length + OVERHEAD;
    }
    this.#onData();
  }

  /** The first part of a listing waits at once, each further one when the one before was received. */
  list(next: NextPart): void {
    this.#listing = next;
    this.#goOn();
  }

  /** All that waits is lost; the program is told if `isTold`. */
  lose(isTold: boolean): void {
    this.#waiting = [];
    this.#bytes = 0;
    this.#isOverrun = isTold;
    this.#listing = undefined;
  }

  /** As recv(2) with MSG_TRUNC and MSG_DONTWAIT. Throws SystemError. */
  receive(into: Uint8Array): number {
    if (this.#isOverrun) {
      this.#isOverrun = false;
      throw new SystemError('recv', ENOBUFS);
    }
    const datagram = this.#waiting.shift();
    if (datagram === undefined) throw new SystemError('recv', EAGAIN);
    this.#bytes -= datagram.length + OVERHEAD;
    into.set(datagram.subarray(0, into.length));
    if (this.#waiting.length === 0) this.#goOn();
    return datagram.length;
  }

  #goOn(): void {
    const part = this.#listing?.();
    if (part === undefined) this.#listing = undefined;
    else this.deliver(part);
  }
}
