/**
 * The desired state of one family, kept up to date by changes (docs/ipvs.md). Pure: it holds state, and does no I/O.
 *
 * Goals, and how each is met:
 * 1. The cost follows the change: a ServicePort is rendered when it changed, or when the node's addresses changed and it
 *    depends on them. Objects that it no longer has are released.
 * 2. The result does not depend on the history (invariant 12): an object exists as long as one ServicePort asks for it
 *    (`shared.ts`), and of two values the one counts whose owner sorts first.
 */
import type { Address } from '../../../base/address.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import { Shared } from '../../reconcile/shared.ts';
import { DispatchTree } from '../netfilter/dispatch-tree.ts';
import { addressSpace } from '../netfilter/key-space.ts';
import { type ChainKey, chainKey } from '../netfilter/names.ts';
import type { Chain } from '../netfilter/rules.ts';
import type { HostAddresses } from '../virtual-servers/observe.ts';
import type { DesiredChanges, WantedServer } from '../virtual-servers/state.ts';
import { entryKey, type OwnedAddress, type OwnedEntry, serverKey } from '../virtual-servers/tracked-objects.ts';
import { DETOUR_TREE, type RenderedServers, renderPort } from './render.ts';
import { type IpvsSettings, staticChains } from './static-chains.ts';

const NO_HOST: HostAddresses = { all: new Set(), nodePorts: [] };

/** An object of several Services names them all: it waits for a refused one only where all are refused. */
function ofAll<T extends OwnedAddress | OwnedEntry>(object: T, requests: Iterable<T>): T {
  const owners = new Set<ServiceKey>();
  for (const { owner } of requests) if (owner !== undefined) owners.add(owner);
  if (owners.size < 2) return object;
  const sorted = [...owners].sort();
  return { ...object, owner: sorted[0], owners: sorted };
}

export class IpvsDesired {
  readonly #settings: IpvsSettings;
  readonly #ports = new Map<ServicePortKey, ServicePort>();
  readonly #rendered = new Map<ServicePortKey, RenderedServers>();
  /** ServicePorts whose rendering depends on the node's addresses. */
  readonly #ofHost = new Set<ServicePortKey>();
  readonly #servers = new Shared<string, WantedServer>();
  readonly #addresses = new Shared<Address, OwnedAddress>(ofAll);
  readonly #entries = new Shared<string, OwnedEntry>(ofAll);
  readonly #detours: DispatchTree;
  /** Chains of ServicePorts that changed since the last call; a chain to remove is undefined. */
  #chains = new Map<ChainKey, Chain | undefined>();
  #host = NO_HOST;
  #isFirst = true;

  constructor(settings: IpvsSettings) {
    this.#settings = settings;
    this.#detours = new DispatchTree(addressSpace(settings.family, '-d'), DETOUR_TREE);
  }

  /** Accept changed ServicePorts of this family; a deleted one is undefined. */
  update(ports: Iterable<readonly [ServicePortKey, ServicePort | undefined]>): DesiredChanges {
    for (const [key, port] of ports) {
      this.#remove(key);
      if (port === undefined) this.#ports.delete(key);
      else this.#add(key, port);
    }
    return this.#changes();
  }

  /** Accept the addresses of the node's other devices, which were read. */
  updateHost(host: HostAddresses): DesiredChanges {
    const same = (a: Iterable<Address>, b: Iterable<Address>) => [...a].sort().join() === [...b].sort().join();
    if (same(host.all, this.#host.all) && same(host.nodePorts, this.#host.nodePorts)) return this.#changes();
    this.#host = host;
    for (const key of [...this.#ofHost]) {
      const port = this.#ports.get(key);
      this.#remove(key);
      if (port !== undefined) this.#add(key, port);
    }
    return this.#changes();
  }

  #add(key: ServicePortKey, port: ServicePort): void {
    const rendered = renderPort(port, this.#settings, this.#host);
    this.#ports.set(key, port);
    this.#rendered.set(key, rendered);
    if (port.frontends.some(({ role }) => role !== 'cluster-ip')) this.#ofHost.add(key);
    const owner = port.service;
    for (const { server, destinations, isNodePort } of rendered.servers) {
      const owned = destinations.map((destination) => ({ server, destination, owner }));
      this.#servers.request(serverKey(server), ownerName(key, isNodePort), { server, owner, destinations: owned });
    }
    for (const address of rendered.addresses) this.#addresses.request(address, key, { address, owner });
    for (const { set, entry } of rendered.entries)
      this.#entries.request(entryKey(set, entry), key, { set, entry, owner });
    for (const { key: at, id, rule } of rendered.detours) this.#detours.set(at, id, rule);
    for (const [chain, rules] of rendered.chains) this.#chains.set(chain, rules);
  }

  #remove(key: ServicePortKey): void {
    const before = this.#rendered.get(key);
    if (before === undefined) return;
    this.#rendered.delete(key);
    this.#ofHost.delete(key);
    for (const { server, isNodePort } of before.servers) {
      this.#servers.release(serverKey(server), ownerName(key, isNodePort));
    }
    for (const address of before.addresses) this.#addresses.release(address, key);
    for (const { set, entry } of before.entries) this.#entries.release(entryKey(set, entry), key);
    for (const { key: at, id } of before.detours) this.#detours.delete(at, id);
    for (const chain of before.chains.keys()) this.#chains.set(chain, undefined);
  }

  #changes(): DesiredChanges {
    const chains = this.#chains;
    this.#chains = new Map();
    if (this.#isFirst) for (const [key, chain] of staticChains(this.#settings)) chains.set(key, chain);
    this.#isFirst = false;
    for (const [name, rules] of this.#detours.render()) chains.set(chainKey(DETOUR_TREE.table, name), rules);
    return {
      servers: this.#servers.takeChanges(),
      addresses: this.#addresses.takeChanges(),
      entries: this.#entries.takeChanges(),
      chains,
    };
  }
}

/** The owner names make a server of a Service's own address win over a node port on the same address and port. */
function ownerName(key: ServicePortKey, isNodePort: boolean): string {
  return `${isNodePort ? 'node-port' : 'address'} ${key}`;
}
