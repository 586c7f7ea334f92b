/** One HTTP server for each healthCheckNodePort and address (docs/semantics.md 9.5): it answers load balancers whether this node has endpoints of the Service. */
import { type Address, FAMILIES, type Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import { sameData } from '../model/equal.ts';
import { createMutex } from '../model/mutex.ts';
import type { ServiceKey } from '../model/objects.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import { type Answer, jsonAnswer, type OpenedServer, type OpenServer } from './http.ts';

export interface ServiceHealthParts {
  readonly open: OpenServer;
  /** Whether the agent itself is healthy. */
  readonly isHealthy: () => boolean;
  /** The addresses to listen on: the unspecified one, or those of this node that take node ports. */
  readonly addresses: (family: Family) => Promise<readonly Address[]>;
  /** A port could not be bound; the next sync tries again. */
  readonly onFailure: (service: ServiceKey, port: number, cause: string) => void;
}

/** A Service with a health check port, in one family. */
interface Checked {
  readonly service: ServiceKey;
  readonly family: Family;
  readonly port: number;
  /** Addresses of its ready endpoints on this node, by ServicePort. */
  readonly ready: Map<ServicePortKey, readonly Address[]>;
}

interface Opened {
  readonly service: ServiceKey;
  readonly server: OpenedServer;
}

export class ServiceHealth {
  readonly #parts: ServiceHealthParts;
  /** By `service family`. */
  readonly #checked = new Map<string, Checked>();
  readonly #keys = new Map<ServicePortKey, string>();
  readonly #doubted = new Set<ServicePortKey>();
  /** By `address port`. */
  readonly #servers = new Map<string, Opened>();
  readonly #mutex = createMutex();
  /** The addresses of the last sync. */
  #addresses: ReadonlyMap<Family, readonly Address[]> = new Map();
  /** Servers must be opened or closed, or could not be opened. */
  #isUnsettled = false;
  /** A sync that ends later opens no server again: it would keep the process from ending. */
  #isClosed = false;

  constructor(parts: ServiceHealthParts) {
    this.#parts = parts;
  }

  /** The next generation reports all ServicePorts again: those missing at the next `sync` are gone. Until then all servers go on. */
  renew(): void {
    for (const key of this.#keys.keys()) this.#doubted.add(key);
  }

  /** Take in changes of the model. */
  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    if (this.#isClosed) return;
    for (const [key, port] of changes) {
      this.#doubted.delete(key);
      this.#forget(key);
      if (port === undefined || port.healthCheckNodePort === 0) continue;
      const { service, family, healthCheckNodePort, readyLocal } = port;
      const name = `${service} ${family}`;
      let checked = this.#checked.get(name);
      if (checked === undefined || checked.port !== healthCheckNodePort) {
        checked = { service, family, port: healthCheckNodePort, ready: checked?.ready ?? new Map() };
        this.#checked.set(name, checked);
      }
      checked.ready.set(key, readyLocal);
      this.#keys.set(key, name);
      this.#isUnsettled = true;
    }
  }

  /** Open and close servers as the Services ask now. Call it after rules were written, so that load balancers send no traffic too early. */
  async sync(): Promise<void> {
    for (const key of this.#doubted) this.#forget(key);
    this.#doubted.clear();
    await this.#mutex(() => this.#sync());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#checked.clear();
    this.#keys.clear();
    this.#isUnsettled = true;
    await this.sync();
  }

  /** The number of distinct addresses of ready endpoints on this node. */
  localEndpoints(service: ServiceKey, family: Family): number {
    const { ready } = this.#checked.get(`${service} ${family}`) ?? {};
    return new Set([...(ready?.values() ?? [])].flat()).size;
  }

  #forget(key: ServicePortKey): void {
    const name = this.#keys.get(key);
    if (name === undefined) return;
    this.#keys.delete(key);
    this.#isUnsettled = true;
    const checked = this.#checked.get(name);
    checked?.ready.delete(key);
    if (checked?.ready.size === 0) this.#checked.delete(name);
  }

  async #sync(): Promise<void> {
    const addresses = await this.#whereToListen();
    if (!this.#isUnsettled && sameData([...addresses], [...this.#addresses])) return;
    this.#addresses = addresses;
    this.#isUnsettled = false;
    const wanted = new Map<string, { checked: Checked; address: Address }>();
    for (const checked of this.#checked.values()) {
      for (const address of addresses.get(checked.family) ?? []) {
        wanted.set(`${address} ${checked.port}`, { checked, address });
      }
    }
    for (const [key, { server, service }] of this.#servers) {
      if (wanted.get(key)?.checked.service === service) continue;
      this.#servers.delete(key);
      await server.close();
    }
    for (const [key, { checked, address }] of wanted) {
      if (!this.#servers.has(key)) await this.#open(key, checked, address);
    }
  }

  /** Read once for each family, not for each Service: it may list the node's addresses. */
  async #whereToListen(): Promise<ReadonlyMap<Family, readonly Address[]>> {
    const found = new Map<Family, readonly Address[]>();
    if (this.#checked.size === 0) return found;
    for (const family of FAMILIES) found.set(family, await this.#parts.addresses(family));
    return found;
  }

  async #open(key: string, { service, family, port }: Checked, address: Address): Promise<void> {
    try {
      const server = await this.#parts.open({ address, port, isOneFamily: true }, () => this.#answer(service, family));
      this.#servers.set(key, { service, server });
    } catch (error) {
      this.#isUnsettled = true;
      this.#parts.onFailure(service, port, causeOf(error));
    }
  }

  /** As kube-proxy's, the body is indented with tabs, and has no newline at its end. */
  #answer(key: ServiceKey, family: Family): Answer {
    const localEndpoints = this.localEndpoints(key, family);
    const serviceProxyHealthy = this.#parts.isHealthy();
    const [namespace, name] = key.split('/');
    const body = JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy }, undefined, '\t');
    const status = localEndpoints > 0 && serviceProxyHealthy ? 200 : 503;
    return jsonAnswer(status, body, { 'x-load-balancing-endpoint-weight': String(localEndpoints) });
  }
}
