/**
 * Limits on the clients of a process's HTTP servers. Every program that reaches a port may connect, even a pod without any right. So each
 * remote address has a share of each port, and all addresses together leave places for those that the node depends on: its own programs (the
 * kubelet's probes among them) and the addresses that the owner of the servers trusts.
 *
 * Where there is no place left, the oldest idle connection makes room. That costs its client a new connection, and nothing else.
 */

import { isLoopback, socketAddress } from '../base/address.ts';
import type { Clock } from '../base/clock.ts';
import { Rounds } from '../base/portions.ts';
import { TokenBucket } from '../base/token-bucket.ts';

/** Connections that one remote address may have to each port: `--max-connections-per-client`. */
export const CONNECTIONS_PER_CLIENT = 16;
/** As many times that number to all ports of the process: a load balancer probes many ports from one address. */
const PORTS_PER_CLIENT = 8;
/** Connections of a trusted address to each port, where the process has no other number. */
export const CONNECTIONS_PER_TRUSTED_CLIENT = 64;
/** Connections to all ports of a process, and the part of them that is reserved for trusted addresses and the node's own programs. */
export const MAX_CONNECTIONS = 1024;
export const RESERVED_CONNECTIONS = 256;
/** Requests that an address may make on a port at once, and milliseconds until it may make one more. Requests beyond that wait. */
export const REQUEST_RATE = { burst: 32, refill: 50 };
/**
 * The same for a trusted address, as long as it has more than CONNECTIONS_PER_CLIENT connections to the port, and not for the first request of
 * a connection: the kubelet's probe, which has the address of each program in the node's network, does not wait behind theirs.
 */
const TRUSTED_REQUEST_RATE = { burst: 32, refill: 5 };
/** Bytes of answers that wait to be sent to one address. Beyond it, its next request waits. */
export const MAX_UNSENT_PER_CLIENT = 1024 * 1024;
/** Milliseconds for which an idle connection keeps its place: its client may be about to send a request. The second is for trusted clients. */
const IDLE_GRACE_MS = 1000;
const TRUSTED_IDLE_GRACE_MS = 50;
/** Milliseconds for which such a request waits at a time. */
const UNSENT_PAUSE_MS = 100;
/** Bytes of answers that wait for all clients. Beyond it, the connection that has read nothing for the longest time ends. */
export const MAX_UNSENT = 16 * 1024 * 1024;
/** Shares without a connection that are kept, because their rate of requests still counts. */
const MAX_RESTING_SHARES = 1024;
/** Addresses that the counter names. All others are counted together. */
export const MAX_NAMED_CLIENTS = 64;
/** Milliseconds between two lines of the log about the same address. */
const LOG_PAUSE_MS = 600_000;

/** Both ends of a connection. */
export interface Ends {
  /** Addresses, as Node.js writes them. */
  readonly remote: string;
  readonly local: string;
  /** Of the local end. */
  readonly port: number;
}

/** A connection, as the limits see it. */
export interface Client extends Ends {
  /** The time since which no request of it is being answered, on the clock of the limits; undefined while one is. */
  readonly idleSince: number | undefined;
  /** Whether no request of it was answered yet. */
  readonly isNew: boolean;
  /** Bytes of its answers that the kernel has not taken, and the time since which it has taken none, on the clock of the limits. */
  readonly unsent: number;
  readonly stalledSince: number;
  /** Ends the connection now. */
  cut(): void;
}

/** Its share was used up; all places were; it sent requests before the answer to the first; it did not read its answers. */
export type TurnedAway = 'share' | 'places' | 'pipelining' | 'unread';

export interface TurnedAwayCount {
  /** `others` beyond the first MAX_NAMED_CLIENTS. */
  readonly address: string;
  readonly reason: TurnedAway;
  readonly count: number;
}

