/** Emits events to the API server: about the Node, and about Services that are set aside. */

import { realClock } from '../base/clock.ts';
import { type ClusterEvent, EventRecorder, type Regarding } from '../cluster/api/event-recorder.ts';
import type { Config } from '../config/config.ts';
import { userAgent } from '../config/program-version.ts';
import { type Fault, faultText, type ServiceKey } from '../proxy/model/objects.ts';
import type { Log } from '../telemetry/log.ts';
import type { ObjectFeed } from './feed.ts';
import type { Platform } from './platform.ts';
import type { SyncOutcome } from './sync-outcome.ts';

export interface NodeEventsOptions {
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly platform: Pick<Platform, 'connect'>;
}

export class NodeEvents {
  readonly #options: NodeEventsOptions;
  #nodeName: string;
  #feed: ObjectFeed;
  /** undefined where the objects come from manifests, without an API server that takes events. */
  #recorder: EventRecorder | undefined;
  /**
   * Notes of the Services that the kernel refused in the last sync. A note stays the same while its Service is refused, so that the API
   * server counts one event.
   */
  #refused: ReadonlyMap<ServiceKey, string> = new Map();

  constructor(config: Config, feed: ObjectFeed, options: NodeEventsOptions) {
    this.#options = options;
    this.#nodeName = config.nodeName;
    this.#feed = feed;
    this.#recorder = this.#newRecorder(config);
  }

  /** Services that the kernel refused in the last sync. */
  get refusedCount(): number {
    return this.#refused.size;
  }

  /** Another feed means another API server, or another name of this Node. */
  use(feed: ObjectFeed, config: Config): void {
    if (feed !== this.#feed) this.#recorder = this.#newRecorder(config);
    this.#feed = feed;
    this.#nodeName = config.nodeName;
  }

  emitNode(event: Pick<ClusterEvent, 'type' | 'reason' | 'action' | 'note'>): void {
    const name = this.#nodeName;
    this.#emit({ ...event, regarding: { apiVersion: 'v1', kind: 'Node', namespace: '', name, uid: name } });
  }

  /** Another program changed rules of ours, and they are written again. `by` is the text of that program, where it is known. */
  emitDrift(drift: string, by: string | undefined): void {
    const program = by === undefined ? 'another program' : `another program (${by})`;
    this.emitNode({
      type: 'Warning',
      reason: 'RulesChanged',
      action: 'Repair',
      note: `${program} changed rules: ${drift}`,
    });
  }

  /** The takeover of this node ended. `news` says how and why. */
  emitTakeover(news: string, wentBack: boolean): void {
    const [type, reason] = wentBack
      ? (['Warning', 'TakeoverFailed'] as const)
      : (['Normal', 'TakeoverConfirmed'] as const);
    this.emitNode({ type, reason, action: 'TakeOver', note: news });
  }

  /** This process cannot serve a port of a Service. The default reason is that of a health check port. */
  emitUnserved(service: ServiceKey, note: string, reason = 'FailedToStartServiceHealthcheck'): void {
    this.#emit({ type: 'Warning', reason, action: 'Listen', note, regarding: this.#regardingService(service) });
  }

  /** Emits an event only where the whole object is set aside. */
  emitFault(fault: Fault): void {
    if (fault.effect !== 'object set aside' || fault.kind === 'file') return;
    const [namespace = '', name = ''] = fault.object.includes('/') ? fault.object.split('/') : ['', fault.object];
    const apiVersion = fault.kind === 'EndpointSlice' ? 'discovery.k8s.io/v1' : 'v1';
    const regarding = { apiVersion, kind: fault.kind, namespace, name, uid: fault.uid };
    this.#emit({ type: 'Warning', reason: 'SetAside', action: 'ReadObject', note: faultText(fault), regarding });
  }

  /** The Services that the kernel refused in the sync that just ended. */
  emitRefused(refused: SyncOutcome['refused']): void {
    const notes = new Map<ServiceKey, string>();
    for (const [owner, { key, cause }] of refused) {
      const note = this.#refused.get(owner) ?? `is set aside, since the kernel refused ${key}: ${cause}`;
      notes.set(owner, note);
      const regarding = this.#regardingService(owner);
      this.#emit({ type: 'Warning', reason: 'SetAside', action: 'Sync', note, regarding });
    }
    this.#refused = notes;
  }

  #newRecorder({ source, nodeName }: Config): EventRecorder | undefined {
    if (source.kind === 'manifests') return undefined;
    const { log, signal, platform } = this.#options;
    return new EventRecorder({
      connect: platform.connect,
      cluster: source,
      userAgent: userAgent('agent'),
      reporter: { controller: 'slicewire', instance: `slicewire-${nodeName}` },
      clock: realClock,
      signal,
      onFailure: (error) => log.warn(`cannot write events: ${error.message}`),
    });
  }

  #regardingService(service: ServiceKey): Regarding {
    const [namespace = '', name = ''] = service.split('/');
    const uid = this.#feed.cache.service(service)?.uid;
    return { apiVersion: 'v1', kind: 'Service', namespace, name, uid };
  }

  #emit(event: ClusterEvent): void {
    this.#recorder?.emit(event);
  }
}
