/**
 * One HTTP server for each healthCheckNodePort and address (docs/semantics.md 9.5) says to load balancers whether this node has endpoints
 * of the Service. An endpoint counts once its rules are written, and no longer than it is ready, so that load balancers come after the rules
 * and leave before them.
 */
import { type Address, FAMILIES, type Family } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import type { Clock } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import { createMutex } from '../base/mutex.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';
import { type Answer, jsonAnswer, type OpenedServer, type OpenServer, PORT_RETRY_MS } from './http.ts';

interface ServiceHealthParts {
  readonly open: OpenServer;
  /** Whether the agent itself is healthy. */
  readonly isHealthy: () => boolean;
  /** The addresses to listen on: the unspecified one, or those of this node that take node ports. */
  readonly addresses: (family: Family) => Promise<readonly Address[]>;
  readonly slices: ListedEndpoints;
  readonly clock: Pick<Clock, 'after'>;
  /** Called when a port could not be bound. It is tried again at each sync, and by a timer. */
  readonly onFailure: (service: ServiceKey, port: number, cause: string, address: Address) => void;
  /** Called when such a port is bound, or not wanted any more. */
  readonly onEnd?: (service: ServiceKey, port: number, address: Address, isBound: boolean) => void;
}

/** The endpoints in the slices now. A sync that runs or waits has not yet seen all of their changes. */
export interface ListedEndpoints {
  /** A value that stays `===` as long as no slice of the Service changes. After `slicesReplaced` it may belong to other slices. */
  versionOf(service: ServiceKey): unknown;
  /** The addresses of the Service's ready endpoints on this node. */
  readyOf(service: ServiceKey, family: Family): ReadonlySet<Address>;
}

/** Whether a sync wrote everything that the ServicePorts of this Service need in this family. */
export type IsWritten = (service: ServiceKey, family: Family) => boolean;

/** The addresses of a ServicePort's ready endpoints on this node. */
interface LocalEndpoints {
  readonly desired: readonly Address[];
  /** The part of `desired` that is known to be in the kernel's rules. */
  readonly written: readonly Address[];
}

/** A Service with a health check port, in one family. */
interface Checked {
  readonly service: ServiceKey;
  readonly family: Family;
  readonly port: number;
  readonly endpoints: Map<ServicePortKey, LocalEndpoints>;
  /** The last answer of the slices. */
  listed: { readonly version: unknown; readonly ready: ReadonlySet<Address> } | undefined;
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
  /** ServicePorts that changed and are not known to be written. */
  readonly #unwritten = new Set<ServicePortKey>();
  /** By `address port`. */
  readonly #servers = new Map<string, Opened>();
  /** Ports that could not be bound, by `address port`. */
  readonly #unbound = new Map<string, { readonly checked: Checked; readonly address: Address }>();
  readonly #mutex = createMutex();
  /** The addresses of the last sync. */
  #addresses: ReadonlyMap<Family, readonly Address[]> = new Map();
  /** Whether servers must be opened or closed, or could not be opened. */
  #isUnsettled = false;
  #cancelRetry: () => void = () => undefined;
  /** After `close` a sync must open no server, which would keep the process from ending. */
  #isClosed = false;

  constructor(parts: ServiceHealthParts) {
    this.#parts = parts;
  }

  /** The slices come from another cache from now on, whose versions have nothing to do with those before. */
  slicesReplaced(): void {
    for (const checked of this.#checked.values()) checked.listed = undefined;
  }

  /** Takes in changes of the model before they are written. An endpoint that goes and comes back counts as new. */
  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    if (this.#isClosed) return;
    for (const [key, port] of changes) {
      const written = this.#checkedOf(key)?.endpoints.get(key)?.written ?? [];
      this.#forget(key);
      if (port === undefined || port.healthCheckNodePort === 0) continue;
      const { service, family, healthCheckNodePort, readyLocal } = port;
      const name = `${service} ${family}`;
      let checked = this.#checked.get(name);
      if (checked === undefined || checked.port !== healthCheckNodePort) {
        const endpoints = checked?.endpoints ?? new Map<ServicePortKey, LocalEndpoints>();
        checked = { service, family, port: healthCheckNodePort, endpoints, listed: undefined };
        this.#checked.set(name, checked);
      }
      checked.endpoints.set(key, { desired: readyLocal, written: written.filter((one) => readyLocal.includes(one)) });
      this.#keys.set(key, name);
      this.#unwritten.add(key);
      this.#isUnsettled = true;
    }
  }

  /** Must be called after a sync wrote rules. Counts the endpoints in them, and opens and closes servers as the Services need them now. */
  async sync(isWritten: IsWritten): Promise<void> {
    for (const key of this.#unwritten) this.#count(key, isWritten);
    await this.#mutex(() => this.#sync());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#checked.clear();
    this.#keys.clear();
    this.#unwritten.clear();
    this.#isUnsettled = true;
    await this.#mutex(() => this.#sync());
  }

  /** The number of distinct addresses of endpoints on this node that are both ready now and known to be written. */
  localEndpoints(service: ServiceKey, family: Family): number {
    const checked = this.#checked.get(`${service} ${family}`);
    if (checked === undefined) return 0;
    const ready = this.#readyNow(checked);
    const written = [...checked.endpoints.values()].flatMap((endpoints) => endpoints.written);
    return new Set(written).intersection(ready).size;
  }

  #readyNow(checked: Checked): ReadonlySet<Address> {
    const { slices } = this.#parts;
    const { service, family } = checked;
    const version = slices.versionOf(service);
    if (checked.listed !== undefined && checked.listed.version === version) return checked.listed.ready;
    const ready = slices.readyOf(service, family);
    checked.listed = { version, ready };
    return ready;
  }

  #count(key: ServicePortKey, isWritten: IsWritten): void {
    const checked = this.#checkedOf(key);
    const endpoints = checked?.endpoints.get(key);
    if (checked === undefined || endpoints === undefined || !isWritten(checked.service, checked.family)) return;
    checked.endpoints.set(key, { ...endpoints, written: endpoints.desired });
    this.#unwritten.delete(key);
  }

