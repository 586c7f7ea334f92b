/** The commands of the lab to its hosts, and their answers. */
export interface Serve {
  readonly kind: 'serve';
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  readonly name: string;
  /** Default: all addresses. Without an address, a host answers UDP from the address that its routes choose. */
  readonly address?: string | undefined;
}

export interface HostRequest {
  readonly kind: 'ask';
  readonly protocol: 'TCP' | 'UDP';
  readonly address: string;
  readonly port: number;
  /** Milliseconds. */
  readonly timeout: number;
  /** Source address; default: the kernel's choice. */
  readonly from?: string | undefined;
  /** Source port: a client that keeps its port keeps its flow. Default: the kernel's choice. */
  readonly fromPort?: number | undefined;
  /** TCP: use the connection of this name, which stays open for later requests. Default: a new connection. */
  readonly keep?: string | undefined;
}

export type HostCommand = Serve | HostRequest;

export type HostAnswer =
  | { readonly outcome: 'serving' | 'refused' | 'timeout' }
  /** Answered by the host of this name, which saw the client under this address. */
  | { readonly outcome: 'reply'; readonly by: string; readonly seen: string }
  | { readonly outcome: 'error'; readonly error: string };
