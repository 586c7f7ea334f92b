/** /metrics, /healthz, /livez, /readyz, /statusz and /flagz of `slicewire controller`. */
import { FOLLOWER_PATHS, type FollowingProgram, followerAnswer } from './following-program.ts';
import { type Handler, type HttpRequest, NOT_FOUND } from './http.ts';
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
  return async (asked: HttpRequest) =>
    (await followerAnswer(parts, asked, component.flag)) ?? zpageAnswer(component, asked) ?? NOT_FOUND;
}
