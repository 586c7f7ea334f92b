/** What the lab asks of its hosts. */
export interface Serve {
  readonly kind: 'serve';
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  readonly name: string;
  /** Default: every address. A host with several answers UDP from the one that its routes choose, unless it is bound. */
  readonly address?: string | undefined;
}

export interface Ask {
  readonly kind: 'ask';
  readonly protocol: 'TCP' | 'UDP';
  readonly address: string;
  readonly port: number;
  /** Milliseconds. */
  readonly timeout: number;
  /** Source address; default: the kernel's choice. */
  readonly from?: string | undefined;
  /** Source port: a client that keeps it keeps its flow. Default: the kernel's choice. */
  readonly fromPort?: number | undefined;
  /** TCP: ask over the connection of this name, which stays open for the next that names it. Default: one of its own. */
  readonly keep?: string | undefined;
}

export type HostCommand = Serve | Ask;

export type Answer =
  | { readonly outcome: 'serving' | 'refused' | 'timeout' }
  /** Answered by the host of this name, which saw the client under this address. */
  | { readonly outcome: 'reply'; readonly by: string; readonly seen: string }
  | { readonly outcome: 'error'; readonly error: string };
