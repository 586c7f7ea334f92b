/** What the rules of one family depend on beside the Services. */
import type { Address, Cidr, Family } from '../../model/address.ts';

/** How traffic of this node's pods is told (reference 1.9). */
export type LocalDetector =
  | { readonly kind: 'none' }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'interface'; readonly name: string };

export interface IptablesSettings {
  readonly family: Family;
  readonly masqueradeBit: number;
  readonly masqueradeAll: boolean;
  readonly localDetector: LocalDetector;
  /** Node ports on all addresses of the node, or on these. */
  readonly nodePortAddresses: 'all' | readonly Address[];
  /** Node ports on 127.0.0.0/8: IPv4 only; needs the sysctl route_localnet and the guard in KUBE-FIREWALL. */
  readonly localhostNodePorts: boolean;
  /** Drop packets that conntrack finds invalid: unless the kernel's nf_conntrack_tcp_be_liberal is set (k8s#94861). */
  readonly dropInvalid: boolean;
  /** The node's own addresses: a source range that holds one lets the node itself in (reference 5.7). */
  readonly nodeAddresses: readonly Address[];
}
