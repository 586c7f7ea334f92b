/**
 * The EndpointSlices of a Service with a selector (KEP-752): compares its Pods with the existing slices, and makes the writes. Pure:
 * `TopologyBook` has the state between two calls.
 */
import { FAMILIES, type Family } from '../../base/address.ts';
import { sameData } from '../../base/equal.ts';
import {
  HEADLESS_LABEL,
  type Labels,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
  SLICES_MANAGER,
} from '../../proxy/model/labels.ts';
import type { TrafficDistribution } from '../../proxy/model/objects.ts';
import type {
  Notice,
  PodView,
  SelectingService,
  SliceChanges,
  SliceEndpoint,
  SliceObject,
  SlicePortObject,
  ZonedNode,
} from './api-objects.ts';
import { belongsInSlices, endpointId, podEndpoint, portsKey, portsOn, sameEndpoint } from './pod-endpoint.ts';
import { isReady, type SlicesInHand, type TopologyBook, withHints, withoutHints } from './topology.ts';
import { inExistingOrder, safeWrites, sliceOf } from './write-order.ts';

interface SlicesInput {
  readonly service: SelectingService;
  /** The Pods that its selector matches. */
  readonly pods: Iterable<PodView>;
  /** Slices of the Service with the manager `SLICES_MANAGER`. */
  readonly existing: readonly SliceObject[];
  /** undefined when there is no such Node. */
  readonly node: (name: string) => ZonedNode | undefined;
  readonly topology: TopologyBook;
  /** The largest number of endpoints of a slice. */
  readonly mostPerSlice: number;
}

export interface SlicesResult {
  readonly changes: SliceChanges;
  /** Pods that were omitted because their Node does not exist; the caller retries later. */
  readonly onUnknownNode: readonly PodView[];
  readonly notices: readonly Notice[];
  readonly counts: SliceCounts;
}

/** The numbers of a Service for metrics. */
export interface SliceCounts {
  readonly endpoints: number;
  readonly slices: number;
  /** The number of slices if all but the last were full. */
  readonly needed: number;
  readonly added: number;
  readonly removed: number;
}

/**
 * The writes that make the slices match the Pods (KEP-752). After these writes a second call returns none.
 */
export function reconcileSlices(input: SlicesInput): SlicesResult {
  const { service, existing, topology } = input;
  const pods = [...input.pods];
  const results = service.families.map((family) => ofFamily({ ...input, pods }, family));
  const unsupported = existing.filter(({ addressType }) => !service.families.some((family) => family === addressType));
  for (const family of FAMILIES) if (!service.families.includes(family)) topology.forget(service.key, family);
  const sum = (of: keyof SliceCounts) => results.reduce((total, { counts }) => total + counts[of], 0);
  return {
    changes: {
      create: results.flatMap(({ changes }) => changes.create),
      update: results.flatMap(({ changes }) => changes.update),
      remove: [...results.flatMap(({ changes }) => changes.remove), ...unsupported],
    },
    onUnknownNode: [...new Set(results.flatMap(({ onUnknownNode }) => onUnknownNode))],
    notices: results.flatMap(({ notices }) => notices),
    counts: {
      endpoints: sum('endpoints'),
      slices: sum('slices'),
      needed: sum('needed'),
      added: sum('added'),
      removed: sum('removed'),
    },
  };
}

function ofFamily(input: SlicesInput, family: Family): SlicesResult {
  const { service } = input;
  const ofType = input.existing.filter(({ addressType }) => addressType === family);
  const owned = ofType.filter((slice) => isOwnedBy(slice, service));
  const { groups, onUnknownNode } = desiredGroups(input, owned, family);
  const filled = fillGroups(input, { groups, owned, family });
  const remove = [...filled.remove, ...ofType.filter((slice) => !owned.includes(slice))];
  const withPlaceholder = keepPlaceholder(filled, remove, placeholder(service, family));
  const { slices, notices } = hint(input, withPlaceholder.slices, family);
  return {
    changes: safeWrites(
      { ...slices, remove: withPlaceholder.remove },
      { before: owned, isTerminating: service.terminating },
    ),
    onUnknownNode,
    notices,
    counts: {
      endpoints: filled.endpoints,
      slices: slices.create.length + slices.update.length + slices.unchanged.length,
      needed: Math.max(1, filled.needed),
      added: filled.added,
      removed: filled.removed,
    },
  };
}

