/** What is asked of the program beside kube-proxy (`kube-proxy-inside.ts`), which reads its metrics. */

export type KubeProxyCommand =
  | { readonly kind: 'ready' }
  /** Answered when all families have been synced. Milliseconds until that is given up. */
  | { readonly kind: 'synced'; readonly within: number }
  | { readonly kind: 'syncs' };

export interface KubeProxyAnswer {
  /** Milliseconds since 1970: when the last family's sync ended. */
  readonly syncedAt: number;
  /** Syncs of all families so far, and the seconds that they took. */
  readonly count: number;
  readonly seconds: number;
}
