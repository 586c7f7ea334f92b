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
import type { Clock } from '../../base/clock.ts';
import { sameData } from '../../base/equal.ts';
import { createMutex } from '../../base/mutex.ts';
import type { EventSink } from '../../proxy/model/events.ts';
import type { ModeName } from '../../proxy/model/modes.ts';
import { PathHealth, type PathResult } from './path-health.ts';
import { goneProbeEvents, POD_PORT, PROBE_PORT, probeServiceEvents } from './probe-service.ts';
import type { AnsweringPort, DatapathSockets, JoinedPod, Reach, Reached } from './reach.ts';

export interface DatapathOptions {
  readonly sockets: DatapathSockets;
  /** The addresses of this machine's interfaces. */
  readonly addresses: (family: Family) => Promise<readonly Address[]>;
  readonly clock: Pick<Clock, 'now'>;
  /** Called with the reason why a family cannot be asked, or nothing can be asked as a Pod would. */
  readonly onProblem: (text: string) => void;
}

/** The addresses to ask, and the place of their Service. */
export interface Asked {
  /** The reserved addresses, one for each family at most. */
  readonly addresses: readonly Address[];
  readonly nodeName: string;
  /** Whose rules lead there. */
  readonly mode: ModeName;
  /** The Node's own addresses, which come before others of this machine. */
  readonly preferred: readonly Address[];
  /** Takes the Service and its slices, as if a source had them. */
  readonly place: EventSink;
}

/** Milliseconds that a connection through the rules may take. Both ends are this process. */
const REACH_MS = 700;
/** Milliseconds until what could not be opened is tried again. Another program may remove the device of the Pod each time. */
const RETRY_MS = 60_000;
/** Rounds in which no connection of the Pod passes, after which the log says so. */
const ROUNDS_UNTIL_TOLD = 5;

/** The namespace from which connections come as from a Pod. */
interface Pod {
  readonly joined: JoinedPod;
  readonly ports: readonly AnsweringPort[];
  /** Families in which a connection has passed, by the rules of the present mode. */
  readonly hasPassed: Set<Family>;
  /** Rounds so far, before one passed. */
  readonly vain: Map<Family, number>;
}

export class Datapath {
  /** It outlives generations of the agent: a path that is broken stays broken. */
  readonly health = new PathHealth();
  readonly #options: DatapathOptions;
  /** It names this process: an answer of another program on the same port is none. */
  readonly #token = randomBytes(16).toString('hex');
  /** One opens at a time: two would each remove the device of the other. */
  readonly #opening = createMutex();
  #answering: readonly AnsweringPort[] = [];
  #asked: Asked | undefined;
  /** The addresses of the node as they were read last. */
  #own: readonly Address[] = [];
  #pod: Pod | undefined;
  /** The addresses that were asked for. */
  #podAddresses: readonly Address[] = [];
  /** Time of the next try to open what is missing. */
  #retryAt = 0;
  /** The problem of each end, as it was told. */
  readonly #problems = new Map<Family | 'pod', string>();

  constructor(options: DatapathOptions) {
    this.#options = options;
  }

