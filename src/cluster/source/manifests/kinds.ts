/** The kinds of objects in manifests, and the decoder of each. */

import { goneEvent, type SourceEvent } from '../../../proxy/model/events.ts';
import type { Fault } from '../../../proxy/model/objects.ts';
import { decodeNode } from '../../api/decode/node.ts';
import {
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeZonedNode,
} from '../../api/decode/producing.ts';
import { decodeService, decodeServiceCidr } from '../../api/decode/service.ts';
import { decodeSlice } from '../../api/decode/slice.ts';
import type { Input } from './producer.ts';

/** One decoded object: an event for the cache, and an input for the producers of slices. */
export interface DecodedManifest {
  readonly event: SourceEvent;
  readonly input?: Input;
}

interface KindOf {
  readonly apiVersion: string;
  readonly decode: (object: unknown, key: string) => DecodedManifest;
}

export const KINDS = {
  Service: { apiVersion: 'v1', decode: decodeServiceManifest },
  EndpointSlice: {
    apiVersion: 'discovery.k8s.io/v1',
    decode: (object, key) => ({ event: decodeSlice(object, key) }),
  },
  Node: { apiVersion: 'v1', decode: decodeNodeManifest },
  ServiceCIDR: {
    apiVersion: 'networking.k8s.io/v1',
    decode: (object, key) => ({ event: decodeServiceCidr(object, key) }),
  },
  Pod: { apiVersion: 'v1', decode: decodePodManifest },
  Endpoints: { apiVersion: 'v1', decode: decodeEndpointsManifest },
} as const satisfies Record<string, KindOf>;
export type ManifestKind = keyof typeof KINDS;

export function isKind(kind: unknown): kind is ManifestKind {
  return typeof kind === 'string' && Object.hasOwn(KINDS, kind);
}

/** The proxy reads a Service, and so do the producers of its slices. */
function decodeServiceManifest(object: unknown, key: string): DecodedManifest {
  const event = decodeService(object, key);
  const { value, faults } = decodeSelectingService(object, key);
  if (faultsOf(event).some(({ effect }) => effect === 'object set aside')) {
    return { event, input: { kind: 'Service', value: undefined } };
  }
  return { event: withFaults(event, faults), input: { kind: 'Service', value } };
}

/** The proxy reads this node's Node; the producers read every Node for the zones of endpoints. */
function decodeNodeManifest(object: unknown, key: string): DecodedManifest {
  const { value, faults } = decodeZonedNode(object, key);
  return { event: withFaults(decodeNode(object, key), faults), input: { kind: 'Node', value } };
}

/** Adds the faults of fields that have none so far: a field that proxy and producers read is reported once. */
function withFaults(event: SourceEvent, more: readonly Fault[]): SourceEvent {
  if (!('faults' in event)) return event;
  const fresh = more.filter(({ field }) => !event.faults.some((known) => known.field === field));
  return fresh.length === 0 ? event : { ...event, faults: [...event.faults, ...fresh] };
}

function faultsOf(event: SourceEvent): readonly Fault[] {
  return 'faults' in event ? event.faults : [];
}

/** A hand-written Pod counts as running unless its status differs; it must have its address. */
function decodePodManifest(object: unknown, key: string): DecodedManifest {
  const { value, faults } = decodePod(object, key, { isHandWritten: true });
  return { event: { kind: 'faults', key: `Pod ${key}`, faults }, input: { kind: 'Pod', value } };
}

function decodeEndpointsManifest(object: unknown, key: string): DecodedManifest {
  const { value, faults } = decodeEndpointsObject(object, key);
  const event = { kind: 'faults', key: `Endpoints ${key}`, faults } as const;
  return { event, input: { kind: 'Endpoints', value } };
}

/** The event and input for an object that is gone. */
export function goneOf(kind: ManifestKind, key: string): DecodedManifest {
  switch (kind) {
    case 'Service':
      return { event: goneEvent('services', key), input: { kind, value: undefined } };
    case 'EndpointSlice':
      return { event: goneEvent('slices', key) };
    case 'ServiceCIDR':
      return { event: goneEvent('servicecidrs', key) };
    case 'Node':
      return { event: goneEvent('nodes', key), input: { kind, value: undefined } };
    default:
      return { event: { kind: 'faults', key: `${kind} ${key}`, faults: [] }, input: { kind, value: undefined } };
  }
}

/**
 * An object that an edit broke stays as it was (invariant 3), and its faults are reported, so that a typo removes nothing that works.
 * An object that is skipped, such as a Service of another proxy, is not broken.
 */
export function lastGood(now: DecodedManifest, before: DecodedManifest | undefined): DecodedManifest {
  if (before === undefined || holdsObject(now) || !holdsObject(before)) return now;
  const faults = faultsOf(now.event);
  const isBroken = faults.some(({ effect }) => effect === 'object set aside');
  if (!isBroken || !('faults' in before.event)) return now;
  return { ...before, event: { ...before.event, faults } };
}

function holdsObject({ event, input }: DecodedManifest): boolean {
  if (event.kind === 'service') return event.service !== undefined;
  if (event.kind === 'slice') return event.slice !== undefined;
  if (event.kind === 'node') return event.node !== undefined;
  if (event.kind === 'serviceCidr') return event.cidrs !== undefined;
  return input?.value !== undefined;
}
