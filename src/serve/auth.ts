/**
 * Who may ask a server that others than this machine can reach (`/programmed` of the agent, all questions to the fleet).
 *
 * Programs of this machine need nothing, as at the metrics server (`query-handler.ts`): both ends are loopback addresses, and `Host` is the
 * server's own. Everybody else sends a bearer token (RFC 6750), which the API server checks, and which must have the right to `get` the path
 * as a nonResourceURL: the rule by which Kubernetes' own components admit clients (k8s.io/apiserver, DelegatingAuthenticationOptions).
 */
import type { Access, AccessVerdict } from '../proxy/model/access.ts';
import type { Answer, HttpRequest } from './http.ts';
import { isOfLoopback, problemAnswer, RETRY_AFTER, refusalOf } from './query-handler.ts';

export interface AuthOptions {
  /** Asked at each request; false: everybody is answered. */
  readonly isOn: () => boolean;
  /** Who decides on tokens; undefined: there is no API server, and only this machine is answered. */
  readonly access: () => Access | undefined;
  /** The flag that `isOn` follows, for the texts: `--programmed-authentication`. */
  readonly flag: string;
  /** Requests that need no token for another reason. Rejects with the signal's reason alone. */
  readonly needsNone?: (asked: HttpRequest) => Promise<boolean>;
}

/** The answer that refuses a request: 401 without a valid token, 403, or 503 where nobody can decide. undefined: it may be answered. */
export type Auth = (asked: HttpRequest) => Promise<Answer | undefined>;

/** Neither the function nor its answers keep a token. */
export function authOf({ isOn, access, flag, needsNone }: AuthOptions): Auth {
  return async (asked) => {
    if (!isOn() || (await needsNone?.(asked)) === true) return undefined;
    const refusal = refusalOf(asked, true);
    if (refusal === undefined) return undefined;
    const decides = access();
    if (decides === undefined) return problemAnswer(403, withoutServer(asked, refusal, flag));
    const token = tokenOf(asked.authorization);
    if (token === undefined) return problemAnswer(401, withoutToken(asked, refusal), CHALLENGE);
    return answerOf(await decides.verdict({ token, path: asked.path, from: asked.remote }, asked.signal), asked.path);
  };
}

/** Only this scheme is known. No realm, and no error code: a client without a token is told nothing else (RFC 6750, section 3.1). */
const CHALLENGE = { 'www-authenticate': 'Bearer' };
const INVALID = { 'www-authenticate': 'Bearer error="invalid_token"' };

function answerOf(verdict: AccessVerdict, path: string): Answer | undefined {
  switch (verdict.kind) {
    case 'allowed':
      return undefined;
    case 'unknown token':
      return problemAnswer(401, `the token is not valid: ${verdict.why}`, INVALID);
    case 'forbidden': {
      const why = verdict.why === '' ? '' : ` (${verdict.why})`;
      const right = `a ClusterRole must allow it the verb get on the nonResourceURL ${path}`;
      return problemAnswer(403, `${verdict.user} may not ask ${path}${why}: ${right}`);
    }
    case 'undecided':
      return problemAnswer(
        503,
        `the token could not be checked, so the request is not answered: ${verdict.why}`,
        RETRY_AFTER,
      );
  }
}

function withoutToken(asked: HttpRequest, refusal: string): string {
  const send = 'send a token of a ServiceAccount (Authorization: Bearer TOKEN)';
  return isLocal(asked) ? `${refusal}, or ${send}` : `${from(asked)} needs a token: ${send}`;
}

function withoutServer(asked: HttpRequest, refusal: string, flag: string): string {
  if (isLocal(asked)) return refusal;
  const why = 'there is no API server that could check a token';
  return `${from(asked)} is not answered, because ${why}: ask on this machine, or set ${flag}=false to answer everybody`;
}

function isLocal({ local, remote }: HttpRequest): boolean {
  return isOfLoopback(local) && isOfLoopback(remote);
}

function from({ remote }: HttpRequest): string {
  return `a request from ${remote}`;
}

/** The token of `Authorization: Bearer TOKEN`; undefined without one, or where it is in no form that RFC 6750 (section 2.1) knows. */
function tokenOf(authorization: string | undefined): string | undefined {
  return /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization ?? '')?.[1];
}
