/** Asks the agent itself through the rules in the kernel: a reserved address for each family, whose Service the mode serves like any other. */
import { randomBytes } from 'node:crypto';
import {
  type Address,
  endpointText,
  FAMILIES,
  type Family,
  familyOf,
  isLoopback,
  nextAddress,
  type SocketAddress,
} from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import { sameData } from '../../base/equal.ts';
import type { EventSink } from '../../proxy/model/events.ts';
import { PathHealth, type PathResult } from './path-health.ts';
import { goneProbeEvents, POD_PORT, PROBE_PORT, probeServiceEvents } from './probe-service.ts';
import type { AnsweringPort, DatapathSockets, JoinedPod, Reach, Reached } from './reach.ts';

export interface DatapathOptions {
  readonly sockets: DatapathSockets;
  /** The addresses of this machine's interfaces. */
  readonly addresses: (family: Family) => Promise<readonly Address[]>;
  /** Called with the reason why a family cannot be asked, or nothing can be asked as a Pod would. */
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
  #pod: JoinedPod | undefined;
  #inPod: readonly AnsweringPort[] = [];
  /** Why there is no such namespace, as it was told. */
  #podProblem: string | undefined;
  /** Families in which a connection of the Pod has passed. */
  readonly #hasPassed = new Set<Family>();

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
    await this.#join(asked);
    if (this.#asked !== asked) return;
    const { addresses, nodeName, place } = asked;
    const [answering, inPod] = [this.#answering, this.#inPod];
    for (const event of probeServiceEvents({ addresses, answering, inPod, nodeName })) place(event);
  }

  /** Connects as a Pod on this node would; undefined where that cannot be. */
  get pod(): Reach | undefined {
    return this.#pod;
  }

  /** Joins a Pod to the node, with the address after each reserved one of a family in which the agent answers. Never rejects. */
  async #join(asked: Asked): Promise<void> {
    const { sockets, onProblem } = this.#options;
    const families = this.#answering.map(({ address }) => familyOf(address));
    const addresses = asked.addresses.filter((address) => families.includes(familyOf(address))).map(nextAddress);
    if (this.#asked !== asked || sameData(this.#pod?.addresses ?? [], addresses)) return;
    this.#leave();
    let pod: JoinedPod | undefined;
    const ports: AnsweringPort[] = [];
    try {
      pod = await sockets.joinPod(addresses);
      for (const address of addresses) ports.push(await pod.answer(address, this.#token));
      this.#podProblem = undefined;
    } catch (error) {
      pod?.close();
      pod = undefined;
      const cause = causeOf(error);
      if (cause !== this.#podProblem) onProblem(`the data path of Pods is not checked, that of the node is: ${cause}`);
      this.#podProblem = cause;
    }
    // Another round, or the end of the check, came before.
    if (pod === undefined || this.#asked !== asked || this.#pod !== undefined) {
      for (const port of ports) port.close();
      pod?.close();
      return;
    }
    this.#pod = pod;
    this.#inPod = ports;
  }

  #leave(): void {
    for (const port of this.#inPod) port.close();
    this.#pod?.close();
    this.#pod = undefined;
    this.#inPod = [];
    this.#hasPassed.clear();
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
    this.#leave();
    const { place } = this.#asked ?? {};
    this.#asked = undefined;
    if (place !== undefined) for (const event of goneProbeEvents()) place(event);
  }

  /** Asks once in each of these families that it can, from the node and as a Pod. */
  async check(families: readonly Family[]): Promise<readonly PathResult[]> {
    const has = (ports: readonly AnsweringPort[], family: Family) =>
      families.includes(family) && ports.some(({ address }) => familyOf(address) === family);
    const addresses = this.#asked?.addresses ?? [];
    const pod = this.#pod;
    return await Promise.all([
      ...addresses.filter((one) => has(this.#answering, familyOf(one))).map((one) => this.#ask(one)),
      ...(pod === undefined
        ? []
        : addresses.filter((one) => has(this.#inPod, familyOf(one))).map((one) => this.#askAsPod(pod, one))),
    ]);
  }

  async #ask(address: Address): Promise<PathResult> {
    const path = { from: 'node', family: familyOf(address) } as const;
    const { sockets } = this.#options;
    const what = `a connection from this node to ${endpointText(address, PROBE_PORT)} through the rules`;
    if (!(await sockets.hasRoute(address)))
      return { ...path, kind: 'unknown', text: `${what} cannot be tried: there is no route to that address` };
    const failure = this.#failure(await this.#reach(sockets, { address, port: PROBE_PORT }));
    if (failure === undefined) return { ...path, kind: 'passed' };
    if (await this.#hasMoved(path.family))
      return { ...path, kind: 'unknown', text: `${what} had its end at an address that this node has no more` };
    return { ...path, kind: 'failed', text: `${what} ${failure}` };
  }

  /** The end of the connection is in the namespace where it begins: so the rules must also masquerade it. */
  async #askAsPod(pod: JoinedPod, address: Address): Promise<PathResult> {
    const path = { from: 'pod', family: familyOf(address) } as const;
    const what = `a connection as of a Pod of this node to ${endpointText(address, POD_PORT)} through the rules`;
    const failure = this.#failure(await this.#reach(pod, { address, port: POD_PORT }));
    if (failure === undefined) {
      this.#hasPassed.add(path.family);
      return { ...path, kind: 'passed' };
    }
    if (pod !== this.#pod || !(await pod.isJoined())) {
      await this.#joinAgain(pod);
      return { ...path, kind: 'unknown', text: `${what} had no device any more` };
    }
    // The network plugin, or a firewall, may stop what comes from a device that it does not know.
    if (!this.#hasPassed.has(path.family))
      return { ...path, kind: 'unknown', text: `${what} ${failure}, and none did before` };
    return { ...path, kind: 'failed', text: `${what} ${failure}` };
  }

  async #joinAgain(pod: JoinedPod): Promise<void> {
    if (pod !== this.#pod) return;
    this.#leave();
    if (this.#asked !== undefined) await this.open(this.#asked);
  }

  #reach(by: Reach, to: SocketAddress): Promise<Reached> {
    return by.reach(to, { length: this.#token.length, milliseconds: REACH_MS });
  }

  /** undefined: the agent answered. */
  #failure(reached: Reached): string | undefined {
    if (reached.kind !== 'connected') return `does not reach the agent: ${reached.cause}`;
    return reached.said === this.#token ? undefined : 'reaches another program than the agent';
  }

  /** Whether the address at which the agent answers is no more the node's. Then it answers at another one. */
  async #hasMoved(family: Family): Promise<boolean> {
    const at = this.#answering.find(({ address }) => familyOf(address) === family);
    if (at === undefined || (await this.#own()).includes(at.address)) return false;
    if (this.#asked !== undefined) await this.open(this.#asked);
    return true;
  }
}
