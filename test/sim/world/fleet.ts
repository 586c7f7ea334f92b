/**
 * A fleet of three simulated nodes. Hooks of Pods that end ask it (`/drained`): after a yes no node sends a new connection to that Pod, as
 * long as no object says otherwise. An agent may hear of a Service before it hears of the slices that were written earlier.
 */

import { type Address, FAMILIES, type Family, familyOf } from '../../../src/base/address.ts';
import { BOOKMARKS } from '../api/watch.ts';
import { kept } from '../check/kept.ts';
import { becomeOf, viewsIn } from '../check/kernel-views.ts';
import { packetsTo, type Sender, type SentPacket } from '../check/packets.ts';
import type { FrontendKey, Moment, Versions } from '../check/versions.ts';
import { Walks } from '../check/walks.ts';
import { SimProcess } from '../engine/process.ts';
import { NOBODY } from '../engine/time.ts';
import { FLEET_NODES, fleetObjects } from '../history/fleet-objects.ts';
import { NODE } from '../history/objects.ts';
import { SimKernel } from '../kernel/kernel.ts';
import { Violation } from '../violation.ts';
import type { AgentRun } from './agent-run.ts';
import { Agents, type AgentsOptions } from './agents.ts';
import { FLEET_PORT, startFleet } from './fleet-run.ts';
import { SimLoopback } from './loopback.ts';
import { SimNames } from './names.ts';
import { simPlatform } from './platform.ts';
import { SimPorts } from './ports.ts';

export interface FleetOptions extends Omit<AgentsOptions, 'node'> {
  readonly versions: Versions;
  readonly senders: readonly Sender[];
  /** Writes an object to the API server. */
  readonly put: (object: object) => void;
}

interface FleetNode {
  readonly name: string;
  readonly kernel: SimKernel;
  readonly ports: SimPorts;
  readonly walks: Walks;
  /** The same object while they stay the same. */
  readonly local: (family: Family) => ReadonlySet<string>;
  /** undefined: those of the world. */
  readonly agents: Agents | undefined;
}

/** Milliseconds until the fleet is started again, and until a hook asks again that got no yes. */
const RESTART_MS = 1000;
const AGAIN_MS = 3000;
const MAX_QUESTIONS = 30;

