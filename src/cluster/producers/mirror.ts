/** Mirrors user-written Endpoints as slices (KEP-752, "EndpointSlice mirroring"): one slice for each subset and family. */
import { type Family, familyOf, parseAddress } from '../../base/address.ts';
import { sameData } from '../../base/equal.ts';
import {
  type Labels,
  MANAGED_BY_LABEL,
  MIRROR_MANAGER,
  SERVICE_NAME_LABEL,
  TRIGGER_ANNOTATION,
} from '../../proxy/model/labels.ts';
import type {
  EndpointsAddress,
  EndpointsObject,
  Notice,
  SelectingService,
  SliceChanges,
  SliceEndpoint,
  SliceObject,
  SlicePortObject,
} from './api-objects.ts';
import { type ListedAddress, packSubsets } from './endpoints-object.ts';
import { endpointId, portsKey, sameEndpoint } from './pod-endpoint.ts';
import { type SliceContent, safeWrites, sliceOf } from './write-order.ts';

const SKIP_LABEL = 'endpointslice.kubernetes.io/skip-mirror';
/** Leader election by Endpoints, which is no longer usual. */
const LEADER_ANNOTATION = 'control-plane.alpha.kubernetes.io/leader';
const LAST_APPLIED_ANNOTATION = 'kubectl.kubernetes.io/last-applied-configuration';

export interface MirrorInput {
  /** undefined when there are none. */
  readonly endpoints: EndpointsObject | undefined;
  /** The Service of the same name; undefined when there is none. */
  readonly service: SelectingService | undefined;
  /** Slices of this name with the manager `MIRROR_MANAGER`. */
  readonly existing: readonly SliceObject[];
  /** The largest number of mirrored addresses of a subset. */
  readonly mostPerSubset: number;
}

export interface MirrorResult {
  readonly changes: SliceChanges;
  readonly notices: readonly Notice[];
  readonly counts: MirrorCounts;
}

/** The numbers of an Endpoints object for metrics. */
export interface MirrorCounts {
  readonly endpoints: number;
  readonly slices: number;
  readonly needed: number;
  readonly added: number;
  readonly updated: number;
  readonly removed: number;
  /** Addresses that are invalid, or above the limit. */
  readonly skipped: number;
}

/** Whether to mirror the Endpoints: those of a Service without a selector, unless a label or annotation prevents it. */
export function isMirrored({ endpoints, service }: Pick<MirrorInput, 'endpoints' | 'service'>): boolean {
  if (endpoints === undefined || service === undefined || !service.takesEndpoints) return false;
  const { labels, annotations } = endpoints.metadata;
  return labels?.[SKIP_LABEL] !== 'true' && annotations?.[LEADER_ANNOTATION] === undefined;
}

/** The writes that make the slices match the Endpoints. All slices are removed when there is nothing to mirror. */
export function reconcileMirror(input: MirrorInput): MirrorResult {
  const { endpoints, existing } = input;
  if (endpoints === undefined || !isMirrored(input)) {
    return { changes: { create: [], update: [], remove: existing }, notices: [], counts: NOTHING };
  }
  const { groups, invalid, tooMany } = wantedGroups(endpoints, input.mostPerSubset);
  const byKey = Map.groupBy(existing, ({ ports, addressType }) => groupKey(ports, addressType));
  const fills = [...groups].map(([key, group]) => fill(endpoints, group, byKey.get(key) ?? []));
  const unwanted = [...byKey].filter(([key]) => !groups.has(key)).flatMap(([, slices]) => slices);
  const of = (kind: 'create' | 'update' | 'remove') => fills.flatMap((one) => one[kind]);
  const isTerminating = (endpoints.metadata.deletionTimestamp ?? null) !== null;
  const changes = safeWrites(
    { create: of('create'), update: of('update'), remove: [...of('remove'), ...unwanted] },
    { before: existing, isTerminating },
  );
  const sum = (of: 'added' | 'updated' | 'removed') => fills.reduce((total, one) => total + one[of], 0);
  const full = [...groups.values()].filter((group) => group.endpoints.size > 0);
  return {
    changes,
    notices: noticesOf(invalid, tooMany, input.mostPerSubset),
    counts: {
      endpoints: full.reduce((total, group) => total + group.endpoints.size, 0),
      slices: full.length,
      needed: full.length,
      added: sum('added'),
      updated: sum('updated'),
      removed: sum('removed'),
      skipped: invalid + tooMany,
    },
  };
}

const NOTHING: MirrorCounts = { endpoints: 0, slices: 0, needed: 0, added: 0, updated: 0, removed: 0, skipped: 0 };

interface MirroredGroup {
  readonly family: Family;
  readonly ports: readonly SlicePortObject[];
  readonly endpoints: Map<string, SliceEndpoint>;
}

/** The addresses of all subsets. kube-controller-manager packs them anew as well: subsets that share addresses become one. */
function* listedAddresses({ subsets }: EndpointsObject): Generator<ListedAddress> {
  for (const { addresses = [], notReadyAddresses = [], ports = [] } of subsets) {
    for (const address of addresses) yield { address, ready: true, ports };
    for (const address of notReadyAddresses) yield { address, ready: false, ports };
  }
}

