/** The kernel's notices of nftables as bytes, and a listener that gets them when a test says so. */
import { ENOBUFS } from '../../../native/errno.ts';
import { AF_INET, SystemError } from '../../../native/libc.ts';
import { attribute, encodeMessage, nested } from '../../../native/netlink.ts';
import type { MulticastSocket } from '../../../native/netlink-socket.ts';
import { netfilterType } from '../../../native/nfnetlink.ts';
import { NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN } from '../../../native/nftables.ts';

const EAGAIN = 11;

function notice(message: number, port: number, ...attributes: Buffer[]): Buffer {
  const type = netfilterType(NFNL_SUBSYS_NFTABLES, message);
  const bytes = encodeMessage({ type, flags: 0, body: [Buffer.from([AF_INET, 0, 0, 0]), ...attributes] }, 0);
  bytes.writeUInt32LE(port, 12);
  return bytes;
}

const text = (type: number, value: string) => attribute(type, Buffer.from(`${value}\0`, 'latin1'));

function number(type: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return attribute(type, bytes);
}

/** NFT_MSG_NEWGEN */
export function generationNotice(generation: number, pid: number, name: string, port = pid): Buffer {
  return notice(NFT_MSG_NEWGEN, port, number(1, generation), number(2, pid), text(3, name));
}

/** NFT_MSG_DELRULE */
export function ruleNotice(table: string, chain: string, port: number): Buffer {
  return notice(8, port, text(1, table), text(2, chain));
}

/** NFT_MSG_DELTABLE */
export function tableNotice(table: string, port: number): Buffer {
  return notice(2, port, text(1, table));
}

/** NFT_MSG_DELSETELEM, with one key. */
export function elementNotice(table: string, set: string, key: string, port: number): Buffer {
  const value = nested(1, attribute(1, Buffer.from(key, 'latin1')));
  return notice(14, port, text(1, table), text(2, set), nested(3, nested(1, value)));
}

export class FakeListener implements MulticastSocket {
  readonly #waiting: (Buffer | 'lost')[] = [];
  #calls = new Set<() => void>();
  isClosed = false;

  /** Without `tell`, the listener is not woken. */
  add(...datagrams: (Buffer | 'lost')[]): void {
    this.#waiting.push(...datagrams);
  }

  tell(...datagrams: (Buffer | 'lost')[]): void {
    this.add(...datagrams);
    for (const call of this.#calls) call();
  }

  send(): void {}

  receive(into: Uint8Array): number {
    const next = this.#waiting.shift();
    if (next === undefined) throw new SystemError('recv', EAGAIN);
    if (next === 'lost') throw new SystemError('recv', ENOBUFS);
    into.set(next);
    return next.length;
  }

  onData(call: () => void): () => void {
    this.#calls.add(call);
    return () => void this.#calls.delete(call);
  }

  close(): void {
    this.isClosed = true;
  }
}