export class SimFleet {
  readonly #options: FleetOptions;
  readonly #nodes: readonly FleetNode[];
  /** Where the fleet listens. */
  readonly #ports = new SimPorts();
  /** By the addresses of a node: packets are walked anew only where they are other objects. */
  readonly #packets = new WeakMap<ReadonlySet<string>, Map<FrontendKey, readonly SentPacket[]>>();
  /** Addresses of endpoints for which a hook asks. */
  readonly #asking = new Set<string>();
  /** Those that were answered with yes, and when. */
  readonly #drained = new Map<string, Moment>();
  /** The addresses that the fleet may know; undefined: all. */
  #heardOf: Set<string> | undefined;
  /** Those of them that took no connections when its watches fell silent, and when: it cannot hear that one of them takes some again. */
  readonly #quiet = new Map<string, Moment>();
  #fleet: AgentRun | undefined;
  #starts = 0;
  #isOver = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#nodes = Object.keys(FLEET_NODES).map((name) => (name === NODE ? this.#worlds(name) : this.#another(name)));
  }

  begin(): void {
    for (const { agents } of this.#nodes) agents?.begin();
    this.#startFleet();
  }

  heal(): void {
    for (const { agents } of this.#nodes) agents?.revive();
    if (this.#fleet === undefined || this.#fleet.process.isDead) this.#startFleet();
  }

  stop(): void {
    this.#isOver = true;
    for (const { agents } of this.#nodes) agents?.stop();
    this.#fleet?.stop();
  }

  end(): void {
    this.#isOver = true;
    for (const { agents } of this.#nodes) agents?.end();
    this.#fleet?.process.kill();
  }

  /** Every process ended in order. Throws Violation. */
  mustBeStopped(): void {
    for (const { agents } of this.#nodes) agents?.mustBeStopped();
    if (this.#fleet?.process.isDead === false && this.#fleet.end() === undefined)
      throw new Violation('does not stop', 'the fleet did not end after SIGTERM');
  }

  /** All nodes have what the API server has, and the fleet says so. Throws Violation. */
  async mustBeRight(ask: (ports: SimPorts, port: number, path: string) => Promise<{ status: number; body: string }>) {
    // A fleet that started anew in a store where nothing changes cannot know that each agent has its lists: marks move with changes, and
    // with bookmarks where the watch leaves a change out.
    for (const action of fleetObjects()) if (action.kind === 'put') this.#options.put(action.object);
    const { time } = this.#options;
    await time.runUntil(time.now + BOOKMARKS);
    const { status, body } = await ask(this.#ports, FLEET_PORT, `/drained?address=${NEVER_USED}&timeout=20s`);
    if (status !== 200 || !isDrained(body))
      throw new Violation('not right: fleet', `/drained of an address that nobody has answers ${status}: ${body}`);
  }

  /** An actor wrote or deleted objects: a Pod that ends takes connections again where it is the last of its Service. */
  changed(): void {
    for (const [address, since] of this.#drained) if (this.#takes(address, since)) this.#drained.delete(address);
    for (const [address, since] of this.#quiet) if (this.#takes(address, since)) this.#heardOf?.delete(address);
  }

  /** An actor wrote objects; of a slice, hooks of the Pods that end begin to ask. */
  written(object: object): void {
    this.changed();
    const { kind, endpoints = [] } = object as SliceLike;
    if (kind !== 'EndpointSlice') return;
    for (const { addresses, conditions } of endpoints)
      if (conditions?.terminating === true)
        for (const address of addresses) if (this.#mayKnow(address)) this.#ask(address, MAX_QUESTIONS);
  }

  /** Watches stay open, and nothing comes through them: the fleet cannot hear of changes any more. */
  silenced(): void {
    const { versions } = this.#options;
    this.#heardOf ??= new Set(versions.endpointAddresses);
    const now = versions.moment;
    for (const address of this.#heardOf) if (!this.#takes(address, now)) this.#quiet.set(address, now);
  }

  /** The world's kernel was written. */
  committed(): void {
    const [first] = this.#nodes;
    if (first !== undefined) this.#check(first);
  }

  #worlds(name: string): FleetNode {
    const { world, versions } = this.#options;
    const local = (family: Family) => versions.localAddresses(family);
    return { name, kernel: world.kernel, ports: world.ports, walks: new Walks(), local, agents: undefined };
  }

  #another(name: string): FleetNode {
    const { world, time, plan } = this.#options;
    const kernel = new SimKernel({ time, iptables: plan.variant });
    const { machine } = kernel;
    for (const address of [...machine.addresses])
      if (address.startsWith('192.168.7.')) machine.addresses.delete(address);
    machine.addresses.add(FLEET_NODES[name as keyof typeof FLEET_NODES] as Address);
    const loopback = new SimLoopback({ time, ...world.network });
    const own = { kernel, ports: new SimPorts(), names: new SimNames(), loopback };
    const agents = new Agents({ ...this.#options, node: name, world: { ...world, ...own } });
    const ofFamily = new Map(FAMILIES.map((family) => [family, addressesOf(machine.addresses, family)]));
    const local = (family: Family) => ofFamily.get(family) ?? NONE;
    const node: FleetNode = { name, ...own, walks: new Walks(), local, agents };
    kernel.onCommit = () => this.#check(node);
    return node;
  }

  #startFleet(): void {
    if (this.#isOver) return;
    this.#starts += 1;
    const { calls, time, world, onLine } = this.#options;
    const process = new SimProcess(`fleet ${this.#starts}`, world.kernel.nextPid(), calls);
    process.onDeath(() => {
      if (this.#fleet?.process === process) time.after(RESTART_MS, () => this.#startFleet(), NOBODY);
    });
    const platform = simPlatform(process, { ...world, ports: this.#ports });
    const input = {
      process,
      platform,
      onLine: (line: string) => onLine(`${(time.now / 1000).toFixed(3)} ${process.name}: ${line}`),
      onEnd: () => {
        if (!this.#isOver) process.kill();
      },
    };
    this.#fleet = startFleet(input, ({ at, path }, sink) => {
      const node = this.#nodes.find(({ name }) => FLEET_NODES[name as keyof typeof FLEET_NODES] === at.address);
      return (node?.ports ?? new SimPorts()).stream(process, path, sink);
    });
  }

  #ask(address: string, left: number): void {
    const isFirst = left === MAX_QUESTIONS;
    if (this.#isOver || left === 0 || (isFirst && this.#asking.has(address))) return;
    this.#asking.add(address);
    const path = `/drained?address=${address}&timeout=20s`;
    void this.#ports.ask({ port: FLEET_PORT, path }).then((answer) => {
      if (answer?.status === 200 && isDrained(answer.body)) this.#answered(address);
      else this.#options.time.after(AGAIN_MS, () => this.#ask(address, left - 1), NOBODY);
    });
  }

  #answered(address: string): void {
    this.#asking.delete(address);
    const now = this.#options.versions.moment;
    if (this.#takes(address, now) || !this.#mayKnow(address)) return;
    this.#drained.set(address, now);
    for (const node of this.#nodes) this.#check(node);
  }

  #mayKnow(address: string): boolean {
    return this.#heardOf?.has(address) ?? true;
  }

  /** Whether an endpoint takes new connections by objects as an agent may know them since that moment. */
  #takes(address: string, since: Moment): boolean {
    const { versions } = this.#options;
    for (const frontend of versions.frontends)
      for (const { cluster, local } of versions.portsSince(frontend, since))
        if ([...cluster, ...local].some((backend) => backend.address === address)) return true;
    return false;
  }

  #check({ name, kernel, walks, local }: FleetNode): void {
    if (this.#drained.size === 0) return;
    const { versions, senders, onViolation } = this.#options;
    walks.begin();
    for (const family of FAMILIES) {
      const views = viewsIn(kernel.views(family));
      const localAddresses = local(family);
      const packets = kept(this.#packets, localAddresses, () => new Map());
      for (const { key, at } of versions.frontends) {
        if (at.family !== family) continue;
        for (const { packet, name: sent } of kept(packets, key, () => packetsTo(at, senders, localAddresses))) {
          const { backends } = becomeOf(views, packet, { localAddresses, remembered: NONE }, walks.walk);
          for (const backend of backends)
            if (this.#drained.has(addressIn(backend)))
              onViolation(
                new Violation('drained', `${name}: ${sent} goes to ${backend}, which the fleet called drained`),
              );
        }
      }
    }
  }
}

interface SliceLike {
  readonly kind?: string;
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    readonly conditions?: { readonly terminating?: boolean };
  }[];
}

const NONE: ReadonlySet<string> = new Set();
/** Of no endpoint of a history. */
const NEVER_USED = '10.244.200.200';

function addressesOf(all: Iterable<Address>, family: Family): ReadonlySet<string> {
  return new Set([...all].filter((one) => familyOf(one) === family));
}

function isDrained(body: string): boolean {
  return (JSON.parse(body) as { readonly drained: boolean }).drained;
}

/** Of `10.244.1.7:8080` and `[fd00::7]:8080`. */
function addressIn(endpoint: string): string {
  return endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/^\[|\]$/g, '');
}
