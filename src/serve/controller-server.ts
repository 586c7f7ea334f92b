/** /metrics, /healthz, /livez, /readyz, /statusz and /flagz of `slicewire controller`. */
import { FOLLOWER_PATHS, type FollowingProgram, followerAnswer } from './following-program.ts';
import { type Handler, type HttpRequest, NOT_FOUND, textAnswer } from './http.ts';
import { problemAnswer, refusalOnLoopback } from './query-handler.ts';
import { type Component, type ComponentInfo, zpageAnswer } from './zpages.ts';

export interface ControllerServerParts extends Omit<FollowingProgram, 'unready'> {
  readonly component: ComponentInfo;
  /** The server listens at loopback. */
  readonly isLocal: boolean;
}

const PATHS = [...FOLLOWER_PATHS, '/statusz', '/flagz'];

export function controllerHandler(parts: ControllerServerParts): Handler {
  const component: Component = {
    ...{ name: 'slicewire-controller', flag: '--bind-address', ...parts.component },
    ...{ paths: () => PATHS, isLocal: () => parts.isLocal },
  };
  return async (asked: HttpRequest) => {
    const { path, method } = asked;
    if (method !== 'GET' && method !== 'HEAD') return textAnswer(405, 'method not allowed\n');
    const refusal = path === '/metrics' ? refusalOnLoopback(asked, component.flag) : undefined;
    if (refusal !== undefined) return problemAnswer(403, refusal);
    return (await followerAnswer(parts, path)) ?? zpageAnswer(component, asked) ?? NOT_FOUND;
  };
}
