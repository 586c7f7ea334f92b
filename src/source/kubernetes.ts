/** The kubernetes source: Services, EndpointSlices and the own Node of a cluster, listed and watched with kube-proxy's selectors (docs/semantics.md 1.1). */

import { apiClient } from '../api/client.ts';
import { type ClusterConfig, loadCredentials } from '../api/credentials.ts';
import { decodeNode, decodeService, decodeServiceCidr, objectKey } from '../api/decode/objects.ts';
import { decodeSlice } from '../api/decode/slice.ts';
import type { PingTimes } from '../api/http2.ts';
import { readServices, readSlices } from '../api/protobuf.ts';
import { PAGE, Reflector, type ReflectorSink, type Resource } from '../api/reflector.ts';
import { type SourceLog, Watch, watchSink } from '../api/watch.ts';
import type { Clock } from '../host/clock.ts';
import {
  type EventSink,
  goneEvent,
  SOURCE_KINDS,
  type Source,
  type SourceEvent,
  type SourceKind,
} from '../model/events.ts';
import { UNSERVED_LABELS } from '../producers/objects.ts';

export { KubeconfigUnusable } from '../api/credentials.ts';

export type { SourceLog } from '../api/watch.ts';

export interface KubernetesOptions extends ClusterConfig {
  readonly nodeName: string;
  /** ServiceCIDRs are followed as well, where the API server has them (1.33). */
  readonly hasServiceCidrs: boolean;
  /** Lists are asked for in protobuf, which costs both sides less, where the API server has it; watches are JSON. */
  readonly readsProtobuf: boolean;
  readonly clock: Clock;
  readonly log: SourceLog;
  /** Objects a page of a list; only tests ask for another number. */
  readonly pageSize?: number;
  /** How requests say who makes them. */
  readonly userAgent: string;
  /** Only tests ask for other times. */
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
    // What is of use and not needed says nothing of the agent's health.
    watches: () => kinds.filter(({ watch }) => SOURCE_KINDS.includes(watch.status.of)).map(({ watch }) => watch.status),
    cannotFollow: (of) => kinds.some(({ watch: { status } }) => status.of === of && status.failure !== undefined),
    async run(emit, signal) {
      const credentials = await loadCredentials(options);
      const { userAgent, pings } = options;
      const client = apiClient(credentials, { userAgent, ...(pings === undefined ? {} : { pings }) });
      const reflectors = kinds.map(({ kind, watch }) => {
        const { clock, pageSize = PAGE } = options;
        const sink = eventSink(kind, emit, watch);
        return new Reflector({ resource: kind.resource, client, clock, sink, random: Math.random, pageSize });
      });
      await Promise.all(reflectors.map((reflector) => reflector.run(signal))).finally(() => client.close());
    },
  };
}

interface WatchedKind {
  readonly of: SourceKind;
  readonly resource: Resource;
  readonly decode: (object: unknown, key: string) => SourceEvent;
}

/** What is nobody's is not sent at all; a label that comes or goes is a deletion or an addition to the watch. */
const SERVED = UNSERVED_LABELS.map((label) => `!${label}`).join(',');

function watched({ nodeName, hasServiceCidrs, readsProtobuf }: KubernetesOptions): WatchedKind[] {
  const serviceCidrs: WatchedKind = {
    of: 'servicecidrs',
    resource: { path: '/apis/networking.k8s.io/v1/servicecidrs' },
    decode: decodeServiceCidr,
  };
  return [
    ...(hasServiceCidrs ? [serviceCidrs] : []),
    {
      of: 'services',
      resource: {
        path: '/api/v1/services',
        labelSelector: SERVED,
        fieldSelector: 'spec.clusterIP!=None',
        ...(readsProtobuf ? { protobuf: readServices } : {}),
      },
      decode: decodeService,
    },
    {
      of: 'slices',
      resource: {
        path: '/apis/discovery.k8s.io/v1/endpointslices',
        labelSelector: SERVED,
        ...(readsProtobuf ? { protobuf: readSlices } : {}),
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
      // The API server checks names; one that is not one would not come from it.
      if (kind.of === 'nodes' || kind.of === 'servicecidrs' || objectKey(object) === key)
        emit(kind.decode(object, key));
    },
    gone: (key) => emit(goneEvent(kind.of, key)),
    synced: () => emit({ kind: 'synced', of: kind.of }),
    ...watchSink(watch),
  };
}