/** Endpoints with one set of ports. */
interface PortGroup {
  readonly ports: readonly SlicePortObject[];
  readonly endpoints: Map<string, SliceEndpoint>;
}

function desiredGroups({ service, pods, node }: SlicesInput, owned: readonly SliceObject[], family: Family) {
  const groups = new Map<string, PortGroup>();
  const onUnknownNode: PodView[] = [];
  for (const pod of pods) {
    if (!belongsInSlices(pod)) continue;
    const ports = portsOn(service, pod);
    const key = portsKey(ports);
    const group = groups.get(key) ?? { ports, endpoints: new Map() };
    groups.set(key, group);
    const itsNode = node(pod.nodeName);
    // A Service that publishes addresses that are not ready also gets Pods whose Node does not exist.
    if (itsNode === undefined && !service.publishNotReady) {
      onUnknownNode.push(pod);
      continue;
    }
    const endpoint = podEndpoint(pod, { service, family, node: itsNode });
    if (endpoint !== undefined) group.endpoints.set(endpointId(endpoint), endpoint);
  }
  for (const [key, group] of groups) groups.set(key, { ...group, endpoints: inExistingOrder(group.endpoints, owned) });
  return { groups, onUnknownNode };
}

interface FillOf {
  readonly groups: ReadonlyMap<string, PortGroup>;
  readonly owned: readonly SliceObject[];
  readonly family: Family;
}

interface FilledGroups extends SlicesInHand {
  readonly remove: readonly SliceObject[];
  readonly endpoints: number;
  readonly needed: number;
  readonly added: number;
  readonly removed: number;
}

function fillGroups({ service, mostPerSlice }: SlicesInput, { groups, owned, family }: FillOf): FilledGroups {
  const byPorts = Map.groupBy(owned, ({ ports }) => portsKey(ports));
  const filled = [...groups].map(([key, { ports, endpoints }]) =>
    fillSlices({
      existing: byPorts.get(key) ?? [],
      desired: endpoints,
      refreshed: (slice) => refreshed(slice, service),
      newSlice: () => newSlice(service, family, ports),
      mostPerSlice,
    }),
  );
  const unwanted = [...byPorts].filter(([key]) => !groups.has(key)).flatMap(([, slices]) => slices);
  const sizes = [...groups.values()].map(({ endpoints }) => endpoints.size);
  return {
    create: filled.flatMap(({ create }) => create),
    update: filled.flatMap(({ update }) => update),
    unchanged: filled.flatMap(({ unchanged }) => unchanged),
    remove: [...filled.flatMap(({ remove }) => remove), ...unwanted],
    endpoints: sizes.reduce((sum, size) => sum + size, 0),
    needed: sizes.reduce((sum, size) => sum + Math.ceil(size / mostPerSlice), 0),
    added: filled.reduce((sum, { added }) => sum + added, 0),
    removed: filled.reduce((sum, { removed }) => sum + removed, 0),
  };
}

/** A Service without endpoints has one empty slice, which shows that a controller serves the Service. */
function keepPlaceholder(slices: SlicesInHand, remove: readonly SliceObject[], empty: SliceObject) {
  const { create, update, unchanged } = slices;
  if (create.length + update.length + unchanged.length > 0) return { slices, remove };
  const [only] = remove;
  if (remove.length === 1 && only !== undefined && isPlaceholder(only, empty)) {
    return { slices: { create, update, unchanged: [only] }, remove: [] };
  }
  return { slices: { create: [empty], update, unchanged }, remove };
}