  #checkedOf(key: ServicePortKey): Checked | undefined {
    const name = this.#keys.get(key);
    return name === undefined ? undefined : this.#checked.get(name);
  }

  #forget(key: ServicePortKey): void {
    const name = this.#keys.get(key);
    if (name === undefined) return;
    this.#keys.delete(key);
    this.#unwritten.delete(key);
    this.#isUnsettled = true;
    const checked = this.#checked.get(name);
    checked?.endpoints.delete(key);
    if (checked?.endpoints.size === 0) this.#checked.delete(name);
  }

  async #sync(): Promise<void> {
    this.#cancelRetry();
    try {
      await this.#serve();
    } catch (error) {
      this.#retryLater();
      throw error;
    }
    if (this.#unbound.size > 0) this.#retryLater();
  }

  async #serve(): Promise<void> {
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
    for (const [key, { checked }] of this.#unbound)
      if (wanted.get(key)?.checked.service !== checked.service) this.#end(key, false);
    for (const [key, { checked, address }] of wanted) {
      if (!this.#servers.has(key)) await this.#open(key, checked, address);
    }
  }

  /** Without a change there may be no sync for an hour. Who synced was told of the failure. */
  #retryLater(): void {
    if (this.#isClosed) return;
    const retry = () => void this.#mutex(() => this.#sync()).catch(() => undefined);
    this.#cancelRetry = this.#parts.clock.after(PORT_RETRY_MS, retry);
  }

  #end(key: string, isBound: boolean): void {
    const ended = this.#unbound.get(key);
    if (ended === undefined) return;
    this.#unbound.delete(key);
    const { service, port } = ended.checked;
    this.#parts.onEnd?.(service, port, ended.address, isBound);
  }

  /** Called once for each family, not for each Service: it may list the node's addresses. */
  async #whereToListen(): Promise<ReadonlyMap<Family, readonly Address[]>> {
    const found = new Map<Family, readonly Address[]>();
    if (this.#checked.size === 0) return found;
    for (const family of FAMILIES) found.set(family, await this.#parts.addresses(family));
    return found;
  }

  async #open(key: string, checked: Checked, address: Address): Promise<void> {
    const { service, family, port } = checked;
    try {
      const server = await this.#parts.open({ address, port, isOneFamily: true }, () => this.#answer(service, family));
      this.#servers.set(key, { service, server });
      this.#end(key, true);
    } catch (error) {
      this.#isUnsettled = true;
      this.#unbound.set(key, { checked, address });
      this.#parts.onFailure(service, port, causeOf(error), address);
    }
  }

  /** The body is kube-proxy's: indented with tabs, and without a newline at its end. */
  #answer(key: ServiceKey, family: Family): Answer {
    const localEndpoints = this.localEndpoints(key, family);
    const serviceProxyHealthy = this.#parts.isHealthy();
    const [namespace, name] = key.split('/');
    const body = JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy }, undefined, '\t');
    const status = localEndpoints > 0 && serviceProxyHealthy ? 200 : 503;
    return jsonAnswer(status, body, { 'x-load-balancing-endpoint-weight': String(localEndpoints) });
  }
}

// Counts ServicePorts with policy Local that have endpoints, but none on this node: the node drops packets for them
// (docs/semantics.md 4.1). The metric is kubeproxy_sync_proxy_rules_no_local_endpoints_total.

type GapPolicy = 'internal' | 'external';
const GAP_POLICIES: readonly GapPolicy[] = ['internal', 'external'];

export class LocalGaps {
  readonly #gaps = new Map<ServicePortKey, readonly string[]>();
  readonly #counts = new Map<string, number>();

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const [key, port] of changes) {
      for (const name of this.#gaps.get(key) ?? []) this.#add(name, -1);
      const gaps = port === undefined ? [] : gapsOf(port);
      for (const name of gaps) this.#add(name, 1);
      if (gaps.length > 0) this.#gaps.set(key, gaps);
      else this.#gaps.delete(key);
    }
  }

  /** The number of ServicePorts for each policy and family. */
  get counts(): readonly (readonly [GapPolicy, Family, number])[] {
    return GAP_POLICIES.flatMap((policy) =>
      FAMILIES.map((family) => [policy, family, this.#counts.get(`${policy} ${family}`) ?? 0] as const),
    );
  }

  #add(name: string, by: number): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + by);
  }
}

function gapsOf({ family, frontends }: ServicePort): string[] {
  const isDropped = (internal: boolean) =>
    frontends.some(({ role, empty }) => (role === 'cluster-ip') === internal && empty === 'drop');
  return GAP_POLICIES.filter((policy) => isDropped(policy === 'internal')).map((policy) => `${policy} ${family}`);
}
