/** The server of a shadow: its findings, its page, questions about kube-proxy's rules, metrics and health. */
import { FOLLOWER_PATHS, type FollowingProgram, followerAnswer } from '../serve/following-program.ts';
import { type Handler, type HttpRequest, NOT_FOUND } from '../serve/http.ts';
import { pageAnswer, type ReadPage, SHADOW_PAGE } from '../serve/page.ts';
import { type QueryRoute, questionAnswer, refusalOf } from '../serve/query-handler.ts';
import { type Component, type ComponentInfo, zpageAnswer } from '../serve/zpages.ts';

interface ShadowServerParts extends FollowingProgram {
  readonly questions: ReadonlyMap<string, QueryRoute>;
  readonly isLocal: () => boolean;
  readonly readPage: ReadPage;
  readonly component: ComponentInfo;
}

export function shadowHandler({ questions, isLocal, readPage, component, ...following }: ShadowServerParts): Handler {
  const flag = '--metrics-bind-address';
  const paths = () => ['/', ...questions.keys(), ...FOLLOWER_PATHS, '/statusz', '/flagz'];
  const own: Component = { name: 'slicewire-shadow', flag, ...component, paths, isLocal };
  return async (request: HttpRequest) =>
    (await followerAnswer(following, request, flag)) ??
    zpageAnswer(own, request) ??
    (await questionAnswer({ byPath: questions, isLocal }, request)) ??
    (await pageAnswer(SHADOW_PAGE, readPage, (one) => refusalOf(one, isLocal()), request)) ??
    NOT_FOUND;
}
