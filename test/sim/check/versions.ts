/**
 * Everything that decides where packets should go, in all its versions: API objects, the Node, the machine's addresses, the configuration.
 * An agent knows Services, EndpointSlices and its Node each by a watch of its own, so each kind has versions of its own. Pure.
 */

import { type Address, endpointText, FAMILIES, type Family } from '../../../src/base/address.ts';
import { sameData } from '../../../src/base/equal.ts';
import { objectKey } from '../../../src/cluster/api/decode/checks.ts';
import { decodeNode } from '../../../src/cluster/api/decode/node.ts';
import { decodeService, decodeServiceCidr } from '../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../src/cluster/api/decode/slice.ts';
import type { FrontendAt } from '../../../src/proxy/model/claims.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { NodeView, Service, ServiceKey, Slice, SliceKey } from '../../../src/proxy/model/objects.ts';
import { ProxyModel } from '../../../src/proxy/model/proxy-model.ts';
import { type Location, type ServicePort, servicePorts } from '../../../src/proxy/model/service-port.ts';
import { type ModeSettings, roleAmong } from '../../inspect/explain/oracle.ts';
import { kept } from './kept.ts';
import { type CheckedConfig, interfacesOf, type Place, settingsOf } from './settings.ts';

/** The Service that holds a frontend, and its port without endpoints. */
export interface Owner {
  readonly service: Service;
  readonly port: ServicePort;
}

/** The node, as an agent may know it. */
export interface NodeState {
  readonly location: Location;
  readonly mode: ModeName;
  readonly settings: (mode: ModeName, family: Family) => ModeSettings;
  /** The same text means the same settings. */
  readonly key: string;
}

/** `IPv4 TCP 10.96.0.10:80`; `IPv4 TCP node:30080` of a node port. */
export type FrontendKey = string;

/** A frontend with its owners, the last one now. undefined: nobody had it. */
export interface FrontendVersions {
  readonly key: FrontendKey;
  readonly at: FrontendAt;
  readonly owners: readonly (Owner | undefined)[];
}

/** A moment: how many versions there were of each frontend's owner and of each Service's slices. */
export interface Moment {
  readonly owners: ReadonlyMap<FrontendKey, number>;
  readonly slices: ReadonlyMap<string, number>;
}

export interface VersionsOptions {
  readonly config: CheckedConfig;
  readonly nodeName: string;
  /** Addresses of the machine's interfaces, without those that IPVS mode adds. */
  readonly interfaces: readonly Address[];
  /** The feature gate AllowServiceExternalIPs; default: on. */
  readonly servesExternalIPs?: boolean;
  /** Each object is read apart from the others, as from files: an agent may know one slice of a Service anew and another of old. */
  readonly readsApart?: boolean;
}

const NO_SLICES: readonly Slice[] = [];

export class Versions {
  readonly readsApart: boolean;
  readonly #model: ProxyModel;
  readonly #nodeName: string;
  readonly #services = new Map<ServiceKey, Service>();
  readonly #slices = new Map<SliceKey, Slice>();
  readonly #cidrs = new Map<string, NonNullable<Place['serviceCidrs']>>();
  readonly #frontends = new Map<FrontendKey, FrontendVersions & { readonly owners: (Owner | undefined)[] }>();
  /** By `namespace/name IPv4`. */
  readonly #slicesOf = new Map<string, (readonly Slice[])[]>();
  readonly #nodes: NodeState[] = [];
  /** Of settings, by their text. */
  readonly #keys = new Map<string, string>();
  #place: Place;
  #changes = 0;
  #zone = '';
  #local: ReadonlyMap<Family, ReadonlySet<string>> = new Map();

  constructor({ config, nodeName, interfaces, servesExternalIPs = true, readsApart = false }: VersionsOptions) {
    this.readsApart = readsApart;
    this.#nodeName = nodeName;
    this.#model = new ProxyModel({ nodeName, zone: '' }, { servesExternalIPs });
    this.#place = { config, node: undefined, interfaces, serviceCidrs: undefined };
    this.#setPlace({});
  }

  /** The number of changes so far. */
  get changes(): number {
    return this.#changes;
  }

