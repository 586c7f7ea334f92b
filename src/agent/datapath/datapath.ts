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

/** A connection of the node to a reserved address. `unknown`: the node has no route to it, and nothing is known of the rules. */
export type PathResult = { readonly from: 'node'; readonly family: Family } & (
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed' | 'unknown'; readonly text: string }
);

/** Milliseconds that a connection through the rules may take. Both ends are this process. */
const REACH_MS = 700;

export class Datapath {
  readonly #options: DatapathOptions;
  /** It names this process: an answer of another program on the same port is none. */
  readonly #token = randomBytes(16).toString('hex');
  #answering: readonly AnsweringPort[] = [];
  #addresses: readonly Address[] = [];

  constructor(options: DatapathOptions) {
    this.#options = options;
  }

  /**
   * Answers at an address of this node, where it does not yet, and returns the Service that leads there. `addresses`: the reserved ones. Rejects
   * when it cannot listen.
   */
  async open(addresses: readonly Address[], nodeName: string): Promise<readonly SourceEvent[]> {
    const own = (await Promise.all(FAMILIES.map(this.#options.addresses))).flat();
    const families = new Set(addresses.map(familyOf));
    const kept = this.#answering.filter(({ address }) => own.includes(address) && families.has(familyOf(address)));
    for (const one of this.#answering) if (!kept.includes(one)) one.close();
    this.#answering = kept;
    this.#addresses = addresses;
    for (const family of families.difference(new Set(this.families))) {
      const at = own.find((address) => familyOf(address) === family && !isLoopback(address));
      if (at === undefined) continue;
      const isOwn = (from: string) =>
        from === at || own.includes(from as Address) || addresses.includes(from as Address);
      this.#answering = [...this.#answering, await this.#options.sockets.answer(at, this.#token, isOwn)];
    }
    return probeServiceEvents({ addresses, answering: this.#answering, nodeName });
  }

  close(): void {
    for (const one of this.#answering) one.close();
    this.#answering = [];
  }

  /** The families in which the agent can be asked. */
  get families(): readonly Family[] {
    return this.#answering.map(({ address }) => familyOf(address));
  }

  /** Asks once in each of these families that it can. */
  async check(families: readonly Family[]): Promise<readonly PathResult[]> {
    const asked = this.#addresses.filter((address) => this.families.includes(familyOf(address)));
    return await Promise.all(
      asked.filter((address) => families.includes(familyOf(address))).map((address) => this.#ask(address)),
    );
  }

  async #ask(address: Address): Promise<PathResult> {
    const path = { from: 'node', family: familyOf(address) } as const;
    const to = { address, port: PROBE_PORT };
    const options = { length: this.#token.length, milliseconds: REACH_MS };
    const reached = await this.#options.sockets.reach(to, options);
    const what = `a connection from this node to ${endpointText(address, PROBE_PORT)} through the rules`;
    if (reached.kind === 'unroutable')
      return { ...path, kind: 'unknown', text: `${what} cannot be tried: ${reached.cause}` };
    if (reached.kind !== 'connected')
      return { ...path, kind: 'failed', text: `${what} does not reach the agent: ${reached.cause}` };
    if (reached.said === this.#token) return { ...path, kind: 'passed' };
    return { ...path, kind: 'failed', text: `${what} reaches another program than the agent` };
  }
}
