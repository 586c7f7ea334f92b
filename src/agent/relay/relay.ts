/**
 * Node ports of TCP on 127.0.0.1 and ::1, relayed in user space (docs/semantics.md 6.17, KEP-6032): the kernel does not route what loopback
 * addresses send to other machines. The relay follows the model beside the rules in the kernel, and changes none of them.
 */
import type { Socket } from 'node:net';
import { type Address, FAMILIES, type Family, familyOf } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import type { Clock } from '../../base/clock.ts';
import { createMutex } from '../../base/mutex.ts';
import type { ServicePort, ServicePortKey } from '../../proxy/model/service-port.ts';
import { type RelayPort, relayPort } from './node-ports.ts';
import { Choice, RelayedConnection, type Result } from './relayed-connection.ts';
import type { RelayListener, RelaySockets } from './sockets.ts';

interface RelayParts {
  readonly sockets: RelaySockets;
  readonly clock: Clock;
  /** At least 0, less than 1. */
  readonly random: () => number;
  /** The endpoints, as `ip:port`, that the Service's slices list now, whatever their conditions are. */
  readonly listed: (port: RelayPort) => ReadonlySet<string>;
  /** Called once for a port that cannot be bound. It is tried again at each sync, and after `retry`. */
  readonly onFailure: (port: RelayPort, address: Address, cause: string) => void;
  /** Called when the port could be bound after a failure. */
  readonly onRecovery: (port: RelayPort, address: Address) => void;
  /** Receives a sentence for the log when connections are lost. */
  readonly onTrouble: (sentence: string) => void;
}

export class NodePortRelay {
  readonly #parts: RelayParts;
  readonly #wanted = new Map<ServicePortKey, RelayPort>();
  /** Ports by `address port`. */
  readonly #served = new Map<string, ServedPort>();
  readonly #mutex = createMutex();
  readonly #accounts: Accounts;
  #where: { readonly addresses: readonly Address[]; readonly retry: number } = { addresses: [], retry: 0 };
  #cancelRetry: () => void = () => undefined;
  /** True when ports must be opened or closed, have other endpoints, or could not be bound. */
  #isUnsettled = false;
  #isClosed = false;

  constructor(parts: RelayParts) {
    this.#parts = parts;
    this.#accounts = new Accounts(parts);
  }

  /** Listen at these addresses, at most one of each family, from the next sync on. `retry`: milliseconds until a port that failed is tried again. */
  listenAt(addresses: readonly Address[], retry: number): void {
    this.#where = { addresses, retry };
    // Changes are not taken in without an address.
    if (addresses.length === 0) this.#wanted.clear();
    this.#isUnsettled = true;
  }

