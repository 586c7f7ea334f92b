/**
 * The verdict on a request with a bearer token: whether the user of the token may read the path. `cluster/api/access-reviews.ts` asks the API
 * server for it, and `serve/auth.ts` answers the request by it.
 */
export type AccessVerdict =
  /** `user`: the name that the token stands for, such as `system:serviceaccount:kube-system:slicewire-fleet`. */
  | { readonly kind: 'allowed'; readonly user: string }
  /** The token is not valid: expired, made for another audience, or no token at all. `why` is a clause. */
  | { readonly kind: 'unknown token'; readonly why: string }
  /** The token is valid, and its user may not read the path. `why` is a clause, or "" when no reason is known. */
  | { readonly kind: 'forbidden'; readonly user: string; readonly why: string }
  /** There is no verdict, for example because the API server cannot be reached. `why` is a clause. */
  | { readonly kind: 'undecided'; readonly why: string };

export interface AccessQuestion {
  /** A bearer token, as it was sent. It must not be logged or kept. */
  readonly token: string;
  /** Path of the request, without the query, such as `/programmed`. */
  readonly path: string;
  /** The address of the client, as Node.js writes it. */
  readonly from: string;
}

/** Asks for verdicts. Rejects with the signal's reason when that aborts, and never otherwise. */
export interface Access {
  verdict(question: AccessQuestion, signal: AbortSignal): Promise<AccessVerdict>;
}
