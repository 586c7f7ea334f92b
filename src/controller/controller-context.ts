/** The parts that all controllers share. */
import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../cluster/api/client.ts';
import type { Notice, ObjectKey, SelectingService } from '../cluster/producers/api-objects.ts';
import type { MirrorCounts } from '../cluster/producers/mirror.ts';
import type { SliceCounts } from '../cluster/producers/slices.ts';
import type { ClusterCache } from './cluster-cache.ts';
import type { Operation } from './object-writer.ts';
import { type SyncResult, type WorkersOptions, workOff } from './queue.ts';

export type ControllerName = 'slices' | 'endpoints' | 'mirror';

/** Receives the figures behind the metrics, which are those of kube-controller-manager. */
interface ControllerMetricsSink {
  /** A sync of the slices of a Service ended. */
  synced(result: SyncResult): void;
  sliceChanged(of: 'slices' | 'mirror', operation: Operation): void;
  /** `changed`: slices that were written or deleted. */
  slicesCounted(service: SelectingService, counts: SliceCounts, changed: number): void;
  forgetService(key: ObjectKey): void;
  /** `duration`: milliseconds. */
  mirrored(key: ObjectKey, counts: MirrorCounts, duration: number): void;
  forgetMirror(key: ObjectKey): void;
  /** This replica stops writing: another replica counts from now on. */
  stopped(of: 'slices' | 'mirror'): void;
}

/** Events for `kubectl describe`, and failures for the log. */
export interface ControllerReports {
  /** An event of a Service; undefined: the Service is gone, and no event is written. */
  service(service: Pick<SelectingService, 'namespace' | 'name' | 'uid'> | undefined, notice: Notice): void;
  /** An event of Endpoints. */
  endpoints(key: ObjectKey, uid: string | undefined, notice: Notice): void;
  /** Work on a key failed: a line of the log, where it did not fail so before. */
  failed(controller: ControllerName, key: ObjectKey, error: Error, isLast: boolean): void;
  /** Work on a key succeeded: a line of the log, where it failed before. */
  worked(controller: ControllerName, key: ObjectKey): void;
  /** This replica stops writing. */
  stopped(controller: ControllerName): void;
}

export interface ControllerContext {
  readonly cache: ClusterCache;
  /** Each controller has one of its own, at its own pace. */
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly metrics: ControllerMetricsSink;
  readonly events: ControllerReports;
}

// The life of one controller: it works on its keys until the signal aborts, then forgets what it expected.

interface ControllerWork extends Omit<WorkersOptions, 'onFailure'> {
  readonly name: ControllerName;
  /** Keys that are worked on first: everything that the cache has. */
  readonly keys: Iterable<ObjectKey>;
  /** Called beside the line of the log. */
  readonly onFailure?: (key: ObjectKey, error: Error) => void;
  /** Another replica may write from now on. */
  readonly onEnd: () => void;
}

/** Work until the signal aborts. */
export async function runQueue(
  { events }: ControllerContext,
  { name, keys, onFailure, onEnd, sync, ...options }: ControllerWork,
  signal: AbortSignal,
): Promise<void> {
  const onEachFailure = (key: ObjectKey, error: Error, isLast: boolean) => {
    events.failed(name, key, error, isLast);
    onFailure?.(key, error);
  };
  const syncAndTell = async (key: ObjectKey, until: AbortSignal) => {
    await sync(key, until);
    events.worked(name, key);
  };
  try {
    await workOff(keys, { ...options, sync: syncAndTell, onFailure: onEachFailure }, signal);
  } finally {
    events.stopped(name);
    onEnd();
  }
}