  /** Take in changes of the model. */
  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    if (this.#isClosed || this.#where.addresses.length === 0) return;
    for (const [key, changed] of changes) {
      const port = changed === undefined ? undefined : relayPort(changed);
      if (port !== undefined) this.#wanted.set(key, port);
      else if (!this.#wanted.delete(key)) continue;
      this.#isUnsettled = true;
    }
  }

  /** Serve the node ports as the model has them now. Call it after rules were written. */
  async sync(): Promise<void> {
    if (this.#isUnsettled) await this.#mutex(() => this.#settle());
    // An endpoint may leave the slices without a change of the model: one that is not ready, for example.
    for (const served of this.#served.values()) served.abandonLost(() => this.#parts.listed(served.port));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wanted.clear();
    this.#isUnsettled = true;
    await this.sync();
  }

  /** The addresses that it serves, and the causes of failures by `address port`. */
  get state(): RelayState {
    const failures = new Map<string, string>();
    for (const [at, { failure }] of this.#served) if (failure !== undefined) failures.set(at, failure);
    return { addresses: this.#where.addresses, failures };
  }

  /** Counters for metrics. */
  get counts(): RelayCounts {
    const families = this.#where.addresses.map(familyOf);
    const served = [...this.#served.values()];
    return {
      outcomes: this.#accounts.outcomes,
      families: FAMILIES.filter((family) => families.includes(family)).map((family) => {
        const mine = served.filter(({ address }) => familyOf(address) === family);
        const listeners = mine.filter(({ isListening }) => isListening).length;
        return {
          family,
          listeners,
          connections: connectionsOf(mine),
          failed: this.#accounts.failures.get(family) ?? 0,
        };
      }),
    };
  }

  async #settle(): Promise<void> {
    this.#isUnsettled = false;
    const wanted = new Map<string, RelayPort>();
    for (const port of this.#wanted.values()) {
      const address = this.#where.addresses.find((one) => familyOf(one) === port.family);
      if (address !== undefined) wanted.set(`${address} ${port.port}`, port);
    }
    for (const [at, served] of this.#served) {
      if (wanted.get(at)?.key === served.port.key) continue;
      this.#served.delete(at);
      served.close();
    }
    for (const [at, port] of wanted) {
      const served = this.#served.get(at);
      if (served !== undefined) {
        if (served.port !== port || served.failure !== undefined) await this.#serve(served, port);
        continue;
      }
      const ofAll = () => connectionsOf(this.#served.values());
      const opened = newPort(at.slice(0, at.indexOf(' ')) as Address, port, {
        ...this.#parts,
        accounts: this.#accounts,
        ofAll,
      });
      this.#served.set(at, opened);
      await this.#serve(opened, port);
    }
    this.#cancelRetry();
    if (this.state.failures.size === 0) return;
    this.#isUnsettled = true;
    // A timer, because without a change there is no sync for an hour.
    this.#cancelRetry = this.#parts.clock.after(this.#where.retry, () => void this.#mutex(() => this.#settle()));
  }

  async #serve(served: ServedPort, port: RelayPort): Promise<void> {
    const { failure, address } = served;
    try {
      await served.use(port);
      served.failure = undefined;
      if (failure !== undefined && served.isListening) this.#parts.onRecovery(port, address);
    } catch (error) {
      served.failure = causeOf(error);
      this.#accounts.cannotListen(port);
      if (failure !== served.failure) this.#parts.onFailure(port, address, served.failure);
    }
  }
}

interface RelayPortInput extends Pick<RelayParts, 'sockets' | 'clock' | 'random'> {
  readonly accounts: Accounts;
  /** The number of connections of all ports. */
  readonly ofAll: () => number;
}

function newPort(
  address: Address,
  port: RelayPort,
  { sockets, clock, random, accounts, ofAll }: RelayPortInput,
): ServedPort {
  const served = new ServedPort(address, port, {
    sockets,
    clock,
    random,
    admits: (ofPort) => accounts.admits(served.port, ofPort, ofAll()),
    onEnd: (result, cause) => accounts.ended(served.port, result, cause),
    onAcceptFailure: (cause) => accounts.cannotAccept(served.port, cause),
  });
  return served;
}

function connectionsOf(served: Iterable<ServedPort>): number {
  let sum = 0;
  for (const { connections } of served) sum += connections;
  return sum;
}

interface RelayState {
  readonly addresses: readonly Address[];
  readonly failures: ReadonlyMap<string, string>;
}

export interface RelayCounts {
  readonly outcomes: ReadonlyMap<RelayOutcome, number>;
  /** Counters of the served families. `failed` counts the tries that could not bind a port. */
  readonly families: readonly {
    readonly family: Family;
    readonly listeners: number;
    readonly connections: number;
    readonly failed: number;
  }[];
}

interface ServedPortParts {
  readonly sockets: RelaySockets;
  readonly clock: Clock;
  readonly random: () => number;
  /** Returns whether one more connection is allowed beside the `ofPort` connections of this port. */
  readonly admits: (ofPort: number) => boolean;
  readonly onEnd: (result: Result, cause: string) => void;
  /** Called when the kernel hands over no connection. */
  readonly onAcceptFailure: (cause: string) => void;
}

/** One node port on one loopback address: its listening socket, and its connections. */
class ServedPort {
  readonly address: Address;
  /** The cause why it does not listen though it should. */
  failure: string | undefined;
  readonly #parts: ServedPortParts;
  readonly #choice: Choice;
  readonly #connections = new Set<RelayedConnection>();
  #port: RelayPort;
  #listener: RelayListener | undefined;

  constructor(address: Address, port: RelayPort, parts: ServedPortParts) {
    this.address = address;
    this.#port = port;
    this.#parts = parts;
    this.#choice = new Choice(parts);
  }

  get port(): RelayPort {
    return this.#port;
  }

  get isListening(): boolean {
    return this.#listener !== undefined;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Serve these endpoints from now on. Without endpoints connections are refused. Rejects when the port cannot be bound. */
  async use(port: RelayPort): Promise<void> {
    this.#port = port;
    if (port.endpoints.length === 0) {
      this.failure = undefined;
      this.#stopListening();
    } else if (this.#listener === undefined) {
      const { address } = this;
      this.#listener = await this.#parts.sockets.listen(
        { address, port: port.port },
        (client) => this.#accept(client),
        (error) => this.#parts.onAcceptFailure(error.message),
      );
    }
  }

  /** End the connections to endpoints that are gone. `listed` returns all endpoints that the Service's slices list. */
  abandonLost(listed: () => ReadonlySet<string>): void {
    const { lasting } = this.#port;
    const left = [...this.#connections].filter(({ endpoint }) => endpoint !== undefined && !lasting.includes(endpoint));
    if (left.length === 0) return;
    const known = listed();
    for (const connection of left) if (!known.has(connection.endpoint ?? '')) connection.abandon();
  }

  /** Stop listening, and end all connections. */
  close(): void {
    this.#stopListening();
    for (const connection of [...this.#connections]) connection.abandon();
  }

  #stopListening(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  #accept(client: Socket): void {
    const { admits, sockets, clock, onEnd } = this.#parts;
    if (!admits(this.#connections.size)) {
      client.on('error', () => undefined);
      client.resetAndDestroy();
      return;
    }
    const connection = new RelayedConnection({
      client,
      clock,
      next: (tried) => this.#choice.next(this.#port, tried),
      connect: (to) => sockets.connect(to),
      onEnd: (result, cause) => {
        this.#connections.delete(connection);
        onEnd(result, cause);
      },
    });
    this.#connections.add(connection);
    connection.start();
  }
}

/**
 * Limit of simultaneous connections, for all node ports and for one. A connection takes two descriptors, and some 160 KiB if its client does
 * not read. All together stay below the limits that a node gives its proxy (LimitNOFILE of the unit, memory of the DaemonSet).
 */
export const MAX_CONNECTIONS = 2048;
export const MAX_CONNECTIONS_PER_PORT = 1024;

/** Minimum interval of log lines about the same trouble. */
const LOG_INTERVAL_MS = 60_000;

/** The end of a connection. `limit` means that it was reset at once, because there were too many. */
export type RelayOutcome = Result | 'limit';

interface AccountsParts {
  readonly clock: Pick<Clock, 'now'>;
  /** Receives a sentence for the log, at most once a minute about the same trouble. */
  readonly onTrouble: (sentence: string) => void;
}

/** Counts the relayed connections, limits them, and reports those that were lost. */
class Accounts {
  readonly outcomes = new Map<RelayOutcome, number>();
  /** The tries that could not bind a port. */
  readonly failures = new Map<Family, number>();
  readonly #parts: AccountsParts;
  /** The time of the last log line about each trouble. */
  readonly #lastLogged = new Map<string, number>();

  constructor(parts: AccountsParts) {
    this.#parts = parts;
  }

  /** Returns whether one more connection is allowed beside the `ofPort` connections of the port and the `ofAll` of all ports. */
  admits(port: RelayPort, ofPort: number, ofAll: number): boolean {
    if (ofPort < MAX_CONNECTIONS_PER_PORT && ofAll < MAX_CONNECTIONS) return true;
    const which =
      ofPort < MAX_CONNECTIONS_PER_PORT
        ? `the relay has ${ofAll} connections, which is its limit`
        : `the relay has ${ofPort} connections of this node port, which is the limit for one`;
    this.#count('limit');
    this.#report('limit', `a connection to ${nameOf(port)} is reset: ${which}`);
    return false;
  }

  ended(port: RelayPort, result: Result, cause: string): void {
    this.#count(result);
    if (result === 'unreachable')
      this.#report(result, `a connection to ${nameOf(port)} is reset, because no endpoint takes it: ${cause}`);
    if (result === 'no descriptor')
      this.#report(
        result,
        `a connection to ${nameOf(port)} is reset, because this process has no file descriptor left: ${cause}; raise its limit of open files`,
      );
  }

  cannotListen({ family }: RelayPort): void {
    this.failures.set(family, (this.failures.get(family) ?? 0) + 1);
  }

  cannotAccept(port: RelayPort, cause: string): void {
    this.#report('accept', `connections to ${nameOf(port)} cannot be accepted: ${cause}; clients wait`);
  }

  #count(outcome: RelayOutcome): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
  }

  #report(trouble: string, sentence: string): void {
    const now = this.#parts.clock.now();
    const before = this.#lastLogged.get(trouble);
    if (before !== undefined && now - before < LOG_INTERVAL_MS) return;
    this.#lastLogged.set(trouble, now);
    this.#parts.onTrouble(sentence);
  }
}

function nameOf({ service, port, family }: RelayPort): string {
  return `node port ${port} of Service ${service} on loopback (${family})`;
}
