/** What the table of one family depends on beside the Services. */
import type { Address, Cidr } from '../../model/address.ts';
import type { FamilySettings } from '../netfilter/settings.ts';

export interface NftablesSettings extends FamilySettings {
  /** Node ports on all addresses of the node but loopback ones, or on these. */
  readonly nodePortAddresses: 'all' | readonly Address[];
  /** Drop packets that conntrack finds invalid: unless the kernel's nf_conntrack_tcp_be_liberal is set (k8s#94861). */
  readonly dropInvalid: boolean;
  /** Ranges of the family from which cluster IPs are taken: what goes to one that nobody has goes nowhere. undefined: not known yet. */
  readonly serviceCidrs: readonly Cidr[] | undefined;
  /** Elements of frontends count the connections that come to them. */
  readonly countsConnections: boolean;
}