function wantedGroups(endpoints: EndpointsObject, limit: number) {
  const groups = new Map<string, MirroredGroup>();
  let [invalid, tooMany] = [0, 0];
  for (const { addresses = [], notReadyAddresses = [], ports = [] } of packSubsets(listedAddresses(endpoints))) {
    const slicePorts = ports.map(({ name = '', port, protocol = 'TCP', appProtocol }) => ({
      name,
      port,
      protocol,
      ...(appProtocol === undefined ? {} : { appProtocol }),
    }));
    let taken = 0;
    const all = [...addresses.map(asEndpoint(true)), ...notReadyAddresses.map(asEndpoint(false))];
    for (const found of all) {
      if (taken >= limit) tooMany += 1;
      else if (found === undefined) invalid += 1;
      else {
        const key = groupKey(slicePorts, found.family);
        const group = groups.get(key) ?? { family: found.family, ports: slicePorts, endpoints: new Map() };
        const id = endpointId(found.endpoint);
        // Subsets with the same ports share a slice, and the API server refuses a larger one.
        if (group.endpoints.size >= limit && !group.endpoints.has(id)) {
          tooMany += 1;
          continue;
        }
        taken += 1;
        groups.set(key, group);
        group.endpoints.set(id, found.endpoint);
      }
    }
  }
  return { groups, invalid, tooMany };
}

function groupKey(ports: readonly SlicePortObject[], family: string): string {
  return `${family} ${portsKey(ports)}`;
}

function asEndpoint(ready: boolean) {
  return ({ ip, hostname, nodeName, targetRef }: EndpointsAddress) => {
    const address = parseAddress(ip);
    if (address === undefined) return undefined;
    const endpoint: SliceEndpoint = {
      addresses: [address],
      conditions: { ready },
      ...(hostname ? { hostname } : {}),
      ...(targetRef ? { targetRef } : {}),
      ...(nodeName ? { nodeName } : {}),
    };
    return { family: familyOf(address), endpoint };
  };
}

function fill(
  endpoints: EndpointsObject,
  { family, ports, endpoints: wanted }: MirroredGroup,
  existing: readonly SliceObject[],
) {
  const [first, ...rest] = existing;
  const fresh = mirrorSlice(endpoints, { family, ports, endpoints: [...wanted.values()] });
  if (first === undefined)
    return { create: [fresh], update: [], remove: [], added: wanted.size, updated: 0, removed: 0 };
  const existingById = new Map(first.endpoints.map((endpoint) => [endpointId(endpoint), endpoint]));
  const added = [...wanted.keys()].filter((id) => !existingById.has(id)).length;
  const removed = [...existingById.keys()].filter((id) => !wanted.has(id)).length;
  const updated = [...wanted].filter(([id, endpoint]) => {
    const before = existingById.get(id);
    return before !== undefined && !sameEndpoint(before, endpoint);
  }).length;
  const isSame =
    added + updated + removed === 0 &&
    !isOfOthers(first, endpoints) &&
    sameData(first.metadata.labels ?? {}, fresh.metadata.labels) &&
    sameData(first.metadata.annotations ?? {}, fresh.metadata.annotations ?? {});
  const update = isSame ? [] : [{ ...fresh, metadata: { ...first.metadata, ...fresh.metadata } }];
  return { create: [], update, remove: rest, added, updated, removed };
}

/** Whether the slice is of earlier Endpoints of the same name: the garbage collector would delete it (k8s#125354). */
function isOfOthers({ metadata }: SliceObject, { metadata: { name, uid } }: EndpointsObject): boolean {
  const owners = metadata.ownerReferences ?? [];
  return owners.some((owner) => owner.kind === 'Endpoints' && owner.name === name && owner.uid !== uid);
}

function mirrorSlice({ metadata }: EndpointsObject, content: SliceContent): SliceObject {
  const { name = '', namespace, uid = '' } = metadata;
  const labels = { ...metadata.labels, [SERVICE_NAME_LABEL]: name, [MANAGED_BY_LABEL]: MIRROR_MANAGER };
  const annotations = withoutOwn(metadata.annotations ?? {});
  return sliceOf({ kind: 'Endpoints', namespace, name, uid }, { labels, annotations }, content);
}

function withoutOwn({ [TRIGGER_ANNOTATION]: _, [LAST_APPLIED_ANNOTATION]: __, ...rest }: Labels): Labels {
  return rest;
}

function noticesOf(invalid: number, tooMany: number, limit: number): Notice[] {
  const notices: Notice[] = [];
  if (invalid > 0) {
    const note = `Skipped ${invalid} invalid IP addresses when mirroring to EndpointSlices`;
    notices.push({ type: 'Warning', reason: 'InvalidIPAddress', note });
  }
  if (tooMany > 0) {
    const note = `A max of ${limit} addresses can be mirrored to EndpointSlices per Endpoints subset. ${tooMany} addresses were skipped`;
    notices.push({ type: 'Warning', reason: 'TooManyAddressesToMirror', note });
  }
  return notices;
}
