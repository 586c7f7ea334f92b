/** The seam to TCP: whether something answers at an address and port. */
import net from 'node:net';
import type { Address } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import type { Reply } from './suspicion.ts';

/** Connects, and closes at once. Resolves within the given milliseconds, and never rejects. */
export type Probe = (to: { readonly address: Address; readonly port: number }, milliseconds: number) => Promise<Reply>;

/** A refusal is an answer: it takes a machine that works (RFC 9293, 3.10.7.1). */
const ANSWERS = ['ECONNREFUSED', 'ECONNRESET'];
/** Nobody answers: neither the machine, nor its neighbours' question for it. All other errors are this node's own. */
const SILENCES = ['ETIMEDOUT', 'EHOSTUNREACH', 'EHOSTDOWN'];
/**
 * Milliseconds. An earlier EHOSTUNREACH is the word of a firewall (`icmp-host-prohibited`; RFC 1812, 5.2.7.1), of a router or of a route of
 * this node. A machine that is gone answers no question for its address for about 3 s before the kernel says so (RFC 4861, 7.2.2; arp(7)).
 */
const PROMPT = 100;

/**
 * The reply that an error of a connection stands for, `after` milliseconds. A prompt refusal by ICMP is `unknown`: it may come from the
 * machine or from one on the way.
 */
export function replyOfError(code: string, after: number): Reply {
  if (ANSWERS.includes(code)) return 'answer';
  if (!SILENCES.includes(code)) return 'unknown';
  return code === 'EHOSTUNREACH' && after < PROMPT ? 'unknown' : 'silence';
}

/** The kernel's. */
export const tcpProbe =
  (clock: Pick<Clock, 'now'>): Probe =>
  ({ address, port }, milliseconds) =>
    new Promise((resolve) => {
      const start = clock.now();
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
        end(replyOfError(code, clock.now() - start));
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
