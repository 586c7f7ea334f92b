/** The kubernetes source: Services, EndpointSlices and the own Node of a cluster, listed and watched with kube-proxy's selectors (reference 1.8). */
import type { Clock } from '../../host/clock.ts';
import {
  type EventSink,
  goneEvent,
  type Source,
  type SourceEvent,
  type SourceKind,
  type WatchStatus,
} from '../../model/events.ts';
import { decodeNode, decodeService, objectKey, PROXY_NAME_LABEL } from '../decode.ts';
import { decodeSlice, HEADLESS_LABEL } from '../decode-slice.ts';
import { ApiError, apiClient } from './client.ts';
import { type ClusterConfig, loadCredentials } from './credentials.ts';
import { Reflector, type ReflectorSink, type Resource, SHORT_WATCH } from './reflector.ts';

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

/** A page of 250 slices is about 1 MB, parsed in a few milliseconds; two are on their way at a time. */
const PAGE = 250;
/** Bookmarks come about once a minute. */
const SILENCE = 90_000;

export function kubernetesSource(options: KubernetesOptions): Source {
  const kinds = watched(options.nodeName).map((kind) => ({ kind, watch: new Watch(kind.of, options) }));
  return {
    watches: () => kinds.map(({ watch }) => watch.status),
    async run(emit, signal) {
      const credentials = await loadCredentials(options);
      const client = apiClient(credentials, options.silence ?? SILENCE);
      const reflectors = kinds.map(({ kind, watch }) => {
        const { clock, pageSize = PAGE } = options;
        const sink = eventSink(kind, emit, watch);
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

function eventSink(kind: WatchedKind, emit: EventSink, watch: Watch): ReflectorSink {
  return {
    set(key, object) {
      // The API server checks names; one that is not one would not come from it.
      if (kind.of === 'nodes' || objectKey(object) === key) emit(kind.decode(object, key));
    },
    gone: (key) => emit(goneEvent(kind.of, key)),
    synced: () => emit({ kind: 'synced', of: kind.of }),
    heard: () => watch.heard(),
    opened: () => watch.opened(),
    failed: (error, failures) => watch.failed(error, failures),
    recovered: (failures) => watch.recovered(failures),
  };
}

/** So often in a row a watch may stand and be silent: when that comes again, something swallows what is sent. */
const MOST_SILENCES = 2;

/** How well one kind can be followed: for the log, and for those who ask. */
class Watch {
  readonly #of: SourceKind;
  readonly #options: Pick<KubernetesOptions, 'clock' | 'log'>;
  #heardAt: number;
  /** When the watch that stands now was opened. */
  #openedAt: number | undefined;
  #failure: WatchStatus['failure'];
  /** Watches in a row that stood and were silent. */
  #silences = 0;
  /** As people read it. */
  #since = '';

  constructor(of: SourceKind, options: Pick<KubernetesOptions, 'clock' | 'log'>) {
    this.#of = of;
    this.#options = options;
    this.#heardAt = options.clock.now();
  }

  get status(): WatchStatus {
    // A watch that stands works, though a quiet cluster says nothing on it for a minute.
    const isOpen = this.#openedAt !== undefined && this.#options.clock.now() - this.#openedAt >= SHORT_WATCH;
    const stands = isOpen && this.#silences < MOST_SILENCES;
    return { of: this.#of, heardAt: this.#heardAt, failure: stands ? undefined : this.#failure };
  }

  heard(): void {
    this.#heardAt = this.#options.clock.now();
  }

  opened(): void {
    this.#openedAt = this.#options.clock.now();
    this.heard();
  }

  failed(error: Error, failures: number): void {
    this.#openedAt = undefined;
    const { clock, log } = this.#options;
    const { lack, status } = error instanceof ApiError ? error : { lack: undefined, status: 0 };
    if (this.#failure === undefined) this.#since = new Date(clock.wall()).toISOString();
    // Who was silent for too long has not been followed for as long.
    const since = this.#failure?.since ?? (lack === 'silent' ? this.#heardAt : clock.now());
    // A server that is overloaded or has lost its own store is ill itself.
    const isServers = lack === 'unreachable' || status === 429 || status >= 500;
    this.#failure = { since, isServers, cause: error.message };
    this.#silences = lack === 'silent' ? this.#silences + 1 : 0;
    const facts = { of: this.#of, since: this.#since, failures };
    log.warn(
      facts,
      `cannot follow ${this.#of} since ${this.#since}: ${error.message}; rules stay as they are, trying again`,
    );
  }

  recovered(failures: number): void {
    this.#silences = 0;
    const facts = { of: this.#of, since: this.#since, failures };
    this.#failure = undefined;
    this.#options.log.info(facts, `following ${this.#of} again`);
  }
}
