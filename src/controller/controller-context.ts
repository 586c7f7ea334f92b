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
  readonly metrics: ControllerMetrics;
  readonly events: ControllerReports;
}

interface ControllerWork extends Omit<WorkersOptions, 'onFailure'> {
  readonly name: ControllerName;
  /** Keys that are worked on first: everything that the cache has. */
  readonly keys: Iterable<ObjectKey>;
  /** Called beside the line of the log. */
  readonly onFailure?: (key: ObjectKey, error: Error) => void;
  /** Another replica may write from now on. */
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
