/** What should become of packets to a frontend, in every combination of versions that an agent may know. Pure. */
import { familyOf } from '../../../src/base/address.ts';
import type { ServiceKey, Slice } from '../../../src/proxy/model/objects.ts';
import { type Location, type ServicePort, servicePorts } from '../../../src/proxy/model/service-port.ts';
import { expected } from '../../inspect/explain/oracle.ts';
import { kept } from './kept.ts';
import { fatesText } from './kernel-views.ts';
import type { SentPacket } from './packets.ts';
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
  /** The shares of its endpoints depend on the time as well (slow start). */
  readonly isGrowing: boolean;
  /** The same text means that the same is expected of every packet. */
  readonly same: string;
}

/** Combinations beyond that are not looked at: the frontend is left out until the agent has caught up. */
export const MOST = 1000;

/** All combinations from a position on; undefined: too many. */
export function combinations(
  frontend: FrontendVersions,
  from: Position,
  versions: Versions,
): Combination[] | undefined {
  const found: Combination[] = [];
  const ports = kept(SAME, versions, () => new Map());
  for (let owner = from.owner; owner < frontend.owners.length; owner++) {
    const value = frontend.owners[owner];
    const service = value?.service.key;
    const lists = value === undefined ? [[]] : versions.slicesOf(value.service.key, frontend.at.family);
    for (let slices = service === undefined ? 0 : (from.slices.get(service) ?? 0); slices < lists.length; slices++) {
      for (let node = from.node; node < versions.nodes.length; node++) {
        const state = versions.nodes[node];
        if (state === undefined) continue;
        if (found.length >= MOST) return undefined;
        const port = value && portOf(value, lists[slices] ?? [], state.location, ports);
        const same = port === undefined ? 'nobody' : `${idOf(port)} ${state.key}`;
        const isGrowing = value?.service.slowStart !== undefined;
        found.push({ owner, node, service, slices, port, state, isGrowing, same });
      }
    }
  }
  return found;
}

/** The newest versions of all. */
export function newest(frontend: FrontendVersions, versions: Versions): Position {
  const service = frontend.owners.at(-1)?.service.key;
  const last = (key: ServiceKey) => versions.slicesOf(key, frontend.at.family).length - 1;
  const slices = service === undefined ? [] : [[service, last(service)] as const];
  return { owner: frontend.owners.length - 1, node: versions.nodes.length - 1, slices: new Map(slices) };
}

/**
 * The position after the kernel met some of the combinations: the oldest of them. Versions are passed over that expect what the next
 * ones expect.
 */
export function positionAfter(all: readonly Combination[], met: readonly Combination[], before: Position): Position {
  const slices = new Map(before.slices);
  const services = new Set(met.map((one) => one.service));
  for (const service of services) {
    // Where another owner expects the same, the slices of this one are not known.
    if (service === undefined || services.size > 1) continue;
    const from = least(met.filter((one) => one.service === service).map((one) => one.slices));
    const left = all.filter((one) => one.service === service && one.slices >= from);
    slices.set(
      service,
      passed(left, (one) => one.slices, from),
    );
  }
  const [owner, node] = [least(met.map((one) => one.owner)), least(met.map((one) => one.node))];
  const left = all.filter((one) => one.node >= node && one.owner >= owner);
  return {
    owner: passed(left, (one) => (one.service === undefined ? -1 : one.owner), owner),
    // While nobody has the frontend, every state of the node expects the same. The next owner may show which one the agent knows.
    node: passed(
      left,
      (one) => one.node,
      node,
      ({ port, same, state }) => (port === undefined ? `${state.key} ${locationText(state.location)}` : same),
    ),
    slices,
  };
}

function locationText({ nodeName, zone }: Location): string {
  return `${nodeName} ${zone}`;
}

/** The first index at which something else is expected than at the next one. */
function passed(
  left: readonly Combination[],
  indexOf: (one: Combination) => number,
  from: number,
  textOf: (one: Combination) => string = ({ same }) => same,
): number {
  const texts = new Map<number, string>();
  for (const one of left) texts.set(indexOf(one), `${texts.get(indexOf(one)) ?? ''}, ${textOf(one)}`);
  let at = from;
  while (texts.has(at + 1) && texts.get(at) === texts.get(at + 1)) at += 1;
  return at;
}

function least(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => Math.min(all, one), Number.POSITIVE_INFINITY);
}

interface Found {
  readonly port: ServicePort | undefined;
}

const PORTS = new WeakMap<Owner, WeakMap<readonly Slice[], Map<string, Found>>>();
/** ServicePorts with the same content are one object, while the versions live. */
const SAME = new WeakMap<Versions, Map<string, ServicePort>>();

/** The ServicePort with its endpoints, and with those frontends alone that no other Service holds. */
function portOf(
  owner: Owner,
  slices: readonly Slice[],
  location: Location,
  same: Map<string, ServicePort>,
): ServicePort | undefined {
  const bySlices = kept(PORTS, owner, () => new WeakMap());
  const byLocation = kept(bySlices, slices, () => new Map<string, Found>());
  return kept(byLocation, locationText(location), () => {
    const found = servicePorts(owner.service, slices, location).find(({ key }) => key === owner.port.key);
    if (found === undefined) return { port: undefined };
    const frontends = found.frontends.filter(({ role, address, port }) =>
      owner.port.frontends.some((held) => held.role === role && held.address === address && held.port === port),
    );
    const port = { ...found, frontends };
    return { port: kept(same, JSON.stringify(port), () => port) };
  }).port;
}

/** What is expected of a packet. */
export interface Wanted {
  /** As `fatesText`. */
  readonly text: string;
  readonly backends: readonly string[];
  /** All such packets go to endpoints. */
  readonly isDelivered: boolean;
}

const WANTED = new WeakMap<ReadonlySet<string>, Map<string, Wanted>>();

/** By the mode that the configuration of the combination names. `local`: addresses of the machine's interfaces. */
export function wantedIn(sent: SentPacket, { port, state, same }: Combination, local: ReadonlySet<string>): Wanted {
  if (port === undefined) return NOBODY;
  const known = kept(WANTED, local, () => new Map());
  return kept(known, `${sent.name} ${same}`, () => {
    const fates = expected(sent.packet, {
      services: {
        ports: [port],
        frontend: ({ address }) => ((address === undefined) === sent.isNodePort ? port : undefined),
        roleOf: () => undefined,
      },
      mode: state.settings(state.mode, familyOf(sent.packet.destination)),
      localAddresses: local,
      remembers: () => false,
    });
    return {
      text: fatesText(fates),
      backends: fates.flatMap(({ kind, backend }) => (kind === 'balanced' ? [backend] : [])),
      isDelivered: fates.every(({ kind }) => kind === 'balanced'),
    };
  });
}

/** Whether such a packet is refused, dropped or left alone depends on the mode, and on what else has the address. */
const NOBODY: Wanted = { text: '', backends: [], isDelivered: false };

const IDS = new WeakMap<object, number>();
let ids = 0;

function idOf(object: object): number {
  return kept(IDS, object, () => {
    ids += 1;
    return ids;
  });
}
