/** The kubernetes source: lists and watches Services, EndpointSlices and this node's Node, with kube-proxy's selectors. */
import type { Clock } from '../../base/clock.ts';
import {
  type EventSink,
  goneEvent,
  SOURCE_KINDS,
  type Source,
  type SourceEvent,
  type SourceKind,
  type SourcePod,
} from '../../proxy/model/events.ts';
import { SERVED, SERVED_FIELDS } from '../../proxy/model/labels.ts';
import { ApiError, apiClient } from '../api/client.ts';
import { type ClusterConfig, loadCredentials } from '../api/credentials.ts';
import { objectKey } from '../api/decode/checks.ts';
import { decodeNode } from '../api/decode/node.ts';
import { decodePod } from '../api/decode/producing.ts';
import { decodeService, decodeServiceCidr, SERVICES } from '../api/decode/service.ts';
import { decodeSlice, SLICES } from '../api/decode/slice.ts';
import type { PingTimes } from '../api/http2.ts';
import { PAGE } from '../api/paged-list.ts';
import { followAll, type ReflectorSink, type Resource } from '../api/reflector.ts';
import type { Connect } from '../api/transport.ts';
import { Watch, type WatchLog, watchSink } from '../api/watch.ts';

export interface KubernetesOptions extends ClusterConfig {
  readonly nodeName: string;
  /** Watches ServiceCIDRs as well, which API servers have from 1.33 on. A server without them is tried again after an hour. */
  readonly hasServiceCidrs: boolean;
  /** Requests protobuf, which costs both sides less. */
  readonly readsProtobuf: boolean;
  /** Requests the lists of Services and EndpointSlices as streams (KEP-3157), where the server supports it. */
  readonly streamsLists: boolean;
  readonly clock: Clock;
  readonly log: WatchLog;
  /** Objects of a page of a list; set by tests alone. */
  readonly pageSize?: number;
  readonly connect?: Connect;
  /** User-Agent of the requests. */
  readonly userAgent: string;
  /** Set by tests alone. */
  readonly pings?: PingTimes;
}

export function kubernetesSource(options: KubernetesOptions): Source {
  const kinds = watched(options).map((kind) => ({
    kind,
    watch: new Watch(kind.of, {
      ...options,
      meanwhile: 'rules stay as they are',
      isOptional: !SOURCE_KINDS.includes(kind.of),
    }),
  }));
  return {
    // The agent's health does not depend on optional kinds.
    watches: () => kinds.filter(({ watch }) => SOURCE_KINDS.includes(watch.status.of)).map(({ watch }) => watch.status),
    cannotFollow: (of) => kinds.some(({ watch: { status } }) => status.of === of && status.failure !== undefined),
    pod: (key, signal) => lookUpPod(key, options, signal),
    async run(emit, signal) {
      const credentials = await loadCredentials(options);
      const { userAgent, pings, connect } = options;
      const client = apiClient(credentials, { userAgent, connect, ...(pings === undefined ? {} : { pings }) });
      const { clock, pageSize = PAGE } = options;
      const shared = { client, clock, random: Math.random, pageSize };
      const all = kinds.map(({ kind, watch }) => {
        const sink = eventSink(kind, emit, watch);
        return { ...shared, resource: kind.resource, sink };
      });
      await followAll(all, signal).finally(() => client.close());
    },
  };
}

interface WatchedKind {
  readonly of: SourceKind;
  readonly resource: Resource;
  readonly decode: (object: unknown, key: string) => SourceEvent;
}

function watched({
  nodeName,
  hasServiceCidrs,
  readsProtobuf,
  streamsLists: streams,
}: KubernetesOptions): WatchedKind[] {
  const serviceCidrs: WatchedKind = {
    of: 'servicecidrs',
    // v1 since Kubernetes 1.33; 1.31 and 1.32 can have v1beta1, older ones have neither (KEP-1880).
    resource: {
      path: '/apis/networking.k8s.io/v1/servicecidrs',
      olderPath: '/apis/networking.k8s.io/v1beta1/servicecidrs',
      mayLack: true,
    },
    decode: decodeServiceCidr,
  };
  return [
    ...(hasServiceCidrs ? [serviceCidrs] : []),
    {
      of: 'services',
      resource: {
        path: '/api/v1/services',
        labelSelector: SERVED,
        fieldSelector: SERVED_FIELDS,
        ...(readsProtobuf ? { protobuf: SERVICES } : {}),
        streams,
      },
      decode: decodeService,
    },
    {
      of: 'slices',
      resource: {
        path: '/apis/discovery.k8s.io/v1/endpointslices',
        labelSelector: SERVED,
        ...(readsProtobuf ? { protobuf: SLICES } : {}),
        streams,
      },
      decode: decodeSlice,
    },
    {
      of: 'nodes',
      resource: { path: '/api/v1/nodes', fieldSelector: `metadata.name=${nodeName}` },
      decode: decodeNode,
    },
  ];
}

function eventSink(kind: WatchedKind, emit: EventSink, watch: Watch<SourceKind>): ReflectorSink {
  return {
    set(key, object) {
      // The API server admits valid names only, so an object with another name is ignored.
      if (kind.of !== 'nodes' && kind.of !== 'servicecidrs' && objectKey(object) !== key) return;
      emit(withVersion(kind.decode(object, key), versionOf(object)));
    },
    gone: (key) => emit(goneEvent(kind.of, key)),
    synced: () => emit({ kind: 'synced', of: kind.of }),
    ...watchSink(watch),
    ...versionSink(kind.of, emit, watch),
  };
}

/** Emits the version that was reached, for the kinds whose consumers use it. */
function versionSink(of: SourceKind, emit: EventSink, watch: Watch<SourceKind>): Partial<ReflectorSink> {
  if (of !== 'services' && of !== 'slices') return {};
  return {
    reached: (resourceVersion) => emit({ kind: 'reached', of, resourceVersion }),
    restored(from, to) {
      watch.restored(from, to);
      emit({ kind: 'reached', of, resourceVersion: '' });
    },
  };
}

function withVersion(event: SourceEvent, resourceVersion: string | undefined): SourceEvent {
  const hasIt = event.kind === 'service' || event.kind === 'slice' || event.kind === 'node';
  return hasIt && resourceVersion !== undefined ? { ...event, resourceVersion } : event;
}

function versionOf(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { readonly metadata?: { readonly resourceVersion?: unknown } };
  const version = metadata?.resourceVersion;
  return typeof version === 'string' && version !== '' ? version : undefined;
}

/** Gets one Pod, because agents do not follow Pods. undefined when there is no such Pod. Throws ApiError and KubeconfigUnusable. */
export async function lookUpPod(
  key: string,
  cluster: ClusterConfig & { readonly userAgent: string; readonly connect?: Connect },
  signal: AbortSignal,
): Promise<SourcePod | undefined> {
  const [namespace = '', name = ''] = key.split('/').map(encodeURIComponent);
  const { userAgent, connect } = cluster;
  const client = apiClient(await loadCredentials(cluster), { userAgent, connect });
  try {
    const pod = await client.get(`/api/v1/namespaces/${namespace}/pods/${name}`, {}, signal);
    return decodePod(pod, key, { isHandWritten: false }).value;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  } finally {
    client.close();
  }
}
