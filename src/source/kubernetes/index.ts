/** The kubernetes source: Services, EndpointSlices and the own Node of a cluster, listed and watched with kube-proxy's selectors (reference 1.8). */
import type { Clock } from '../../host/clock.ts';
import { type EventSink, goneEvent, type Source, type SourceEvent, type SourceKind } from '../../model/events.ts';
import { decodeNode, decodeService, objectKey, PROXY_NAME_LABEL } from '../decode.ts';
import { decodeSlice, HEADLESS_LABEL } from '../decode-slice.ts';
import { apiClient } from './client.ts';
import { type ClusterConfig, loadCredentials } from './credentials.ts';
import { Reflector, type ReflectorSink, type Resource } from './reflector.ts';

export { KubeconfigUnusable } from './credentials.ts';

/** The little of pino that the source uses. */
export interface SourceLog {
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
}

export interface KubernetesOptions extends ClusterConfig {
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: SourceLog;
  /** Objects a page of a list; only tests ask for another number. */
  readonly pageSize?: number;
  /** Milliseconds without a byte after which a watch is opened again. */
  readonly silence?: number;
}

/** A page of 500 slices is about 0.6 MB, parsed in a few milliseconds. */
const PAGE = 500;
/** Bookmarks come about once a minute. */
const SILENCE = 150_000;

export function kubernetesSource(options: KubernetesOptions): Source {
  return {
    async run(emit, signal) {
      const credentials = await loadCredentials(options);
      const client = apiClient(credentials, options.silence ?? SILENCE);
      const reflectors = watched(options.nodeName).map((kind) => {
        const { clock, pageSize = PAGE } = options;
        const sink = eventSink(kind, emit, options);
        return new Reflector({ resource: kind.resource, client, clock, sink, random: Math.random, pageSize });
      });
      await Promise.all(reflectors.map((reflector) => reflector.run(signal)));
    },
  };
}

interface WatchedKind {
  readonly of: SourceKind;
  readonly resource: Resource;
  readonly decode: (object: unknown, key: string) => SourceEvent;
}

function watched(nodeName: string): WatchedKind[] {
  return [
    {
      of: 'services',
      resource: {
        path: '/api/v1/services',
        labelSelector: `!${PROXY_NAME_LABEL}`,
        fieldSelector: 'spec.clusterIP!=None',
      },
      decode: decodeService,
    },
    {
      of: 'slices',
      resource: { path: '/apis/discovery.k8s.io/v1/endpointslices', labelSelector: `!${HEADLESS_LABEL}` },
      decode: decodeSlice,
    },
    {
      of: 'nodes',
      resource: { path: '/api/v1/nodes', fieldSelector: `metadata.name=${nodeName}` },
      decode: decodeNode,
    },
  ];
}

function eventSink(kind: WatchedKind, emit: EventSink, { clock, log }: KubernetesOptions): ReflectorSink {
  let failingSince: string | undefined;
  return {
    set(key, object) {
      // The API server checks names; one that is not one would not come from it.
      if (kind.of === 'nodes' || objectKey(object) === key) emit(kind.decode(object, key));
    },
    gone: (key) => emit(goneEvent(kind.of, key)),
    synced: () => emit({ kind: 'synced', of: kind.of }),
    failed(error, failures) {
      failingSince ??= new Date(clock.wall()).toISOString();
      log.warn(
        { of: kind.of, since: failingSince, failures },
        `cannot follow ${kind.of} since ${failingSince}: ${error.message}; rules stay as they are, trying again`,
      );
    },
    recovered(failures) {
      log.info({ of: kind.of, since: failingSince, failures }, `following ${kind.of} again`);
      failingSince = undefined;
    },
  };
}
