/** The destinations of each virtual server in the kernel, and the servers on each address, by their keys (`objects.ts`). */
import type { Address } from '../../../base/address.ts';
import { type OwnedDestination, type OwnedServer, serverKey } from './objects.ts';

export class ServerIndex {
  readonly #destinations = new Map<string, Set<string>>();
  readonly #servers = new Map<Address, Set<string>>();

  /** Replace the index by what was read. */
  rebuild(servers: ReadonlyMap<string, OwnedServer>, destinations: ReadonlyMap<string, OwnedDestination>): void {
    this.#destinations.clear();
    this.#servers.clear();
    for (const [key, { server }] of servers) this.addServer(key, server.address);
    for (const [key, { server }] of destinations) this.addDestination(serverKey(server), key);
  }

  destinationsOf(server: string): Iterable<string> {
    return this.#destinations.get(server) ?? [];
  }

  serversAt(address: Address): Iterable<string> {
    return this.#servers.get(address) ?? [];
  }

  addServer(server: string, address: Address): void {
    this.#servers.set(address, (this.#servers.get(address) ?? new Set()).add(server));
  }

  addDestination(server: string, destination: string): void {
    this.#destinations.set(server, (this.#destinations.get(server) ?? new Set()).add(destination));
  }

  /** Remove a server with all its destinations. */
  removeServer(server: string, address: Address): void {
    this.#destinations.delete(server);
    const at = this.#servers.get(address);
    at?.delete(server);
    if (at?.size === 0) this.#servers.delete(address);
  }

  removeDestination(server: string, destination: string): void {
    this.#destinations.get(server)?.delete(destination);
  }
}
