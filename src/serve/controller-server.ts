/** /metrics, /healthz, /livez, /readyz, /statusz and /flagz of `slicewire controller`. */
import type { Clock } from '../host/clock.ts';
import { type Asked, type Handler, NOT_FOUND, textAnswer } from './http.ts';
import { type MetricsText, metricsAnswer } from './metrics-server.ts';
import { type Component, type OwnFacts, zpageAnswer } from './zpages.ts';

export interface ControllerServerParts {
  readonly cache: { readonly isSynced: boolean; readonly watches: readonly Watch[] };
  readonly metrics: MetricsText;
  readonly clock: Pick<Clock, 'now'>;
  readonly component: OwnFacts;
  /** The server listens at loopback. */
  readonly isLocal: boolean;
}

const PATHS = ['/metrics', '/healthz', '/livez', '/readyz', '/statusz', '/flagz'];

interface Watch {
  readonly of: string;
  readonly failure: { readonly since: number; readonly cause: string } | undefined;
}

/** Milliseconds after which a failing watch counts: an API server that restarts is away for less. */
const PATIENCE = 60_000;

export function controllerHandler(parts: ControllerServerParts): Handler {
  const component: Component = {
    ...{ name: 'slicewire-controller', flag: '--bind-address', ...parts.component },
    ...{ paths: () => PATHS, isLocal: () => parts.isLocal },
  };
  return async (asked: Asked) => {
    const { path, method } = asked;
    if (method !== 'GET' && method !== 'HEAD') return textAnswer(405, 'method not allowed\n');
    switch (path) {
      case '/metrics':
        return await metricsAnswer(parts.metrics);
      case '/healthz':
      case '/livez':
        return textAnswer(200, 'ok');
      case '/readyz': {
        const reasons = unreadiness(parts);
        return reasons.length === 0 ? textAnswer(200, 'ok') : textAnswer(503, `${reasons.join('\n')}\n`);
      }
      default:
        return zpageAnswer(component, asked) ?? NOT_FOUND;
    }
  };
}

/** Why this replica could not do its work now, each as a sentence. */
function unreadiness({ cache, clock }: ControllerServerParts): string[] {
  if (!cache.isSynced) return ['the initial lists are not complete'];
  return cache.watches
    .filter(({ failure }) => failure !== undefined && clock.now() - failure.since > PATIENCE)
    .map(({ of, failure }) => `cannot follow ${of}: ${failure?.cause}`);
}
