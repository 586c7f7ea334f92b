/** The result of a reading: a value, or the reason why it is unknown. Unknown is not empty (invariant 2). */
export type Observed<T> =
  | { readonly kind: 'known'; readonly value: T }
  | { readonly kind: 'unknown'; readonly cause: string };
