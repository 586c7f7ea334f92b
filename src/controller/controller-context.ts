/** The parts that all controllers share. */
import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../cluster/api/client.ts';
import type { Notice, ObjectKey, SelectingService } from '../cluster/producers/api-objects.ts';
import type { ClusterCache } from './cluster-cache.ts';
import type { ControllerMetrics } from './monitoring.ts';
import { type WorkersOptions, workOff } from './queue.ts';

export type ControllerName = 'slices' | 'endpoints' | 'mirror';

/** Events for `kubectl describe`, and failures for the log. */
export interface ControllerReports {
  /** Writes an event of a Service; none where the Service is gone (undefined). */
  service(service: Pick<SelectingService, 'namespace' | 'name' | 'uid'> | undefined, notice: Notice): void;
  /** Writes an event of Endpoints. */
  endpoints(key: ObjectKey, uid: string | undefined, notice: Notice): void;
  /** Work on a key failed. The log has a line unless it failed in the same way before. */
  failed(controller: ControllerName, key: ObjectKey, error: Error, isLast: boolean): void;
  /** Work on a key succeeded. The log has a line if it failed before. */
  worked(controller: ControllerName, key: ObjectKey): void;
  /** This replica stops writing. */
  stopped(controller: ControllerName): void;
}

export interface ControllerContext {
  readonly cache: ClusterCache;
  /** Each controller has a client of its own, with its own pace. */
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly metrics: ControllerMetrics;
  readonly events: ControllerReports;
}

interface ControllerWork extends Omit<WorkersOptions, 'onFailure'> {
  readonly name: ControllerName;
  /** The first keys: everything in the cache. */
  readonly keys: Iterable<ObjectKey>;
  /** Called beside `ControllerReports.failed`. */
  readonly onFailure?: (key: ObjectKey, error: Error) => void;
  /** Called at the end: another replica may write from now on. */
  readonly onEnd: () => void;
}

/** The life of one controller: it works on its keys until the signal aborts, and then forgets what it expected. */
export async function runQueue(
  { events }: ControllerContext,
  { name, keys, onFailure, onEnd, sync, ...options }: ControllerWork,
  signal: AbortSignal,
): Promise<void> {
  const onEachFailure = (key: ObjectKey, error: Error, isLast: boolean) => {
    events.failed(name, key, error, isLast);
    onFailure?.(key, error);
  };
  const syncAndReport = async (key: ObjectKey, until: AbortSignal) => {
    await sync(key, until);
    events.worked(name, key);
  };
  try {
    await workOff(keys, { ...options, sync: syncAndReport, onFailure: onEachFailure }, signal);
  } finally {
    events.stopped(name);
    onEnd();
  }
}