  /** All frontends that ever were. */
  get frontends(): Iterable<FrontendVersions> {
    return this.#frontends.values();
  }

  get nodes(): readonly NodeState[] {
    return this.#nodes;
  }

  frontend(key: FrontendKey): FrontendVersions | undefined {
    return this.#frontends.get(key);
  }

  /** The slices of a Service in all their versions; the last ones are those of now. */
  slicesOf(service: ServiceKey, family: Family): readonly (readonly Slice[])[] {
    return this.#slicesOf.get(`${service} ${family}`) ?? [NO_SLICES];
  }

  /** The Service's port that has a frontend now, with its endpoints as the newest versions have them. */
  portAt({ at, owners }: Pick<FrontendVersions, 'at' | 'owners'>): ServicePort | undefined {
    const owner = owners.at(-1);
    const location = this.#nodes.at(-1)?.location;
    if (owner === undefined || location === undefined) return undefined;
    const slices = this.slicesOf(owner.port.service, at.family).at(-1) ?? NO_SLICES;
    return portOf(owner, slices, location);
  }

  get moment(): Moment {
    const owners = new Map([...this.#frontends].map(([key, one]) => [key, one.owners.length]));
    return { owners, slices: new Map([...this.#slicesOf].map(([key, versions]) => [key, versions.length])) };
  }

  /** That port since the moment: one for each version of the owner with each of the slices, as an agent may know them together. */
  *portsSince({ key, at, owners }: FrontendVersions, since: Moment): Generator<ServicePort> {
    const location = this.#nodes.at(-1)?.location;
    if (location === undefined) return;
    for (const owner of from(owners, since.owners.get(key))) {
      if (owner === undefined) continue;
      const { service } = owner.port;
      for (const slices of from(this.slicesOf(service, at.family), since.slices.get(`${service} ${at.family}`))) {
        const port = portOf(owner, slices, location);
        if (port !== undefined) yield port;
      }
    }
  }

  /** The Node of an endpoint now; "" for an address of none. */
  nodeNameOf(address: Address): string {
    for (const { endpoints } of this.#slices.values())
      for (const endpoint of endpoints) if (endpoint.address === address) return endpoint.nodeName;
    return '';
  }

  /** The addresses of all endpoints now. */
  get endpointAddresses(): ReadonlySet<string> {
    return new Set([...this.#slices.values()].flatMap(({ endpoints }) => endpoints.map(({ address }) => address)));
  }

  /** Addresses of the machine's interfaces now. */
  localAddresses(family: Family): ReadonlySet<string> {
    return this.#local.get(family) ?? new Set();
  }

  /** Whether a Service has the address now: as its cluster IP, or as another frontend's. */
  roleOf(address: Address): 'cluster-ip' | 'other' | undefined {
    return roleAmong(this.#model.ports.values(), address);
  }

  /** An API object was made or changed: a Service, an EndpointSlice, the agent's own Node, or a ServiceCIDR. Others mean nothing. */
  put(object: object): void {
    const { kind } = object as { readonly kind: string };
    const key = objectKey(object) ?? '';
    if (kind === 'Service') this.#setService(key, servedOf(object, key));
    else if (kind === 'EndpointSlice') this.#setSlice(key, sliceOf(object, key));
    else if (kind === 'Node') this.#setNode(object, nameOf(key));
    else if (kind === 'ServiceCIDR') this.#setCidr(object, nameOf(key));
  }

  /** `key`: `namespace/name`, or a name. */
  remove(kind: string, key: string): void {
    if (kind === 'Service') this.#setService(key, undefined);
    else if (kind === 'EndpointSlice') this.#setSlice(key, undefined);
    else if (kind === 'Node' && nameOf(key) === this.#nodeName) this.#setPlace({ node: undefined });
    else if (kind === 'ServiceCIDR') this.#setCidr(undefined, nameOf(key));
  }

  /** The addresses of the machine's interfaces from now on. */
  setInterfaces(interfaces: readonly Address[]): void {
    this.#setPlace({ interfaces });
  }

  configure(config: CheckedConfig): void {
    this.#setPlace({ config });
  }

  #setService(key: ServiceKey, service: Service | undefined): void {
    this.#changes += 1;
    if (service === undefined) this.#services.delete(key);
    else this.#services.set(key, service);
    const objects = { service: (one: ServiceKey) => this.#services.get(one), slicesOf: () => NO_SLICES };
    const { ports, before } = this.#model.update([key], objects, { nodeName: this.#nodeName, zone: '' });
    for (const port of [...before.values(), ...ports.values()]) {
      for (const { address, port: number } of port?.frontends ?? []) {
        const { family = 'IPv4', protocol = 'TCP' } = port ?? {};
        this.#own({ family, protocol, address, port: number });
      }
    }
  }

  #own(at: FrontendAt): void {
    const key = frontendKey(at);
    const known = this.#frontends.get(key) ?? { key, at, owners: [undefined] };
    this.#frontends.set(key, known);
    const port = this.#model.frontend(at);
    const service = port && this.#services.get(port.service);
    const last = known.owners.at(-1);
    if (last?.port === port) return;
    known.owners.push(port === undefined || service === undefined ? undefined : { service, port });
  }

  #setSlice(key: SliceKey, slice: Slice | undefined): void {
    const before = this.#slices.get(key);
    if (sameData(before, slice)) return;
    this.#changes += 1;
    if (slice === undefined) this.#slices.delete(key);
    else this.#slices.set(key, slice);
    for (const one of new Set([before, slice].filter((each) => each !== undefined).map(idOfSlices))) {
      const versions = kept(this.#slicesOf, one, () => [NO_SLICES]);
      versions.push([...this.#slices.values()].filter((each) => idOfSlices(each) === one));
    }
  }

  #setNode(object: object, name: string): void {
    if (name !== this.#nodeName) return;
    const event = decodeNode(object, name);
    this.#setPlace({ node: event.kind === 'node' ? event.node : undefined });
  }

  #setCidr(object: object | undefined, name: string): void {
    const event = object && decodeServiceCidr(object, name);
    if (event?.kind === 'serviceCidr' && event.cidrs !== undefined) this.#cidrs.set(name, event.cidrs);
    else this.#cidrs.delete(name);
    this.#setPlace({ serviceCidrs: [...new Set([...this.#cidrs.values()].flat())].sort() });
  }

  #setPlace(change: Partial<Place>): void {
    const place: Place = { ...this.#place, ...change };
    if (this.#nodes.length > 0 && sameData(place, this.#place)) return;
    this.#changes += 1;
    this.#place = place;
    this.#zone = zoneOf(place.node, this.#zone);
    const settings = new Map<string, ModeSettings>();
    this.#nodes.push({
      location: { nodeName: this.#nodeName, zone: this.#zone },
      mode: place.config.mode,
      settings: (mode, family) => kept(settings, `${mode} ${family}`, () => settingsOf(mode, family, place)),
      key: kept(this.#keys, JSON.stringify(FAMILIES.map((one) => settingsOf(place.config.mode, one, place))), () =>
        String(this.#keys.size),
      ),
    });
    this.#local = new Map(FAMILIES.map((family) => [family, new Set(interfacesOf(family, place.interfaces))]));
  }
}

function portOf({ service, port }: Owner, slices: readonly Slice[], location: Location): ServicePort | undefined {
  return servicePorts(service, slices, location).find(({ key }) => key === port.key);
}

/** The versions since there were so many of them: the last one of then, and those that followed. */
function from<T>(versions: readonly T[], count = 1): readonly T[] {
  return versions.slice(count - 1);
}

export function frontendKey({ family, protocol, address, port }: FrontendAt): FrontendKey {
  return `${family} ${protocol} ${address === undefined ? `node:${port}` : endpointText(address, port)}`;
}

/** After the Node is deleted, its last zone stays in use (docs/semantics.md 9.2). */
function zoneOf(node: NodeView | undefined, last: string): string {
  return node === undefined ? last : node.zone;
}

function idOfSlices({ service, family }: Slice): string {
  return `${service} ${family}`;
}

function servedOf(object: object, key: string): Service | undefined {
  const event = decodeService(object, key);
  return event.kind === 'service' ? event.service : undefined;
}

function sliceOf(object: object, key: string): Slice | undefined {
  const event = decodeSlice(object, key);
  return event.kind === 'slice' ? event.slice : undefined;
}

function nameOf(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}
