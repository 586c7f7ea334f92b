/**
 * The server of `slicewire fleet`: /drained, /programmed, the page with its stream, /metrics, /healthz, /livez, /readyz, /statusz and
 * /flagz. Health and metrics are answered to everybody, the rest where `auth` lets them.
 */
import type { Auth } from '../serve/auth.ts';
import { FOLLOWER_PATHS, type FollowingProgram, followerAnswer } from '../serve/following-program.ts';
import { type Answer, type Handler, type HttpRequest, jsonAnswer, NOT_FOUND } from '../serve/http.ts';
import { FLEET_PAGE, pageAnswer, type ReadPage } from '../serve/page.ts';
import { errorAnswer } from '../serve/query-handler.ts';
import { type Component, type ComponentInfo, zpageAnswer } from '../serve/zpages.ts';
import type { FleetQuestions } from './fleet-queries.ts';

export interface FleetServerParts extends FollowingProgram {
  readonly questions: Pick<FleetQuestions, 'drained' | 'programmed'>;
  /** Opens the stream of the page. Throws NoAnswer. */
  readonly live: (asked: HttpRequest) => Answer;
  readonly auth: Auth;
  readonly readPage: ReadPage;
  readonly component: ComponentInfo;
}

const PATHS = ['/', '/drained', '/programmed', '/live', ...FOLLOWER_PATHS, '/statusz', '/flagz'];

export function fleetHandler(parts: FleetServerParts): Handler {
  const component: Component = {
    ...{ name: 'slicewire-fleet', flag: '--bind-address', ...parts.component },
    ...{ paths: () => PATHS, isLocal: () => false },
  };
  return async (asked: HttpRequest) => {
    const own = await followerAnswer(parts, asked, component.flag);
    if (own !== undefined) return own;
    try {
      return (await parts.auth(asked)) ?? (await admitted(parts, component, asked));
    } catch (error) {
      return errorAnswer(error);
    }
  };
}

/** The answer to those who may ask. */
async function admitted(parts: FleetServerParts, component: Component, asked: HttpRequest): Promise<Answer> {
  const { questions, live, readPage } = parts;
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
      // It was decided who may ask; a name of the fleet's Service is right here.
      return (
        zpageAnswer(component, { ...asked, host: 'localhost', site: undefined }) ??
        pageAnswer(FLEET_PAGE, readPage, () => undefined, asked) ??
        NOT_FOUND
      );
  }
}
