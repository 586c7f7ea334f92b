/** The seam to TCP: whether something answers at an address and port. */
import net from 'node:net';
import type { Address } from '../model/address.ts';
import type { Reply } from './suspicion.ts';

/** Connects, and closes at once. Resolves within the given milliseconds, and never rejects. */
export type Probe = (to: { readonly address: Address; readonly port: number }, milliseconds: number) => Promise<Reply>;

/** A refusal is an answer: it takes a machine that works (RFC 9293, 3.10.7.1). */
const ANSWERS = ['ECONNREFUSED', 'ECONNRESET'];
/** Nobody answers: neither the machine, nor its neighbours' question for it. All other errors are this node's own. */
const SILENCES = ['ETIMEDOUT', 'EHOSTUNREACH', 'EHOSTDOWN'];

/** The kernel's. */
export const tcpProbe: Probe = ({ address, port }, milliseconds) =>
  new Promise((resolve) => {
    const socket = net.connect({ host: address, port });
    const end = (reply: Reply) => {
      clearTimeout(late);
      socket.destroy();
      resolve(reply);
    };
    const late = setTimeout(() => end('silence'), milliseconds);
    socket.once('connect', () => end('answer'));
    // `on`: an error after the end must find a listener too.
    socket.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      end(ANSWERS.includes(code) ? 'answer' : SILENCES.includes(code) ? 'silence' : 'unknown');
    });
  });

/** A probe of which at most so many run at a time; the others wait for their turn. */
export function limited(probe: Probe, most: number): Probe {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (to, milliseconds) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await probe(to, milliseconds);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