export interface ClientsOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** --max-connections-per-client, read for each connection. */
  readonly perClient?: () => number;
  /** Connections of a trusted address to each port; default: CONNECTIONS_PER_TRUSTED_CLIENT. */
  readonly perTrustedClient?: number;
  /** Whether the process depends on the clients at this address. Called for each connection. */
  readonly isTrusted?: (address: string) => boolean;
  /** Connections in all; default: MAX_CONNECTIONS, of which RESERVED_CONNECTIONS are reserved. */
  readonly max?: number;
  readonly reserved?: number;
  /** Called at most once in ten minutes for an address, with a sentence for the log. */
  readonly onTurnedAway?: (address: string, sentence: string) => void;
}

/** One remote address on one port. */
interface Share {
  readonly address: string;
  isTrusted: boolean;
  readonly clients: Set<Client>;
  /** The clients that wait for the rate of requests, in the order in which they will be served. */
  readonly waiting: Set<Client>;
  requests: TokenBucket;
}

export class Clients {
  /** Shares the event loop among the requests of all ports. */
  readonly rounds = new Rounds();
  readonly #options: ClientsOptions;
  readonly #max: number;
  readonly #reserved: number;
  readonly #shares = new Map<string, Share>();
  readonly #byClient = new Map<Client, Share>();
  /** The connections of each address on all ports, the oldest first. */
  readonly #byAddress = new Map<string, Set<Client>>();
  #trusted = 0;
  /** By address and reason. */
  readonly #turnedAway = new Map<string, Map<TurnedAway, number>>();
  readonly #loggedAt = new Map<string, number>();

  constructor(options: ClientsOptions) {
    this.#options = options;
    this.#max = options.max ?? MAX_CONNECTIONS;
    this.#reserved = options.reserved ?? RESERVED_CONNECTIONS;
  }

  /** Connections at present. */
  get count(): number {
    return this.#byClient.size;
  }

  /** Counts by address, of which the first MAX_NAMED_CLIENTS have names, and by reason. */
  get turnedAway(): TurnedAwayCount[] {
    return [...this.#turnedAway].flatMap(([address, reasons]) =>
      [...reasons].map(([reason, count]) => ({ address, reason, count })),
    );
  }

  /** Whether there is a place for one more connection. An idle connection may lose its place for it. It costs little, because it refuses floods. */
  hasPlace(ends: Ends): boolean {
    const share = this.#shareOf(ends);
    return this.#hasRoom(share, ends) && this.#hasPlace(share, ends);
  }

  /** Takes the place that `hasPlace` found. `release` gives it back. */
  add(client: Client): void {
    const share = this.#shareOf(client);
    this.#shares.set(keyOf(share.address, client.port), share);
    share.clients.add(client);
    this.#byClient.set(client, share);
    if (share.isTrusted) this.#trusted += 1;
    this.#byAddress.set(share.address, (this.#byAddress.get(share.address) ?? new Set()).add(client));
  }

  release(client: Client): void {
    const share = this.#byClient.get(client);
    if (share === undefined) return;
    this.#byClient.delete(client);
    share.clients.delete(client);
    share.waiting.delete(client);
    if (share.isTrusted) this.#trusted -= 1;
    const others = this.#byAddress.get(share.address);
    others?.delete(client);
    if (others?.size === 0) this.#byAddress.delete(share.address);
    if (share.clients.size === 0) this.#forgetShares();
  }

  /** Milliseconds until the client's next request may be read; 0: now, and the request is counted. */
  delay(client: Client): number {
    const share = this.#byClient.get(client);
    if (share === undefined) return 0;
    if (share.isTrusted && (client.isNew || share.clients.size <= CONNECTIONS_PER_CLIENT)) return 0;
    // A trusted address may have thousands of connections, and reads its answers.
    if (!share.isTrusted && unsentOf(share) > MAX_UNSENT_PER_CLIENT) return UNSENT_PAUSE_MS;
    const now = this.#options.clock.now();
    share.waiting.delete(client);
    if (share.requests.take(now)) return 0;
    // Each waits for the clients before it, so that this is not called for it again before its turn.
    const { refill } = share.isTrusted ? TRUSTED_REQUEST_RATE : REQUEST_RATE;
    const wait = share.requests.untilNext(now) + share.waiting.size * refill;
    share.waiting.add(client);
    return Math.max(1, Math.ceil(wait));
  }