function isPlaceholder(slice: SliceObject, empty: SliceObject): boolean {
  return (
    slice.endpoints.length === 0 &&
    slice.ports.length === 0 &&
    sameData(slice.metadata.labels, empty.metadata.labels) &&
    sameData(slice.metadata.ownerReferences, empty.metadata.ownerReferences)
  );
}

function hint({ service, topology }: SlicesInput, slices: SlicesInHand, family: Family) {
  if (service.wantsTopology) return topology.hint(slices, service.key, family);
  const notices = topology.release(service.key, family);
  const { distribution } = service;
  return { slices: distribution ? hintByDistribution(slices, distribution) : withoutHints(slices), notices };
}

/** Whether the slice is of this Service, and not of an earlier one of the same name, which the garbage collector deletes. */
function isOwnedBy({ metadata }: SliceObject, { uid }: SelectingService): boolean {
  return (metadata.ownerReferences ?? []).some(
    (owner) => owner.uid === uid && owner.kind === 'Service' && owner.apiVersion === 'v1',
  );
}

function newSlice(service: SelectingService, family: Family, ports: readonly SlicePortObject[]): SliceObject {
  const { namespace, name, uid } = service;
  return sliceOf(
    { kind: 'Service', namespace, name, uid },
    { labels: sliceLabels(service) },
    { family, ports, endpoints: [] },
  );
}

function placeholder(service: SelectingService, family: Family): SliceObject {
  return newSlice(service, family, []);
}

function sliceLabels(service: SelectingService): Labels {
  return {
    ...own(service.labels),
    ...(service.isHeadless ? { [HEADLESS_LABEL]: '' } : {}),
    [SERVICE_NAME_LABEL]: service.name,
    [MANAGED_BY_LABEL]: SLICES_MANAGER,
  };
}

/** The slice with the labels of its Service; the same object when they are right. */
function refreshed(slice: SliceObject, service: SelectingService): SliceObject {
  const labels = sliceLabels(service);
  return sameData(slice.metadata.labels ?? {}, labels) ? slice : { ...slice, metadata: { ...slice.metadata, labels } };
}

const RESERVED = [SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL];

/** The labels of a Service without those that are reserved for slices. */
function own(labels: Labels): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !RESERVED.includes(name)));
}

// Hints for `trafficDistribution` (KEP-4444, KEP-3015): each ready endpoint gets its own zone, and its own node for PreferSameNode.

/** Adds hints to slices that change anyway, and to others whose hints are missing or wrong. */
export function hintByDistribution(slices: SlicesInHand, distribution: TrafficDistribution): SlicesInHand {
  const hintsOf = (endpoint: SliceEndpoint) => ownHints(endpoint, distribution === 'PreferSameNode');
  const hinted = (slice: SliceObject) => withHints(slice, hintsOf);
  const isRight = (slice: SliceObject) =>
    slice.endpoints.every((endpoint) => !isReady(endpoint) || sameHints(endpoint.hints, hintsOf(endpoint)));
  return {
    create: slices.create.map(hinted),
    update: [...slices.update, ...slices.unchanged.filter((slice) => !isRight(slice))].map(hinted),
    unchanged: slices.unchanged.filter(isRight),
  };
}

function ownHints(endpoint: SliceEndpoint, withNode: boolean): SliceEndpoint['hints'] {
  if (!isReady(endpoint)) return undefined;
  const { zone, nodeName } = endpoint;
  const forZones = zone ? { forZones: [{ name: zone }] } : {};
  const forNodes = withNode && nodeName ? { forNodes: [{ name: nodeName }] } : {};
  return zone || (withNode && nodeName) ? { ...forZones, ...forNodes } : undefined;
}

function sameHints(a: SliceEndpoint['hints'], b: SliceEndpoint['hints']): boolean {
  const text = (hints: SliceEndpoint['hints']) =>
    JSON.stringify([(hints?.forZones ?? []).map(({ name }) => name), (hints?.forNodes ?? []).map(({ name }) => name)]);
  return text(a) === text(b);
}

