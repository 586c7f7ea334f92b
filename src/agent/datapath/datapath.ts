/** Asks the agent itself through the rules in the kernel: a reserved address for each family, whose Service the mode serves like any other. */
import { randomBytes } from 'node:crypto';
import { type Address, endpointText, FAMILIES, type Family, familyOf, isLoopback } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import type { EventSink } from '../../proxy/model/events.ts';
import { PathHealth, type PathResult } from './path-health.ts';
import { goneProbeEvents, PROBE_PORT, probeServiceEvents } from './probe-service.ts';
import type { AnsweringPort, DatapathSockets } from './reach.ts';

export interface DatapathOptions {
  readonly sockets: DatapathSockets;
  /** The addresses of this machine's interfaces. */
  readonly addresses: (family: Family) => Promise<readonly Address[]>;
  /** Called with the reason why a family cannot be asked. */
  readonly onProblem: (text: string) => void;
}

/** The addresses to ask, and the place of their Service. */
export interface Asked {
  /** The reserved addresses, one for each family at most. */
  readonly addresses: readonly Address[];
  readonly nodeName: string;
  /** The Node's own addresses, which come before others of this machine. */
  readonly preferred: readonly Address[];
  /** Takes the Service and its slices, as if a source had them. */
  readonly place: EventSink;
}

/** Milliseconds that a connection through the rules may take. Both ends are this process. */
const REACH_MS = 700;

export class Datapath {
  /** It outlives generations of the agent: a path that is broken stays broken. */
  readonly health = new PathHealth();
  readonly #options: DatapathOptions;
  /** It names this process: an answer of another program on the same port is none. */
  readonly #token = randomBytes(16).toString('hex');
  #answering: readonly AnsweringPort[] = [];
  #asked: Asked | undefined;

  constructor(options: DatapathOptions) {
    this.#options = options;
  }

  /** Answers at an address of this node, where it does not yet, and places the Service that leads there. Never rejects. */
  async open(asked: Asked): Promise<void> {
    this.#asked = asked;
    const own = await this.#own();
    if (this.#asked !== asked) return;
    const families = new Set(asked.addresses.map(familyOf));
    const kept = this.#answering.filter(({ address }) => own.includes(address) && families.has(familyOf(address)));
    for (const one of this.#answering) if (!kept.includes(one)) one.close();
    this.#answering = kept;
    for (const family of families) await this.#answer(family, asked, own);
    if (this.#asked !== asked) return;
    const { addresses, nodeName, place } = asked;
    for (const event of probeServiceEvents({ addresses, answering: this.#answering, nodeName })) place(event);
  }

  async #answer(family: Family, asked: Asked, own: readonly Address[]): Promise<void> {
    if (this.#answering.some(({ address }) => familyOf(address) === family)) return;
    const at = [...asked.preferred, ...own].find(
      (one) => familyOf(one) === family && !isLoopback(one) && own.includes(one),
    );
    if (at === undefined) return;
    const isOwn = (from: string) => [...own, ...asked.addresses].some((address) => address === from);
    try {
      const port = await this.#options.sockets.answer(at, this.#token, isOwn);
      // Another round, or the end of the check, came before.
      const isLate = this.#asked !== asked || this.#answering.some(({ address }) => familyOf(address) === family);
      if (isLate) port.close();
      else this.#answering = [...this.#answering, port];
    } catch (error) {
      this.#options.onProblem(`the data path of ${family} cannot be checked: ${causeOf(error)}`);
    }
  }

  async #own(): Promise<readonly Address[]> {
    const { addresses } = this.#options;
    const of = (family: Family) => addresses(family).catch((): readonly Address[] => []);
    return (await Promise.all(FAMILIES.map(of))).flat();
  }

  /** Answers no more, and takes the Service away. */
  close(): void {
    for (const one of this.#answering) one.close();
    this.#answering = [];
    const { place } = this.#asked ?? {};
    this.#asked = undefined;
    if (place !== undefined) for (const event of goneProbeEvents()) place(event);
  }

  /** Asks once in each of these families that it can. */
  async check(families: readonly Family[]): Promise<readonly PathResult[]> {
    const open = new Set(this.#answering.map(({ address }) => familyOf(address)));
    const asked = (this.#asked?.addresses ?? []).filter((address) => open.has(familyOf(address)));
    return await Promise.all(
      asked.filter((address) => families.includes(familyOf(address))).map((address) => this.#ask(address)),
    );
  }

  async #ask(address: Address): Promise<PathResult> {
    const path = { from: 'node', family: familyOf(address) } as const;
    const { sockets } = this.#options;
    const what = `a connection from this node to ${endpointText(address, PROBE_PORT)} through the rules`;
    if (!(await sockets.hasRoute(address)))
      return { ...path, kind: 'unknown', text: `${what} cannot be tried: there is no route to that address` };
    const to = { address, port: PROBE_PORT };
    const reached = await sockets.reach(to, { length: this.#token.length, milliseconds: REACH_MS });
    if (reached.kind === 'connected' && reached.said === this.#token) return { ...path, kind: 'passed' };
    if (await this.#hasMoved(path.family))
      return { ...path, kind: 'unknown', text: `${what} had its end at an address that this node has no more` };
    if (reached.kind !== 'connected')
      return { ...path, kind: 'failed', text: `${what} does not reach the agent: ${reached.cause}` };
    return { ...path, kind: 'failed', text: `${what} reaches another program than the agent` };
  }

  /** Whether the address at which the agent answers is no more the node's. Then it answers at another one. */
  async #hasMoved(family: Family): Promise<boolean> {
    const at = this.#answering.find(({ address }) => familyOf(address) === family);
    if (at === undefined || (await this.#own()).includes(at.address)) return false;
    if (this.#asked !== undefined) await this.open(this.#asked);
    return true;
  }
}
