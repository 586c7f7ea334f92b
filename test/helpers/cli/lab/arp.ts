/** ARP (RFC 826) at a device of the lab: questions, answers, and gratuitous announcements (RFC 5227, 3), as MetalLB and kube-vip send them. */
import { EAGAIN } from '../../../../native/errno.ts';
import { bind, close, receive, SOCK_DGRAM, SystemError, sendTo, socket } from '../../../../native/libc.ts';
import type { Lab } from '../../../../src/cli/lab/lab.ts';
import { aWhile, until } from '../../base/until.ts';
import { inNamespace } from '../../kernel/namespace-sockets.ts';

/** sys/socket.h, linux/if_ether.h */
const AF_PACKET = 17;
const ETH_P_ARP = 0x0806;
const ETH_P_IP = 0x0800;
const ETHERNET = 1;
const REQUEST = 1;
const REPLY = 2;
const BROADCAST = 'ff:ff:ff:ff:ff:ff';
const NOBODY = '00:00:00:00:00:00';
/** Milliseconds between two looks at what came, and for one more answer to a question: a kernel answers before a speaker does. */
const LOOK = 2;
const SECOND_ANSWER = 400;

interface Packet {
  readonly operation: number;
  readonly sender: string;
  readonly senderAddress: string;
  readonly target: string;
  readonly targetAddress: string;
}

export class ArpPort {
  /** The device's address: `xx:xx:xx:xx:xx:xx`. */
  readonly mac: string;
  readonly #descriptor: number;
  readonly #index: number;
  readonly #looks: NodeJS.Timeout;
  readonly #answered = new Set<string>();
  #replies: Packet[] = [];

  static async open(lab: Lab, name: string, device = 'eth0'): Promise<ArpPort> {
    const [link] = JSON.parse(await lab.exec(name, 'ip', '-j', 'link', 'show', device)) as [
      { ifindex: number; address: string },
    ];
    const descriptor = inNamespace(lab.namespace(name), () => socket(AF_PACKET, SOCK_DGRAM, swapped(ETH_P_ARP)));
    return new ArpPort(descriptor, link.ifindex, link.address);
  }

  private constructor(descriptor: number, index: number, mac: string) {
    this.#descriptor = descriptor;
    this.#index = index;
    this.mac = mac;
    bind(descriptor, this.#at(NOBODY));
    this.#looks = setInterval(() => this.#look(), LOOK);
  }

  /** Say that the address is here: a question and an answer about it, from it, to everybody. */
  announce(address: string): void {
    const own = { sender: this.mac, senderAddress: address, targetAddress: address };
    this.#send(BROADCAST, { ...own, operation: REQUEST, target: NOBODY });
    this.#send(BROADCAST, { ...own, operation: REPLY, target: BROADCAST });
  }

  /** Answer questions about an address that no device has, and announce it. */
  take(address: string): void {
    this.#answered.add(address);
    this.announce(address);
  }

  /** Answer no more. */
  leave(address: string): void {
    this.#answered.delete(address);
  }

  /** Who answers for the address: hardware addresses, once so many did. `from`: an address of this device. */
  async whoHas(address: string, from: string, atLeast = 1): Promise<string[]> {
    // Answers to earlier questions of this machine's kernel may still wait to be read.
    this.#look();
    this.#replies = [];
    const question = { operation: REQUEST, sender: this.mac, senderAddress: from, targetAddress: address };
    this.#send(BROADCAST, { ...question, target: NOBODY });
    const answered = () => {
      const about = this.#replies.filter(({ senderAddress }) => senderAddress === address);
      return new Set(about.map(({ sender }) => sender));
    };
    await until(`answers for ${address}`, () => answered().size >= atLeast);
    await aWhile(SECOND_ANSWER);
    return [...answered()];
  }

  close(): void {
    clearInterval(this.#looks);
    close(this.#descriptor);
  }

  #look(): void {
    for (;;) {
      const bytes = Buffer.alloc(64);
      try {
        receive(this.#descriptor, bytes);
      } catch (error) {
        if (error instanceof SystemError && error.errno === EAGAIN) return;
        throw error;
      }
      this.#came(decoded(bytes));
    }
  }

  #came({ operation, sender, senderAddress, target, targetAddress }: Packet): void {
    if (operation === REPLY && target === this.mac) {
      this.#replies.push({ operation, sender, senderAddress, target, targetAddress });
    } else if (operation === REQUEST && sender !== this.mac && this.#answered.has(targetAddress)) {
      const mine = { operation: REPLY, sender: this.mac, senderAddress: targetAddress };
      this.#send(sender, { ...mine, target: sender, targetAddress: senderAddress });
    }
  }

  #send(to: string, packet: Packet): void {
    sendTo(this.#descriptor, encoded(packet), this.#at(to));
  }

  /** struct sockaddr_ll (packet(7)). */
  #at(mac: string): Buffer {
    const bytes = Buffer.alloc(20);
    bytes.writeUInt16LE(AF_PACKET, 0);
    bytes.writeUInt16BE(ETH_P_ARP, 2);
    bytes.writeInt32LE(this.#index, 4);
    bytes.writeUInt8(6, 11);
    macBytes(mac).copy(bytes, 12);
    return bytes;
  }
}

const swapped = (number: number) => ((number & 0xff) << 8) | (number >> 8);
const macBytes = (mac: string) => Buffer.from(mac.replaceAll(':', ''), 'hex');
const macText = (bytes: Buffer) => bytes.toString('hex').replace(/..(?=.)/g, '$&:');
const addressBytes = (address: string) => Buffer.from(address.split('.').map(Number));

function encoded({ operation, sender, senderAddress, target, targetAddress }: Packet): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(ETHERNET, 0);
  head.writeUInt16BE(ETH_P_IP, 2);
  head.writeUInt8(6, 4);
  head.writeUInt8(4, 5);
  head.writeUInt16BE(operation, 6);
  const ends = [macBytes(sender), addressBytes(senderAddress), macBytes(target), addressBytes(targetAddress)];
  return Buffer.concat([head, ...ends]);
}

function decoded(bytes: Buffer): Packet {
  return {
    operation: bytes.readUInt16BE(6),
    sender: macText(bytes.subarray(8, 14)),
    senderAddress: bytes.subarray(14, 18).join('.'),
    target: macText(bytes.subarray(18, 24)),
    targetAddress: bytes.subarray(24, 28).join('.'),
  };
}
