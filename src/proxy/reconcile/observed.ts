/** A value from the kernel, or the reason why it is unknown. Unknown is not empty (docs/architecture.md, invariant 2). */
export type Observed<T> =
  | { readonly kind: 'known'; readonly value: T }
  | { readonly kind: 'unknown'; readonly cause: string };