  /** Answers at an address of this node, and as a Pod, where it does not yet, and places the Service that leads there. Never rejects. */
  async open(asked: Asked): Promise<void> {
    if (this.#asked?.mode !== asked.mode) this.#forgetPod();
    this.#asked = asked;
    await this.#openNow(asked);
  }

  async #openNow(asked: Asked): Promise<void> {
    this.#retryAt = this.#options.clock.now() + RETRY_MS;
    await this.#opening(async () => {
      await this.#listen(asked);
      await this.#join(asked);
      if (this.#asked === asked) this.#place(asked);
    });
  }

  /** Answers at an address of the node in each family. */
  async #listen(asked: Asked): Promise<void> {
    await this.#readOwn();
    if (this.#asked !== asked) return;
    const own = this.#own;
    const families = new Set(asked.addresses.map(familyOf));
    const kept = this.#answering.filter(({ address }) => own.includes(address) && families.has(familyOf(address)));
    for (const one of this.#answering) if (!kept.includes(one)) one.close();
    this.#answering = kept;
    for (const family of families) await this.#answer(family, asked);
  }

  #place({ addresses, nodeName, place }: Asked): void {
    const [answering, inPod] = [this.#answering, this.#pod?.ports ?? []];
    for (const event of probeServiceEvents({ addresses, answering, inPod, nodeName })) place(event);
  }

  /** The addresses of a family that cannot be read stay as they were. */
  async #readOwn(): Promise<void> {
    const { addresses } = this.#options;
    const before = this.#own;
    const of = (family: Family) => addresses(family).catch(() => before.filter((one) => familyOf(one) === family));
    this.#own = (await Promise.all(FAMILIES.map(of))).flat();
  }

  /** Joins a Pod to the node, with the address after each reserved one of a family in which the agent answers. Never rejects. */
  async #join(asked: Asked): Promise<void> {
    const families = this.#answering.map(({ address }) => familyOf(address));
    const addresses = asked.addresses.filter((address) => families.includes(familyOf(address))).map(nextAddress);
    if (this.#asked !== asked || (this.#pod !== undefined && sameData(this.#podAddresses, addresses))) return;
    this.#leave();
    this.#podAddresses = addresses;
    if (addresses.length === 0) return;
    const pod = await this.#joined(addresses);
    // The check may have ended meanwhile.
    if (this.#asked === undefined) closePod(pod);
    else this.#pod = pod;
  }

  /** undefined, and told, where that cannot be. */
  async #joined(addresses: readonly Address[]): Promise<Pod | undefined> {
    let joined: JoinedPod | undefined;
    const ports: AnsweringPort[] = [];
    try {
      joined = await this.#options.sockets.joinPod(addresses);
      for (const address of joined.addresses) {
        if (!(await joined.isJoined(address))) throw new Error(`another route of the node leads to ${address}`);
        ports.push(await joined.answer(address, this.#token));
      }
      this.#problems.delete('pod');
      return { joined, ports, hasPassed: new Set(), vain: new Map() };
    } catch (error) {
      closePod({ joined, ports });
      this.#tell('pod', `the data path of Pods is not checked, that of the node is: ${causeOf(error)}`);
      return undefined;
    }
  }

  #leave(): void {
    closePod(this.#pod);
    this.#forgetPod();
    this.#pod = undefined;
  }

  /** The results of another Pod, or by the rules of another mode, say nothing of this one. */
  #forgetPod(): void {
    this.health.forget('pod');
    this.#pod?.hasPassed.clear();
    this.#pod?.vain.clear();
  }

  /** Tells a problem once, until there is another one or none. */
  #tell(of: Family | 'pod', text: string): void {
    if (this.#problems.get(of) === text) return;
    this.#problems.set(of, text);
    this.#options.onProblem(text);
  }

  async #answer(family: Family, asked: Asked): Promise<void> {
    const own = this.#own;
    if (this.#answering.some(({ address }) => familyOf(address) === family)) return;
    const at = [...asked.preferred, ...own].find(
      (one) => familyOf(one) === family && !isLoopback(one) && own.includes(one),
    );
    if (at === undefined) return;
    const isOwn = (from: string) =>
      [...this.#own, ...(this.#asked?.addresses ?? [])].some((address) => address === from);
    try {
      const port = await this.#options.sockets.answer(at, this.#token, isOwn);
      this.#problems.delete(family);
      // The end of the check, or other addresses, came before.
      if (this.#asked !== asked) port.close();
      else this.#answering = [...this.#answering, port];
    } catch (error) {
      this.#tell(family, `the data path of ${family} cannot be checked: ${causeOf(error)}`);
    }
  }

  /** Answers no more, and takes the Service away. */
  close(): void {
    for (const one of this.#answering) one.close();
    this.#answering = [];
    this.#leave();
    this.#podAddresses = [];
    const { place } = this.#asked ?? {};
    this.#asked = undefined;
    if (place !== undefined) for (const event of goneProbeEvents()) place(event);
  }

  /** Asks once in each of these families that it can, from the node and as a Pod. */
  async check(families: readonly Family[]): Promise<readonly PathResult[]> {
    const has = (ports: readonly AnsweringPort[], family: Family) =>
      families.includes(family) && ports.some(({ address }) => familyOf(address) === family);
    const addresses = this.#asked?.addresses ?? [];
    const fromNode = addresses.filter((one) => has(this.#answering, familyOf(one)));
    await this.#retry();
    const pod = this.#pod;
    const fromPod = pod === undefined ? [] : addresses.filter((one) => has(pod.ports, familyOf(one)));
    const results = await Promise.all([
      ...fromNode.map((one) => this.#ask(one)),
      ...fromPod.map((one) => this.#askAsPod(pod as Pod, one)),
    ]);
    return results.filter((result) => result !== undefined);
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

  /** The end of the connection is in the namespace where it begins: so the rules must also masquerade it. undefined: that Pod is gone. */
  async #askAsPod(pod: Pod, address: Address): Promise<PathResult | undefined> {
    const path = { from: 'pod', family: familyOf(address) } as const;
    const { onProblem } = this.#options;
    const what = `a connection as of a Pod of this node to ${endpointText(address, POD_PORT)} through the rules`;
    const failure = this.#failure(await this.#reach(pod.joined, { address, port: POD_PORT }));
    if (pod !== this.#pod) return undefined;
    if (failure === undefined) {
      pod.hasPassed.add(path.family);
      return { ...path, kind: 'passed' };
    }
    if (!(await pod.joined.isJoined(nextAddress(address)))) {
      if (pod === this.#pod) {
        onProblem('another program took the device of the data path of Pods away, or its route: it is made again');
        this.#leave();
      }
      return undefined;
    }
    if (pod.hasPassed.has(path.family)) return { ...path, kind: 'failed', text: `${what} ${failure}` };
    // The network plugin, or a firewall, may stop packets of a device that it does not know.
    const text = `${what} ${failure}, and none did before`;
    const vain = (pod.vain.get(path.family) ?? 0) + 1;
    pod.vain.set(path.family, vain);
    if (vain === ROUNDS_UNTIL_TOLD) this.#tell('pod', `the data path of Pods is not known: ${text}`);
    return { ...path, kind: 'unknown', text };
  }

  /** Opens again where an end is missing: the node had no address of the family, or the Pod could not be joined, or lost its device. */
  async #retry(): Promise<void> {
    const asked = this.#asked;
    if (asked === undefined || this.#options.clock.now() < this.#retryAt) return;
    const has = (address: Address) => this.#answering.some((port) => familyOf(port.address) === familyOf(address));
    if (this.#pod !== undefined && asked.addresses.every(has)) return;
    await this.#openNow(asked);
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
    if (at === undefined) return false;
    await this.#readOwn();
    if (this.#own.includes(at.address)) return false;
    if (this.#asked !== undefined) await this.open(this.#asked);
    return true;
  }
}

function closePod(pod: { joined: JoinedPod | undefined; ports: readonly AnsweringPort[] } | undefined): void {
  for (const port of pod?.ports ?? []) port.close();
  pod?.joined?.close();
}
