/** Whether somebody who sends a token may ask for a path of a server: the verdict, in one form for those who find it and those who act on it. */
export type AccessVerdict =
  /** `user`: the name that the token stands for, such as `system:serviceaccount:kube-system:slicewire-fleet`. */
  | { readonly kind: 'allowed'; readonly user: string }
  /** The token is not valid: expired, made for another audience, or no token at all. `why` is a clause. */
  | { readonly kind: 'unknown token'; readonly why: string }
  /** The token is valid, and its user may not ask. `why` is a clause, or "" where no reason is known. */
  | { readonly kind: 'forbidden'; readonly user: string; readonly why: string }
  /** Nobody could decide, such as when the API server cannot be reached. `why` is a clause. */
  | { readonly kind: 'undecided'; readonly why: string };

export interface AccessQuestion {
  /** A bearer token, as it was sent. It must not be logged or kept. */
  readonly token: string;
  /** Path of the request, without the query, such as `/programmed`. */
  readonly path: string;
  /** Address from which the request came, as Node.js writes it. */
  readonly from: string;
}

/** Finds the verdict. Rejects with the signal's reason when that aborts, and never otherwise. */
export interface Access {
  verdict(question: AccessQuestion, signal: AbortSignal): Promise<AccessVerdict>;
}
