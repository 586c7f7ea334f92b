/** What should become of packets to a frontend, in every combination of versions that an agent may know. Pure. */
import type { Packet } from '../../../src/explain/packet.ts';
import type { Family } from '../../../src/model/address.ts';
import type { ServiceKey, Slice } from '../../../src/model/objects.ts';
import { type Location, type ServicePort, servicePorts } from '../../../src/model/service-port.ts';
import { type Expectation, expected } from '../../explain/oracle.ts';
import type { FrontendVersions, NodeState, Owner, Versions } from './versions.ts';

/** The oldest versions that the agent may still know: indices into lists of `Versions`. */
export interface Position {
  readonly owner: number;
  readonly node: number;
  /** Of Services whose slices are not listed: 0. */
  readonly slices: ReadonlyMap<ServiceKey, number>;
}

export const BEGINNING: Position = { owner: 0, node: 0, slices: new Map() };

/** One combination of versions. */
export interface Combination {
  readonly owner: number;
  readonly node: number;
  /** undefined: nobody had the frontend. */
  readonly service: ServiceKey | undefined;
  readonly slices: number;
  readonly port: ServicePort | undefined;
  readonly state: NodeState;
}

/** Combinations beyond that are not looked at: the frontend is left out until the agent has caught up. */
export const MOST = 400;

/** All combinations from a position on; undefined: too many. */
export function combinations(
  frontend: FrontendVersions,
  from: Position,
  versions: Versions,
): Combination[] | undefined {
  const found: Combination[] = [];
  for (let owner = from.owner; owner < frontend.owners.length; owner++) {
    const value = frontend.owners[owner];
    const service = value?.service.key;
    const lists = service === undefined ? [[]] : versions.slicesOf(service);
    for (let slices = service === undefined ? 0 : (from.slices.get(service) ?? 0); slices < lists.length; slices++) {
      for (let node = from.node; node < versions.nodes.length; node++) {
        const state = versions.nodes[node];
        if (state === undefined) continue;
        if (found.length >= MOST) return undefined;
        const port = value && portOf(value, lists[slices] ?? [], state.location);
        found.push({ owner, node, service, slices, port, state });
      }
    }
  }
  return found;
}

/** The newest versions of all. */
export function newest(frontend: FrontendVersions, versions: Versions): Position {
  const service = frontend.owners.at(-1)?.service.key;
  const slices = service === undefined ? [] : [[service, versions.slicesOf(service).length - 1] as const];
  return { owner: frontend.owners.length - 1, node: versions.nodes.length - 1, slices: new Map(slices) };
}

const PORTS = new WeakMap<Owner, WeakMap<readonly Slice[], Map<string, ServicePort | undefined>>>();

/** The ServicePort with its endpoints, and with those frontends alone that no other Service holds. */
function portOf(owner: Owner, slices: readonly Slice[], location: Location): ServicePort | undefined {
  const byLocation = kept(
    kept(PORTS, owner, () => new WeakMap()),
    slices,
    () => new Map(),
  );
  return kept(byLocation, location.zone, () => {
    const { service, port } = owner;
    const found = servicePorts(service, slices, location).find(({ key }) => key === port.key);
    const frontends = found?.frontends.filter(({ role, address, port: number }) =>
      port.frontends.some((held) => held.role === role && held.address === address && held.port === number),
    );
    return found && frontends && { ...found, frontends };
  });
}

const EXPECTED = new WeakMap<object, WeakMap<ServicePort, Map<string, readonly Expectation[]>>>();

export interface ExpectationInput {
  readonly name: string;
  readonly packet: Packet;
  readonly isNodePort: boolean;
  readonly combination: Combination;
  readonly local: ReadonlySet<string>;
}

/** By the mode that the configuration of the combination names. */
export function expectedIn(input: ExpectationInput, versions: Pick<Versions, 'roleOf'>): readonly Expectation[] {
  const { port, state } = input.combination;
  if (port === undefined) return asked(input, versions);
  const byPort = kept(EXPECTED, input.local, () => new WeakMap());
  const known = kept(byPort, port, () => new Map());
  return kept(known, `${idOf(state)} ${input.name}`, () => asked(input, versions));
}

function asked({ packet, isNodePort, combination, local }: ExpectationInput, versions: Pick<Versions, 'roleOf'>) {
  const { port, state } = combination;
  const family: Family = packet.destination.includes(':') ? 'IPv6' : 'IPv4';
  return expected(packet, {
    services: {
      frontend: ({ address }) => ((address === undefined) === isNodePort ? port : undefined),
      roleOf: (address) => versions.roleOf(address),
    },
    mode: state.settings(state.mode, family),
    localAddresses: local,
    remembers: () => false,
  });
}

const IDS = new WeakMap<object, number>();
let ids = 0;

function idOf(object: object): number {
  return kept(IDS, object, () => ++ids);
}

interface MapLike<K, V> {
  get(key: K): V | undefined;
  has(key: K): boolean;
  set(key: K, value: V): unknown;
}

function kept<K, V>(map: MapLike<K, V>, key: K, make: () => V): V {
  if (map.has(key)) return map.get(key) as V;
  const made = make();
  map.set(key, made);
  return made;
}