  /** Must be called when an answer was handed to a client, which may not read it. Ends connections that stall, where too much waits. */
  answered(client: Client): void {
    if (client.unsent === 0) return;
    for (;;) {
      let all = 0;
      let stalled: Client | undefined;
      for (const one of this.#byClient.keys()) {
        if (one.unsent === 0) continue;
        all += one.unsent;
        if (stalled === undefined || one.stalledSince < stalled.stalledSince) stalled = one;
      }
      // One answer alone may exceed the limit: a profile is large.
      if (all <= MAX_UNSENT || stalled === undefined || stalled.unsent === all) return;
      this.turnAway(stalled, 'unread');
    }
  }

  /** Counts the client as turned away, and ends its connection. */
  turnAway(client: Client, reason: TurnedAway): void {
    this.#count(client, reason);
    this.release(client);
    client.cut();
  }

  /** Whether the address has room on the port and in all; one of its own connections may make the room. */
  #hasRoom(share: Share, ends: Ends): boolean {
    const limit = this.#limitOf(share);
    const onAllPorts = this.#byAddress.get(share.address) ?? new Set<Client>();
    const isFull = share.clients.size >= limit;
    if (!isFull && onAllPorts.size < limit * PORTS_PER_CLIENT) return true;
    const own = isFull ? share.clients : onAllPorts;
    let victim = this.#longIdle(own, share.isTrusted);
    // A program of the node that floods a port has the address of the kubelet: for a moment both have places.
    if (victim === undefined && share.isTrusted && isFull && share.clients.size < 2 * limit) return true;
    this.#count(ends, 'share');
    if (share.isTrusted) victim ??= own.values().find(isIdle);
    if (victim === undefined) return false;
    this.release(victim);
    victim.cut();
    return true;
  }

  /** Whether the process has a place; the oldest idle connection that is trusted no more than this one may make it. */
  #hasPlace({ isTrusted }: Share, ends: Ends): boolean {
    const strangers = this.#byClient.size - this.#trusted;
    const isFull = isTrusted ? this.#byClient.size >= this.#max : strangers >= this.#max - this.#reserved;
    if (!isFull) return true;
    const victim = this.#longIdle(this.#rivals(isTrusted), isTrusted) ?? this.#ofGreediest(ends, isTrusted);
    if (victim === undefined) this.#count(ends, 'places');
    else this.turnAway(victim, 'places');
    return victim !== undefined;
  }

  /** The connections that may make room for one that is trusted or not, the oldest first. */
  *#rivals(isTrusted: boolean): Iterable<Client> {
    for (const [client, share] of this.#byClient) if (isTrusted || !share.isTrusted) yield client;
  }

  /**
   * A connection of the address with the most connections, where it has clearly more than this client: the oldest idle one, or else the
   * oldest.
   */
  #ofGreediest({ remote }: Ends, isTrusted: boolean): Client | undefined {
    let greediest: ReadonlySet<Client> = this.#byAddress.get(addressOf(remote)) ?? new Set();
    const own = greediest.size;
    for (const clients of this.#byAddress.values()) {
      const [first] = clients;
      const isRival = isTrusted || (first !== undefined && this.#byClient.get(first)?.isTrusted !== true);
      if (isRival && clients.size > greediest.size) greediest = clients;
    }
    if (greediest.size < own + 2) return undefined;
    const [oldest] = greediest;
    return greediest.values().find(isIdle) ?? oldest;
  }

  /** The first such connection is the oldest one: sets and maps keep the order in which connections came. */
  #longIdle(clients: Iterable<Client>, isTrusted: boolean): Client | undefined {
    const latest = this.#options.clock.now() - (isTrusted ? TRUSTED_IDLE_GRACE_MS : IDLE_GRACE_MS);
    for (const client of clients) if (client.idleSince !== undefined && client.idleSince <= latest) return client;
    return undefined;
  }

  /** The share that is kept from an earlier connection, or a new one: `add` keeps it. */
  #shareOf(ends: Ends): Share {
    const address = addressOf(ends.remote);
    const share = this.#shares.get(keyOf(address, ends.port)) ?? {
      ...{ address, isTrusted: false, clients: new Set(), waiting: new Set(), requests: this.#requests(false) },
    };
    // The answer may differ from that at an earlier connection, but all that are open count alike.
    const isTrusted = isOfThisNode(ends) || this.#options.isTrusted?.(address) === true;
    if (share.clients.size === 0 && share.isTrusted !== isTrusted) {
      share.isTrusted = isTrusted;
      share.requests = this.#requests(isTrusted);
    }
    return share;
  }

  #requests(isTrusted: boolean): TokenBucket {
    return new TokenBucket(isTrusted ? TRUSTED_REQUEST_RATE : REQUEST_RATE, this.#options.clock.now());
  }

  #limitOf(share: Share | undefined): number {
    const { perClient, perTrustedClient = CONNECTIONS_PER_TRUSTED_CLIENT } = this.#options;
    return share?.isTrusted === true ? perTrustedClient : (perClient?.() ?? CONNECTIONS_PER_CLIENT);
  }

  /** Drops shares without a connection, the oldest first. The newest stay: an address that connects anew must not get its requests back at once. */
  #forgetShares(): void {
    if (this.#shares.size < this.#byClient.size + MAX_RESTING_SHARES) return;
    for (const [key, { clients }] of this.#shares) {
      if (clients.size > 0) continue;
      this.#shares.delete(key);
      if (this.#shares.size < this.#byClient.size + MAX_RESTING_SHARES / 2) return;
    }
  }

  #count({ remote, port }: Ends, reason: TurnedAway): void {
    const given = addressOf(remote);
    const isNamed = this.#turnedAway.has(given) || this.#turnedAway.size < MAX_NAMED_CLIENTS;
    const address = isNamed ? given : 'others';
    const reasons = this.#turnedAway.get(address) ?? new Map<TurnedAway, number>();
    this.#turnedAway.set(address, reasons);
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    const { clock, onTurnedAway } = this.#options;
    const now = clock.now();
    if (onTurnedAway === undefined || now - (this.#loggedAt.get(address) ?? Number.NEGATIVE_INFINITY) < LOG_PAUSE_MS)
      return;
    this.#loggedAt.set(address, now);
    onTurnedAway(given, this.#sentence(given, port, reason));
  }

  #sentence(address: string, port: number, reason: TurnedAway): string {
    const flag = '--max-connections-per-client';
    switch (reason) {
      case 'share': {
        const limit = this.#limitOf(this.#shares.get(keyOf(address, port)));
        return `${address} uses up its share of port ${port}, or of all ports: at most ${limit} connections to one (${flag}), and ${PORTS_PER_CLIENT} times as many to all. Each new one ends the oldest that is idle, or is refused`;
      }
      case 'places':
        return `all ${this.#max - this.#reserved} connections that addresses without a reserved place may have are taken: idle ones end for new ones, one of ${address} to port ${port} among them`;
      case 'pipelining':
        return `${address} sent more to port ${port} than a client may before the answer to its request: its connection is closed`;
      case 'unread':
        return `${address} does not read the answers of port ${port}: its connection is closed`;
    }
  }
}

function isIdle({ idleSince }: Client): boolean {
  return idleSince !== undefined;
}

function unsentOf({ clients }: Share): number {
  let unsent = 0;
  for (const client of clients) unsent += client.unsent;
  return unsent;
}

/** The address that a client counts as: a program of the node has all of 127.0.0.0/8, and one share. */
function addressOf(remote: string): string {
  const address = socketAddress(remote) ?? remote;
  return address.startsWith('127.') ? '127.0.0.1' : address;
}

function keyOf(address: string, port: number): string {
  return `${address} ${port}`;
}

/**
 * A program in the node's own network namespace: it connects from the address that it connects to, or by loopback. No other machine can:
 * the kernel answers such a source within the node, so that a connection from outside is never complete.
 */
function isOfThisNode({ remote, local }: Ends): boolean {
  if (remote === local) return true;
  const address = socketAddress(remote);
  return address !== undefined && isLoopback(address);
}
