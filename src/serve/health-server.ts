/** /healthz and /livez (reference 9.1). */
import type { Health, HealthState } from './health.ts';
import { type Answer, type Asked, type Handler, jsonAnswer, NOT_FOUND } from './http.ts';

export interface HealthServerParts {
  readonly health: Health;
  readonly wall: () => number;
  /** Called with what was asked for and the status of the answer. */
  readonly onAnswer: (path: 'healthz' | 'livez', status: number) => void;
}

/** Answers every method, as kube-proxy does. */
export function healthHandler({ health, wall, onAnswer }: HealthServerParts): Handler {
  return ({ path }: Asked): Answer => {
    if (path !== '/healthz' && path !== '/livez') return NOT_FOUND;
    const { state } = health;
    const isLivez = path === '/livez';
    const status = state.healthy && (isLivez || state.nodeEligible) ? 200 : 503;
    onAnswer(isLivez ? 'livez' : 'healthz', status);
    return jsonAnswer(status, JSON.stringify(healthBody(state, { isLivez, isWell: status === 200, now: wall() })));
  };
}

interface BodyInput {
  readonly isLivez: boolean;
  readonly isWell: boolean;
  readonly now: number;
}

/** kube-proxy's fields in its order, then ours: why, and what else is worth knowing. */
function healthBody(state: HealthState, { isLivez, isWell, now }: BodyInput): object {
  const time = (at: number) => new Date(at).toISOString();
  const status = Object.fromEntries(
    [...state.families].map(([family, { lastUpdated, healthy }]) => [
      family,
      { lastUpdated: time(lastUpdated), healthy },
    ]),
  );
  return {
    lastUpdated: time(isWell || !Number.isFinite(state.lastUpdated) ? now : state.lastUpdated),
    currentTime: time(now),
    ...(isLivez ? {} : { nodeEligible: state.nodeEligible }),
    healthy: state.healthy,
    status,
    ...(state.reasons.length > 0 ? { reasons: state.reasons } : {}),
    ...(state.notes.length > 0 ? { notes: state.notes } : {}),
  };
}
