/** Events of the controllers in the API server, and their failures in the log. */
import type { ClusterEvent, Regarding } from '../api/recorder.ts';
import type { ObjectKey } from '../producers/objects.ts';
import type { ControllerReports } from './context.ts';

const OBJECTS = { slices: 'Service', endpoints: 'Service', mirror: 'Endpoints' } as const;

/** `warn`: a line of the log. */
export function controllerEvents(
  recorder: { emit(event: ClusterEvent): void },
  warn: (facts: object, text: string) => void,
): ControllerReports {
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
      const then = isLast ? 'no more tries until it changes, or for 12 hours' : 'trying again';
      warn({ controller, key }, `${OBJECTS[controller]} ${key}: ${error.message}; ${then}`);
    },
  };
}

function regardingOf(kind: 'Service' | 'Endpoints', key: ObjectKey, uid: string | undefined): Regarding {
  const [namespace = '', name = ''] = key.split('/');
  return { apiVersion: 'v1', kind, namespace, name, uid: uid || undefined };
}
