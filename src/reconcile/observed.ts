/** What was read from the kernel: a value, or the reason why it is not known. Unknown is not empty (invariant 2). */
export type Observed<T> =
  | { readonly kind: 'known'; readonly value: T }
  | { readonly kind: 'unknown'; readonly cause: string };