// Distributes the endpoints of one family and one set of ports over slices, with few writes (KEP-752, "Reconciliation"):
// 1. existing endpoints stay in their slices, and are updated there;
// 2. slices that change anyway are filled, the fullest first;
// 3. the rest goes into the fullest slice with room for all of it, otherwise into new slices.

interface FillInput {
  readonly existing: readonly SliceObject[];
  /** By `endpointId`, in the order in which they go into new slices. */
  readonly desired: ReadonlyMap<string, SliceEndpoint>;
  /** The slice with the labels of its parent; the same object when they are right. */
  readonly refreshed: (slice: SliceObject) => SliceObject;
  readonly newSlice: () => SliceObject;
  /** The largest number of endpoints of a slice. */
  readonly mostPerSlice: number;
}

interface Filled {
  readonly create: SliceObject[];
  readonly update: SliceObject[];
  readonly remove: SliceObject[];
  readonly unchanged: SliceObject[];
  readonly added: number;
  readonly removed: number;
}

/** Slices with the desired endpoints, and the unchanged ones. */
function fillSlices(input: FillInput): Filled {
  const { mostPerSlice } = input;
  const left = new Map(input.desired);
  const { changed, unchanged, remove, removed } = keep(input, left);
  const rest = [...left.values()];
  const added = rest.length;
  const update = changed
    .sort((a, b) => b.endpoints.length - a.endpoints.length)
    .map((slice) => ({ ...slice, endpoints: topUp(slice.endpoints, rest, mostPerSlice) }));
  const create: SliceObject[] = [];
  while (rest.length > 0) {
    const room = rest.length <= mostPerSlice ? roomiest(unchanged, rest.length, mostPerSlice) : undefined;
    const slice = room ?? input.newSlice();
    const filled = { ...slice, endpoints: topUp(slice.endpoints, rest, mostPerSlice) };
    if (room === undefined) create.push(filled);
    else {
      unchanged.splice(unchanged.indexOf(room), 1);
      update.push(filled);
    }
  }
  return { create, update, remove, unchanged, added, removed };
}

/** Keeps desired endpoints in their slices, and removes them from `left`. A duplicate endpoint is kept once. */
function keep({ existing, refreshed }: FillInput, left: Map<string, SliceEndpoint>) {
  const kept = {
    changed: [] as SliceObject[],
    unchanged: [] as SliceObject[],
    remove: [] as SliceObject[],
    removed: 0,
  };
  for (const slice of existing) {
    const endpoints: SliceEndpoint[] = [];
    let isSame = true;
    for (const endpoint of slice.endpoints) {
      const id = endpointId(endpoint);
      const wanted = left.get(id);
      if (wanted === undefined) continue;
      left.delete(id);
      endpoints.push(wanted);
      isSame &&= sameEndpoint(endpoint, wanted);
    }
    const gone = slice.endpoints.length - endpoints.length;
    kept.removed += gone;
    const parent = refreshed(slice);
    if (gone > 0 && endpoints.length === 0) kept.remove.push(slice);
    else if (gone > 0 || !isSame) kept.changed.push({ ...parent, endpoints });
    else if (parent !== slice) kept.changed.push(parent);
    else kept.unchanged.push(slice);
  }
  return kept;
}

/** Moves endpoints from the front of `rest`, as many as fit. */
function topUp(endpoints: readonly SliceEndpoint[], rest: SliceEndpoint[], capacity: number): SliceEndpoint[] {
  return [...endpoints, ...rest.splice(0, Math.max(0, capacity - endpoints.length))];
}

/** The fullest slice with room for so many more endpoints; undefined when there is none. */
function roomiest(slices: readonly SliceObject[], more: number, capacity: number): SliceObject | undefined {
  let best: SliceObject | undefined;
  for (const slice of slices) {
    if (slice.endpoints.length + more > capacity) continue;
    if (best === undefined || slice.endpoints.length > best.endpoints.length) best = slice;
  }
  return best;
}
