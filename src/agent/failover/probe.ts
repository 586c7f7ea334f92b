/** The seam to TCP: probes whether something answers at an address and port. */
import net from 'node:net';
import type { Address } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import type { Reply } from './suspicion.ts';

/** Connects, and closes at once. Resolves within the given milliseconds, and never rejects. */
export type Probe = (to: { readonly address: Address; readonly port: number }, milliseconds: number) => Promise<Reply>;

/** A refusal is an answer: it takes a machine that works (RFC 9293, 3.10.7.1). */
const ANSWERS = ['ECONNREFUSED', 'ECONNRESET'];
/** Neither the machine answers, nor does anything answer the search for its address. All other errors are this node's own. */
const SILENCES = ['ETIMEDOUT', 'EHOSTUNREACH', 'EHOSTDOWN'];
/**
 * An EHOSTUNREACH earlier than this comes from a firewall (`icmp-host-prohibited`; RFC 1812, 5.2.7.1), of a router or of a route of
 * this node. A machine that is gone answers no question for its address for about 3 s before the kernel says so (RFC 4861, 7.2.2; arp(7)).
 */
const PROMPT_MS = 100;

/**
 * The meaning of a connection's error that came `after` milliseconds. A prompt refusal by ICMP is `unknown`: it may come from the
 * machine or from one on the way.
 */
export function replyOfError(code: string, after: number): Reply {
  if (ANSWERS.includes(code)) return 'answer';
  if (!SILENCES.includes(code)) return 'unknown';
  return code === 'EHOSTUNREACH' && after < PROMPT_MS ? 'unknown' : 'silence';
}

/** The probe by sockets of the kernel. */
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

/** A probe that runs at most `limit` times at once; further calls wait for their turn. */
export function limited(probe: Probe, limit: number): Probe {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (to, milliseconds) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
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
