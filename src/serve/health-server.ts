/** /healthz and /livez as kube-proxy answers them, /readyz and /healthz/datapath in the same form, and /programmed for clients that have the right. */
import type { Auth } from './auth.ts';
import type { Health } from './health.ts';
import type { HealthCheck, HealthState } from './health-judgement.ts';
import { type Answer, type Handler, type HttpRequest, jsonAnswer, NOT_FOUND, refusalOfMethod } from './http.ts';
import { checkedAnswer, type QueryRoute, type StreamRoute } from './query-handler.ts';

export interface HealthServerParts {
  readonly health: Health;
  readonly wall: () => number;
  /** Called with the question and the status of the answer. */
  readonly onAnswer: (question: HealthCheck, status: number) => void;
  /** Further questions by path, and the clients that may ask them. */
  readonly queries?: { readonly auth: Auth; readonly byPath: ReadonlyMap<string, QueryRoute | StreamRoute> };
}

const QUESTIONS: ReadonlyMap<string, HealthCheck> = new Map([
  ['/healthz', 'healthz'],
  ['/livez', 'livez'],
  ['/readyz', 'readyz'],
  ['/healthz/datapath', 'datapath'],
]);

/** Answers every method with the health, as kube-proxy does. */
export function healthHandler({ health, wall, onAnswer, queries }: HealthServerParts): Handler {
  return (request: HttpRequest): Answer | Promise<Answer> => {
    const { path } = request;
    const question = QUESTIONS.get(path);
    if (question === undefined) return queries === undefined ? NOT_FOUND : queryAnswer(queries, request);
    const { state } = health;
    if (question === 'datapath' && !state.checksDatapath) return NOT_FOUND;
    const isOk = state.reasons[question].length === 0;
    const status = isOk && (question !== 'healthz' || state.nodeEligible) ? 200 : 503;
    onAnswer(question, status);
    return jsonAnswer(status, JSON.stringify(healthBody(state, { question, isOk: status === 200, now: wall() })));
  };
}

async function queryAnswer(
  { auth, byPath }: NonNullable<HealthServerParts['queries']>,
  request: HttpRequest,
): Promise<Answer> {
  const route = byPath.get(request.path);
  if (route === undefined) return NOT_FOUND;
  return refusalOfMethod(request) ?? (await auth(request)) ?? (await checkedAnswer(route, request));
}

interface BodyInput {
  readonly question: HealthCheck;
  readonly isOk: boolean;
  readonly now: number;
}

/** kube-proxy's fields in its order, then reasons and notes of slicewire. */
function healthBody(state: HealthState, { question, isOk, now }: BodyInput): object {
  const time = (at: number) => new Date(at).toISOString();
  const status = Object.fromEntries(
    [...state.families].map(([family, { lastUpdated, healthy }]) => [
      family,
      { lastUpdated: time(lastUpdated), healthy },
    ]),
  );
  const reasons = state.reasons[question];
  // Reasons of the other answers are notes of this one.
  const others = [...state.reasons.readyz, ...state.reasons.healthz, ...state.reasons.datapath].filter(
    (reason) => !reasons.includes(reason),
  );
  const notes = [...new Set([...others, ...state.notes])];
  return {
    lastUpdated: time(isOk || !Number.isFinite(state.lastUpdated) ? now : state.lastUpdated),
    currentTime: time(now),
    ...(question === 'healthz' ? { nodeEligible: state.nodeEligible } : {}),
    healthy: reasons.length === 0,
    status,
    ...(reasons.length > 0 ? { reasons } : {}),
    ...(notes.length > 0 ? { notes } : {}),
  };
}
