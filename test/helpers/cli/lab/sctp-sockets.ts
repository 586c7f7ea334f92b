/**
 * Whole SCTP associations over the kernel's own sockets (sctp(7)), for kernels that have them:
 *
 *     sctp-sockets.ts serve ADDRESS PORT TAG    answer every message with the tag
 *     sctp-sockets.ts hold ADDRESS PORT COUNT   begin so many associations, and ask on each; then again at every line of standard input
 *
 * Each time `hold` prints a line of JSON: for each association the tag that was answered, or why there was none. An association that
 * ended is never begun again.
 */
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { EAGAIN, errnoText } from '../../../../native/errno.ts';
import { AF_INET, bind, MSG_DONTWAIT, receive, SystemError, sendTo, socket } from '../../../../native/libc.ts';
import { type Address, addressOctets } from '../../../../src/base/address.ts';

const IPPROTO_SCTP = 132;
const SOCK_STREAM = 1;
const SOCK_SEQPACKET = 5;
/** Milliseconds for an answer: the machine may be emulated. */
const LONGEST = 20_000;

const { functions: libc } = process.getBuiltinModule('node:ffi').dlopen('libc.so.6', {
  listen: { return: 'int32', arguments: ['int32', 'int32'] },
  connect: { return: 'int32', arguments: ['int32', 'buffer', 'uint32'] },
  recvfrom: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32', 'buffer', 'buffer'] },
});

/** struct sockaddr_in */
function socketAddress(address: Address, port: number): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt16LE(AF_INET, 0);
  bytes.writeUInt16BE(port, 2);
  bytes.set(addressOctets(address), 4);
  return bytes;
}

/** A socket of all associations: a message is answered to where it came from. */
async function serve(address: Address, port: number, tag: string): Promise<void> {
  const descriptor = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
  bind(descriptor, socketAddress(address, port));
  if (libc.listen(descriptor, 16) !== 0) throw new Error('listen failed');
  process.stdout.write('serving\n');
  const [into, from, length] = [Buffer.alloc(2048), Buffer.alloc(16), Buffer.alloc(4)];
  for (;;) {
    length.writeUInt32LE(from.length);
    if (Number(libc.recvfrom(descriptor, into, BigInt(into.length), MSG_DONTWAIT, from, length)) <= 0) await pause(5);
    else sendTo(descriptor, Buffer.from(tag), from);
  }
}

async function hold(address: Address, port: number, count: number): Promise<void> {
  const to = socketAddress(address, port);
  const descriptors = Array.from({ length: count }, () => {
    const descriptor = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    const status = libc.connect(descriptor, to, to.length);
    if (status !== 0) throw new Error('connect failed');
    return descriptor;
  });
  const askAll = async () => {
    const answers = await Promise.all(descriptors.map((descriptor) => answerOn(descriptor, to)));
    process.stdout.write(`${JSON.stringify(answers)}\n`);
  };
  await askAll();
  for await (const _ of createInterface({ input: process.stdin })) await askAll();
}

async function answerOn(descriptor: number, to: Buffer): Promise<string> {
  const into = Buffer.alloc(2048);
  try {
    sendTo(descriptor, Buffer.from('who?'), to);
    for (const end = performance.now() + LONGEST; performance.now() < end; ) {
      try {
        const length = receive(descriptor, into);
        return length === 0 ? 'ended' : into.toString('latin1', 0, length);
      } catch (error) {
        if (!(error instanceof SystemError && [EAGAIN].includes(error.errno))) throw error;
      }
      await pause(5);
    }
    return 'silence';
  } catch (error) {
    return error instanceof SystemError ? errnoText(error.errno) : String(error);
  }
}

const [verb, address = '', port = '', last = ''] = process.argv.slice(2);
if (verb === 'serve') await serve(address as Address, Number(port), last);
else await hold(address as Address, Number(port), Number(last));
