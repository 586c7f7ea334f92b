/** /metrics, /healthz, /livez and /readyz of a program that follows the API server and writes no rules: the controller, the fleet, the shadow. */
import type { Clock } from '../base/clock.ts';
import { type Answer, type HttpRequest, refusalOfMethod, textAnswer } from './http.ts';
import { type MetricsText, metricsAnswer } from './metrics-server.ts';
import { problemAnswer, refusalOnLoopback } from './query-handler.ts';

export interface FollowingProgram {
  readonly feed: { readonly isSynced: boolean; readonly watches: readonly WatchHealth[] };
  readonly metrics: MetricsText;
  readonly clock: Pick<Clock, 'now'>;
  /** Another reason why it is not ready, as a sentence. */
  readonly unready?: () => string | undefined;
}

interface WatchHealth {
  readonly of: string;
  readonly failure: { readonly since: number; readonly cause: string } | undefined;
}

export const FOLLOWER_PATHS = ['/metrics', '/healthz', '/livez', '/readyz'] as const;

/** Milliseconds after which a failing watch makes a program unready: an API server that restarts is away for less. */
const WATCH_FAILURE_MS = 60_000;

/** undefined where the method is GET or HEAD and the path is another one. `flag`: the flag with the address of the server. */
export async function followerAnswer(
  follower: FollowingProgram,
  request: HttpRequest,
  flag: string,
): Promise<Answer | undefined> {
  const notAllowed = refusalOfMethod(request);
  if (notAllowed !== undefined) return notAllowed;
  switch (request.path) {
    case '/metrics': {
      const refusal = refusalOnLoopback(request, flag);
      return refusal === undefined ? await metricsAnswer(follower.metrics) : problemAnswer(403, refusal);
    }
    case '/healthz':
    case '/livez':
      return textAnswer(200, 'ok');
    case '/readyz': {
      const reasons = unreadiness(follower);
      return reasons.length === 0 ? textAnswer(200, 'ok') : textAnswer(503, `${reasons.join('\n')}\n`);
    }
    default:
      return undefined;
  }
}

/** The reasons why this replica could not do its work now, each as a sentence. */
function unreadiness({ feed, clock, unready }: FollowingProgram): string[] {
  if (!feed.isSynced) return ['the initial lists are not complete'];
  const reason = unready?.();
  if (reason !== undefined) return [reason];
  return feed.watches
    .filter(({ failure }) => failure !== undefined && clock.now() - failure.since > WATCH_FAILURE_MS)
    .map(({ of, failure }) => `cannot follow ${of}: ${failure?.cause}`);
}
