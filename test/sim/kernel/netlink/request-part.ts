/** Parts of the simulated kernel that carry out one request of netlink after another (af_netlink.c, netlink_rcv_skb): all but nftables. */
import { EBUSY } from '../../../../native/errno.ts';
import { NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST } from '../../../../native/netlink.ts';
import { message, outcomeMessage, Refused, type Request, requestsIn, type Said } from './format.ts';
import { type Listed, listingOf } from './listing.ts';
import { SimSocket } from './socket.ts';
import { type KernelPart, momentary, type Refusal } from './transports.ts';

/** What a part does with requests. */
export interface Answers {
  /** For people: `add a server`. */
  what(request: Request): string;
  /** Carries a request out; returns what the program is told beside the outcome. Throws Refused. */
  answer(request: Request): readonly Said[];
  /** Throws Refused. */
  list(request: Request): Listed;
}

/** Bytes of the longest datagram of a listing: small ones make listings that others write between. */
const LONGEST_PART = 400;
/** Numbers of sockets that no nftables socket has. */
const FIRST_PORT = 0x2000_0000;

export class RequestPart implements KernelPart {
  readonly name: string;
  readonly #answers: Answers;
  #ports = FIRST_PORT;

  constructor(name: string, answers: Answers) {
    this.name = name;
    this.#answers = answers;
  }

  socket(room: number): SimSocket {
    this.#ports += 1;
    return new SimSocket(this.#ports, room);
  }

  closed(): void {
    // A socket owns nothing here.
  }

  take(datagram: Uint8Array, socket: SimSocket, _by?: unknown, refusal?: Refusal): void {
    for (const [i, request] of requestsIn(datagram).entries()) {
      if ((request.flags & NLM_F_REQUEST) === 0) continue;
      this.#take(request, socket, refusal?.request === i ? refusal.errno : undefined);
    }
  }

  summaryOf(datagram: Uint8Array): string {
    const requests = requestsIn(datagram);
    const [first] = requests;
    const what = first === undefined ? 'nothing' : this.#answers.what(first);
    return requests.length === 1 ? what : `${requests.length} × ${what}`;
  }

  refusalOf(datagram: Uint8Array, variant: number): Refusal {
    return { request: variant % Math.max(1, requestsIn(datagram).length), errno: momentary(variant >> 2) };
  }

  #take(request: Request, socket: SimSocket, refusedWith: number | undefined): void {
    const { flags, sequence } = request;
    const outcome = (errno: number, offset?: number) =>
      socket.deliver(outcomeMessage(request, socket.port, errno, offset));
    try {
      if (refusedWith !== undefined) throw new Refused(refusedWith);
      if ((flags & NLM_F_DUMP) === NLM_F_DUMP) {
        if (socket.isListing) throw new Refused(EBUSY);
        const listed = this.#answers.list(request);
        socket.list(listingOf(listed, request, { port: socket.port, longest: LONGEST_PART }));
        return;
      }
      const header = { flags: 0, sequence, port: socket.port };
      for (const said of this.#answers.answer(request)) socket.deliver(message(said, header));
      if ((flags & NLM_F_ACK) !== 0) outcome(0);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      outcome(error.errno, error.offset);
    }
  }
}
