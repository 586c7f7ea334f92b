/**
 * The server of `slicewire fleet`: /drained, /programmed, the page with its stream, /metrics, /healthz, /livez, /readyz, /statusz and
 * /flagz. Health and metrics are answered to everybody, the rest by the gate.
 */
import { isWrongQuestion, NoAnswer } from '../answers/problem.ts';
import type { Clock } from '../host/clock.ts';
import type { Gate } from '../serve/gate.ts';
import { type Answer, type Asked, type Handler, jsonAnswer, NOT_FOUND, textAnswer } from '../serve/http.ts';
import { type MetricsText, metricsAnswer } from '../serve/metrics-server.ts';
import { FLEET_PAGE, pageAnswer, type ReadPage } from '../serve/page.ts';
import { problemAnswer } from '../serve/questions.ts';
import { type Component, type OwnFacts, zpageAnswer } from '../serve/zpages.ts';
import type { FleetQuestions } from './questions.ts';

export interface FleetServerParts {
  readonly questions: Pick<FleetQuestions, 'drained' | 'programmed'>;
  /** Opens the stream of the page. Throws NoAnswer. */
  readonly live: (asked: Asked) => Answer;
  readonly gate: Gate;
  readonly feed: { readonly isSynced: boolean; readonly watches: readonly Watch[] };
  /** The fleet has been told to stop. */
  readonly isStopping: () => boolean;
  readonly metrics: MetricsText;
  readonly readPage: ReadPage;
  readonly clock: Pick<Clock, 'now'>;
  readonly component: OwnFacts;
}

interface Watch {
  readonly of: string;
  readonly failure: { readonly since: number; readonly cause: string } | undefined;
}

const PATHS = ['/', '/drained', '/programmed', '/live', '/metrics', '/healthz', '/livez', '/readyz', '/statusz'].concat(
  '/flagz',
);
/** Milliseconds after which a failing watch counts: an API server that restarts is away for less. */
const PATIENCE = 60_000;

export function fleetHandler(parts: FleetServerParts): Handler {
  const component: Component = {
    ...{ name: 'slicewire-fleet', flag: '--bind-address', ...parts.component },
    ...{ paths: () => PATHS, isLocal: () => false },
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
        return (await parts.gate(asked)) ?? (await admitted(parts, component, asked));
    }
  };
}

/** The answer to those whom the gate lets pass. */
async function admitted(parts: FleetServerParts, component: Component, asked: Asked): Promise<Answer> {
  const { questions, live, readPage } = parts;
  try {
    switch (asked.path) {
      case '/drained': {
        const answer = await questions.drained(asked);
        return jsonAnswer(answer.drained ? 200 : 504, `${JSON.stringify(answer)}\n`);
      }
      case '/programmed':
        return jsonAnswer(200, `${JSON.stringify(questions.programmed(asked))}\n`);
      case '/live':
        return live(asked);
      default:
        // The gate has decided; a name of the fleet's Service is right here.
        return (
          zpageAnswer(component, { ...asked, host: 'localhost', site: undefined }) ??
          pageAnswer(FLEET_PAGE, readPage, () => undefined, asked) ??
          NOT_FOUND
        );
    }
  } catch (error) {
    if (isWrongQuestion(error)) return problemAnswer(400, error.message);
    if (error instanceof NoAnswer) return problemAnswer(503, error.message, { 'retry-after': '1' });
    return problemAnswer(500, error instanceof Error ? error.message : String(error));
  }
}

/** Why this replica should not be asked now, each as a sentence. */
function unreadiness({ feed, clock, isStopping }: FleetServerParts): string[] {
  if (isStopping()) return ['the fleet stops'];
  if (!feed.isSynced) return ['the initial lists are not complete'];
  return feed.watches
    .filter(({ failure }) => failure !== undefined && clock.now() - failure.since > PATIENCE)
    .map(({ of, failure }) => `cannot follow ${of}: ${failure?.cause}`);
}
