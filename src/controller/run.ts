/** The life of one controller: it works on its keys until the signal aborts, then forgets what it expected. */
import type { ObjectKey } from '../cluster/producers/api-objects.ts';
import type { ControllerContext, ControllerName } from './controller-context.ts';
import { type WorkersOptions, workOff } from './workers.ts';

export interface ControllerWork extends Omit<WorkersOptions, 'onFailure'> {
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
