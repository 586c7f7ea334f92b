/** The controllers' events in the API server, and their failures in the log. */
import { ApiError } from '../cluster/api/client.ts';
import type { ClusterEvent, Regarding } from '../cluster/api/event-recorder.ts';
import type { ObjectKey } from '../cluster/producers/api-objects.ts';
import type { ControllerName, ControllerReports } from './controller-context.ts';

const OBJECTS = { slices: 'Service', endpoints: 'Service', mirror: 'Endpoints' } as const;

/** The log, as the controllers use it. */
export interface ControllerLines {
  /** Writes a line of a kind of which there may be one for each object of the cluster. */
  rationed(
    level: 'info' | 'warn',
    line: { readonly kind: string; readonly facts: object; readonly text: string },
  ): void;
  /** Writes a line for each attempt, at `-v 2`. */
  each(facts: object, text: string): void;
}

/** Failures of a key in a row. */
interface Failing {
  reason: string;
  tries: number;
  /** Whether the log says already that there are no more attempts. */
  isGivenUp: boolean;
}

export function controllerEvents(
  recorder: { emit(event: ClusterEvent): void },
  lines: ControllerLines,
): ControllerReports {
  const failing = new Map<string, Failing>();
  const idOf = (controller: ControllerName, key: ObjectKey) => `${controller} ${key}`;
  return {
    service(service, { type, reason, note }) {
      if (service === undefined) return;
      const regarding = regardingOf('Service', `${service.namespace}/${service.name}`, service.uid);
      recorder.emit({ type, reason, note, action: 'ReconcileSlices', regarding });
    },
    endpoints(key, uid, { type, reason, note }) {
      recorder.emit({
        type,
        reason,
        note,
        action: 'ReconcileEndpoints',
        regarding: regardingOf('Endpoints', key, uid),
      });
    },
    failed(controller, key, error, isLast) {
      const reason = reasonOf(error);
      const before = failing.get(idOf(controller, key));
      const isSame = before?.reason === reason;
      const isGivenUp = isLast || (isSame && before.isGivenUp);
      failing.set(idOf(controller, key), { reason, tries: (before?.tries ?? 0) + 1, isGivenUp });
      const then = isLast ? 'no more tries until it changes, or for 12 hours' : 'trying again';
      const facts = { controller, key };
      const text = `${OBJECTS[controller]} ${key}: ${error.message}; ${then}`;
      // Each change of the object causes an attempt, too: the same failure has one line, and its end another.
      if (isSame && (!isLast || before.isGivenUp)) lines.each(facts, text);
      else lines.rationed('warn', { kind: `${controller}: ${reason}`, facts, text });
    },
    worked(controller, key) {
      const before = failing.get(idOf(controller, key));
      if (before === undefined) return;
      failing.delete(idOf(controller, key));
      const { tries } = before;
      const after = tries === 1 ? 'after 1 try that failed' : `after ${tries} tries that failed`;
      const text = `${OBJECTS[controller]} ${key}: done, ${after}`;
      lines.rationed('info', { kind: `${controller}: done`, facts: { controller, key, tries }, text });
    },
    stopped(controller) {
      for (const id of failing.keys()) if (id.startsWith(`${controller} `)) failing.delete(id);
    },
  };
}

/** A text that is equal for similar failures, whatever objects they name. */
function reasonOf(error: Error): string {
  if (error instanceof ApiError) return ['API', error.status, ...error.reasons].join(' ');
  return 'code' in error ? String(error.code) : error.name;
}

function regardingOf(kind: 'Service' | 'Endpoints', key: ObjectKey, uid: string | undefined): Regarding {
  const [namespace = '', name = ''] = key.split('/');
  return { apiVersion: 'v1', kind, namespace, name, uid: uid || undefined };
}
