/**
 * Keeps a Service of a manifest from the ports that programs serve on this node: sshd, the kubelet, the API server. An API server
 * cannot know these programs either, but its administrator can forbid spec.externalIPs (CVE-2020-8554, KEP-5707), and a folder has no
 * such review. Pure: addresses and ports of this machine come through `NodeReader`.
 *
 * A frontend that was free when it was judged stays, even if a program listens there later. Otherwise any program of any user could
 * end a Service by opening a port.
 */

import { type Address, familyOf } from '../../../base/address.ts';
import type { ListeningSocket } from '../../../kernel/listeners.ts';
import type { SourceEvent } from '../../../proxy/model/events.ts';
import { compact, type Service, type ServiceKey } from '../../../proxy/model/objects.ts';
import { FaultList } from '../../api/decode/checks.ts';

export interface NodeReader {
  /** Addresses of the interfaces, without those that a service proxy added. */
  addresses(): Promise<readonly Address[]>;
  listeners(): Promise<readonly ListeningSocket[]>;
}

type ServiceEvent = Extract<SourceEvent, { kind: 'service' }>;

export class NodeGuard {
  /** Services as their manifests have them; a removed one until the next judgement. */
  readonly #held = new Map<ServiceKey, ServiceEvent>();
  readonly #waiting = new Set<ServiceKey>();
  /** Services with a frontend on an address of this node. */
  readonly #onNode = new Set<ServiceKey>();
  /** Frontends of each Service that were free. */
  readonly #accepted = new Map<ServiceKey, ReadonlySet<string>>();
  /** The refused frontends of each Service in its last event. */
  readonly #refused = new Map<ServiceKey, string>();
  #interfaces: readonly Address[] = [];
  #ofNode: readonly Address[] = [];
  #own: ReadonlySet<Address> = new Set();

  /** Adds a Service as its manifest has it now; the next judgement returns its event. */
  add(event: ServiceEvent): void {
    this.#held.set(event.key, event);
    this.#waiting.add(event.key);
  }

  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  setInterfaces(addresses: readonly Address[]): void {
    this.#interfaces = addresses;
    this.#setOwn();
  }

  /** Addresses in this node's Node object. */
  setNode(addresses: readonly Address[]): void {
    this.#ofNode = addresses;
    this.#setOwn();
  }

  /** Whether a Service has a frontend on an address of this node, so that ports in use must be known. */
  get needsListeners(): boolean {
    return this.#onNode.size > 0 || [...this.#waiting].some((key) => this.#isOnNode(key));
  }

  /** The events of waiting Services, and of Services whose refused frontends changed. */
  judge(listeners: readonly ListeningSocket[]): ServiceEvent[] {
    const events: ServiceEvent[] = [];
    for (const key of new Set([...this.#waiting, ...this.#onNode])) {
      const event = this.#judged(key, listeners);
      if (event !== undefined) events.push(event);
    }
    this.#waiting.clear();
    return events;
  }

  #setOwn(): void {
    const own = new Set([...this.#interfaces, ...this.#ofNode]);
    if (own.size === this.#own.size && [...own].every((address) => this.#own.has(address))) return;
    this.#own = own;
    for (const key of this.#held.keys()) if (this.#isOnNode(key)) this.#onNode.add(key);
  }

  #isOnNode(key: ServiceKey): boolean {
    const service = this.#held.get(key)?.service;
    return service !== undefined && addressesOf(service).some((address) => this.#own.has(address));
  }

  /** The event of a Service; undefined when its refused frontends are the same as before. */
  #judged(key: ServiceKey, listeners: readonly ListeningSocket[]): ServiceEvent | undefined {
    const event = this.#held.get(key);
    if (event === undefined) return undefined;
    const { service } = event;
    if (service === undefined) {
      for (const book of [this.#held, this.#onNode, this.#accepted, this.#refused]) book.delete(key);
      return event;
    }
    const isNew = this.#waiting.has(key);
    if (this.#isOnNode(key)) this.#onNode.add(key);
    else this.#onNode.delete(key);
    const refused = this.#refusedOf(service, listeners);
    const signature = [...refused.entries()].join(' ');
    if (!isNew && signature === (this.#refused.get(key) ?? '')) return undefined;
    this.#refused.set(key, signature);
    return refused.size === 0 ? event : without(event, service, refused);
  }

  /** Addresses of this node with a port in use. Frontends that are or were free are accepted. */
  #refusedOf(service: Service, listeners: readonly ListeningSocket[]): ReadonlyMap<Address, string> {
    const before = this.#accepted.get(service.key) ?? new Set();
    const accepted = new Set<string>();
    const refused = new Map<Address, string>();
    for (const address of addressesOf(service).filter((one) => this.#own.has(one))) {
      for (const { protocol, port } of service.ports) {
        const frontend = `${address} ${protocol} ${port}`;
        const isFree =
          before.has(frontend) || !listeners.some((one) => one.protocol === protocol && listensOn(one, address, port));
        if (isFree) accepted.add(frontend);
        else if (!refused.has(address)) refused.set(address, `${protocol} port ${port}`);
      }
    }
    if (accepted.size > 0) this.#accepted.set(service.key, accepted);
    else this.#accepted.delete(service.key);
    return refused;
  }
}

function addressesOf({ clusterIPs, externalIPs, loadBalancerIPs }: Service): readonly Address[] {
  return [...clusterIPs, ...externalIPs, ...loadBalancerIPs];
}

/** A socket of :: accepts IPv4 as well, unless IPV6_V6ONLY is set (ipv6(7)), which other programs cannot see. */
function listensOn(listener: ListeningSocket, address: Address, port: number): boolean {
  if (listener.port !== port) return false;
  if (listener.address === '::') return true;
  return listener.address === address || (listener.address === '0.0.0.0' && familyOf(address) === 'IPv4');
}

/** The Service without its refused addresses; undefined when its cluster IP is refused. */
function without(event: ServiceEvent, service: Service, refused: ReadonlyMap<Address, string>): ServiceEvent {
  const uid = service.uid === undefined ? {} : { uid: service.uid };
  const faults = new FaultList('Service', service.key, { metadata: uid });
  const left = (addresses: readonly Address[], field: string) => {
    for (const address of addresses) {
      const port = refused.get(address);
      if (port === undefined) continue;
      const problem = `is an address of this node, where ${port} is in use; choose another address or port, or allow it with --allow-node-address-ports`;
      if (field === 'spec.clusterIPs') faults.setAside(field, address, problem);
      else faults.leaveOut(field, address, problem);
    }
    return compact(addresses.filter((address) => !refused.has(address)));
  };
  const clusterIPs = left(service.clusterIPs, 'spec.clusterIPs');
  const rest = {
    externalIPs: left(service.externalIPs, 'spec.externalIPs'),
    loadBalancerIPs: left(service.loadBalancerIPs, 'status.loadBalancer.ingress'),
  };
  const isAside = clusterIPs.length < service.clusterIPs.length;
  return {
    ...event,
    service: isAside ? undefined : { ...service, ...rest },
    faults: [...event.faults, ...faults.list],
  };
}
