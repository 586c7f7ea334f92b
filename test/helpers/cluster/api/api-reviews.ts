/**
 * TokenReviews and SubjectAccessReviews as a kube-apiserver answers them. A test says which tokens there are, and who may get which path.
 * An audience that a review names and a token lacks makes the token unknown, in the words of the authenticator of ServiceAccounts.
 */
/** What the API server takes a token without audiences for. */
export const OWN_AUDIENCE = 'https://kubernetes.default.svc.cluster.local';

/** A token in the form of a ServiceAccount's, as long as `exp` (seconds since 1970) says; its signature is none. */
export function madeToken(name: string, audience: string | readonly string[], more: object = {}): string {
  const claims = { iss: OWN_AUDIENCE, sub: name, aud: audience, ...more };
  const parts = [JSON.stringify({ alg: 'RS256' }), JSON.stringify(claims), 'signature'];
  return parts.map((part) => Buffer.from(part).toString('base64url')).join('.');
}

export interface KnownToken {
  readonly username: string;
  readonly groups?: readonly string[];
  /** Default: the API server's own. */
  readonly audiences?: readonly string[];
}

interface TokenReview {
  readonly spec: { readonly token: string; readonly audiences?: readonly string[] };
}

interface SubjectAccessReview {
  readonly spec: {
    readonly user: string;
    readonly groups?: readonly string[];
    readonly nonResourceAttributes?: { readonly path: string; readonly verb: string };
  };
}

export class ApiReviews {
  /** By the token. */
  readonly tokens = new Map<string, KnownToken>();
  /** `USER PATH` or `GROUP PATH`, which may be got. */
  readonly allowed = new Set<string>();
  /** The reviews as they came, by kind. */
  readonly asked: { readonly kind: string; readonly spec: object }[] = [];
  /** An API server whose authenticator knows no audiences. */
  knowsAudiences = true;
  /** Reviews wait for this before they are answered. */
  hold: Promise<void> | undefined;

  /** The account's token, as the projected volume of a pod has it. */
  account(token: string, [namespace, name]: readonly [string, string], ...audiences: readonly string[]): void {
    const username = `system:serviceaccount:${namespace}:${name}`;
    const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'];
    this.tokens.set(token, { username, groups, ...(audiences.length === 0 ? {} : { audiences }) });
  }

  /** The object with its status; undefined: the path is no review. */
  async answer(path: string, body: unknown): Promise<object | undefined> {
    if (path.endsWith('/apis/authentication.k8s.io/v1/tokenreviews')) return await this.#token(body as TokenReview);
    if (!path.endsWith('/apis/authorization.k8s.io/v1/subjectaccessreviews')) return undefined;
    return await this.#access(body as SubjectAccessReview);
  }

  async #token({ spec, ...rest }: TokenReview): Promise<object> {
    this.asked.push({ kind: 'TokenReview', spec });
    await this.hold;
    const { token, audiences = [OWN_AUDIENCE] } = spec;
    const known = this.tokens.get(token);
    const has = known?.audiences ?? [OWN_AUDIENCE];
    const common = this.knowsAudiences ? audiences.filter((one) => has.includes(one)) : has;
    if (known === undefined || common.length === 0) {
      const lack = `[invalid bearer token, token audiences ${JSON.stringify(has)} is invalid for the target audiences]`;
      return { ...rest, spec, status: { user: {}, error: known === undefined ? 'invalid bearer token' : lack } };
    }
    const { username, groups } = known;
    const user = {
      username,
      uid: `uid of ${username}`,
      groups,
      extra: { 'authentication.kubernetes.io/pod-name': ['a'] },
    };
    const told = this.knowsAudiences ? { audiences: common } : {};
    return { ...rest, spec, status: { authenticated: true, user, ...told } };
  }

  async #access({ spec, ...rest }: SubjectAccessReview): Promise<object> {
    this.asked.push({ kind: 'SubjectAccessReview', spec });
    await this.hold;
    const { user, groups = [], nonResourceAttributes } = spec;
    const path = nonResourceAttributes?.verb === 'get' ? nonResourceAttributes.path : '';
    const allowed = [user, ...groups].some((who) => this.allowed.has(`${who} ${path}`));
    const reason = allowed ? 'RBAC: allowed by ClusterRoleBinding "test"' : '';
    return { ...rest, spec, status: { allowed, ...(reason === '' ? {} : { reason }) } };
  }
}
