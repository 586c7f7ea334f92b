/** Asks the agent itself through the rules in the kernel: a reserved address for each family, whose Service the mode serves like any other. */
import { randomBytes } from 'node:crypto';
import { type Address, endpointText, FAMILIES, type Family, familyOf, isLoopback } from '../../base/address.ts';
import type { SourceEvent } from '../../proxy/model/events.ts';
import { PROBE_PORT, probeServiceEvents } from './probe-service.ts';
import type { AnsweringPort, DatapathSockets } from './reach.ts';

export interface DatapathOptions {
  readonly sockets: DatapathSockets;
  /** The addresses of this machine's interfaces. */
  readonly addresses: (family: Family) => Promise<readonly Address[]>;
}

/** A connection to a reserved address that did not reach the agent. */
export interface PathProblem {
  readonly family: Family;
  readonly text: string;
  /** The node has no route to the reserved address: nothing is known of the rules. */
  readonly isUnknown: boolean;
}

/** Milliseconds that a connection through the rules may take. Both ends are this process. */
const REACH_MS = 1000;

export class Datapath {
  readonly #options: DatapathOptions;
  /** It names this process: an answer of another program on the same port is none. */
  readonly #token = randomBytes(16).toString('hex');
  #answering: readonly AnsweringPort[] = [];
  #addresses: readonly Address[] = [];

  constructor(options: DatapathOptions) {
    this.#options = options;
  }

  /** Answers at an address of this node, and returns the Service that leads there. `addresses`: the reserved ones. Rejects when it cannot listen. */
  async open(addresses: readonly Address[], nodeName: string): Promise<readonly SourceEvent[]> {
    this.close();
    const { sockets } = this.#options;
    const own = (await Promise.all(FAMILIES.map(this.#options.addresses))).flat();
    const isOwn = (from: string) => own.includes(from as Address) || addresses.includes(from as Address);
    const answering: AnsweringPort[] = [];
    this.#addresses = addresses;
    for (const family of new Set(addresses.map(familyOf))) {
      const at = own.find((address) => familyOf(address) === family && !isLoopback(address));
      if (at !== undefined) answering.push(await sockets.answer(at, this.#token, isOwn));
    }
    this.#answering = answering;
    return probeServiceEvents({ addresses, answering, nodeName });
  }

  close(): void {
    for (const one of this.#answering) one.close();
    this.#answering = [];
  }

  /** The families in which the agent can be asked. */
  get families(): readonly Family[] {
    return this.#answering.map(({ address }) => familyOf(address));
  }

  /** Asks once in each of these families. */
  async check(families: readonly Family[]): Promise<readonly PathProblem[]> {
    const asked = this.#addresses.filter((address) => families.includes(familyOf(address)));
    const problems = await Promise.all(asked.map((address) => this.#ask(address)));
    return problems.filter((problem) => problem !== undefined);
  }

  async #ask(address: Address): Promise<PathProblem | undefined> {
    const family = familyOf(address);
    if (!this.families.includes(family)) return undefined;
    const to = { address, port: PROBE_PORT };
    const options = { length: this.#token.length, milliseconds: REACH_MS };
    const reached = await this.#options.sockets.reach(to, options);
    const what = `a connection from this node to ${endpointText(address, PROBE_PORT)} through the rules`;
    if (reached.kind === 'unroutable')
      return { family, text: `${what} cannot be tried: ${reached.cause}`, isUnknown: true };
    if (reached.kind !== 'connected')
      return { family, text: `${what} does not reach the agent: ${reached.cause}`, isUnknown: false };
    if (reached.said === this.#token) return undefined;
    return { family, text: `${what} reaches another program than the agent`, isUnknown: false };
  }
}
