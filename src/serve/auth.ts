/**
 * Authentication and authorization of requests to servers that other machines can reach (`/programmed` of the agent, all questions to the
 * fleet).
 *
 * Programs of this machine need nothing, as at the metrics server (`query-handler.ts`): both ends are loopback addresses, and `Host` is the
 * server's own. All other clients send a bearer token (RFC 6750). The API server checks it, and its user must have the right to `get` the
 * path as a nonResourceURL: the rule by which Kubernetes' own components admit clients (k8s.io/apiserver, DelegatingAuthenticationOptions).
 */
import type { Access, AccessVerdict } from '../proxy/model/access.ts';
import type { Answer, HttpRequest } from './http.ts';
import { isOfLoopback, problemAnswer, RETRY_AFTER, refusalOf } from './query-handler.ts';

export interface AuthOptions {
  /** Called for each request; false lets every client in. */
  readonly isOn: () => boolean;
  /** The API server that decides on tokens. Without one, only this machine is answered. */
  readonly access: () => Access | undefined;
  /** The flag that `isOn` follows, for the texts: `--programmed-authentication`. */
  readonly flag: string;
  /** Whether the request needs no token for another reason. Rejects only with the signal's reason. */
  readonly needsNone?: (request: HttpRequest) => Promise<boolean>;
}

/** The refusal of a request: 401 without a valid token, 403 without the right, 503 where the token cannot be checked. undefined lets it in. */
export type Auth = (request: HttpRequest) => Promise<Answer | undefined>;

/** Neither the result nor its answers keep a token. */
export function authOf({ isOn, access, flag, needsNone }: AuthOptions): Auth {
  return async (request) => {
    if (!isOn() || (await needsNone?.(request)) === true) return undefined;
    const refusal = refusalOf(request, true);
    if (refusal === undefined) return undefined;
    const decides = access();
    if (decides === undefined) return problemAnswer(403, withoutServer(request, refusal, flag));
    const token = tokenOf(request.authorization);
    if (token === undefined) return problemAnswer(401, withoutToken(request, refusal), CHALLENGE);
    return answerOf(
      await decides.verdict({ token, path: request.path, from: request.remote }, request.signal),
      request.path,
    );
  };
}

/** The scheme alone, without a realm and an error code: a client without a token should learn nothing else (RFC 6750, section 3.1). */
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

function withoutToken(request: HttpRequest, refusal: string): string {
  const send = 'send a token of a ServiceAccount (Authorization: Bearer TOKEN)';
  return isLocal(request) ? `${refusal}, or ${send}` : `${from(request)} needs a token: ${send}`;
}

function withoutServer(request: HttpRequest, refusal: string, flag: string): string {
  if (isLocal(request)) return refusal;
  const why = 'there is no API server that could check a token';
  return `${from(request)} is not answered, because ${why}: ask on this machine, or set ${flag}=false to answer every client`;
}

function isLocal({ local, remote }: HttpRequest): boolean {
  return isOfLoopback(local) && isOfLoopback(remote);
}

function from({ remote }: HttpRequest): string {
  return `a request from ${remote}`;
}

/** The token of `Authorization: Bearer TOKEN`; undefined without one, and for a text that is no token of RFC 6750 (section 2.1). */
function tokenOf(authorization: string | undefined): string | undefined {
  return /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization ?? '')?.[1];
}
