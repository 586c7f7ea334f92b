/** The settings of one family that the table depends on. */
import type { Address, Cidr } from '../../../base/address.ts';
import type { FamilySettings } from '../netfilter/settings.ts';

export interface NftablesSettings extends FamilySettings {
  /** Node ports on all addresses of the node except loopback, or on these addresses. */
  readonly nodePortAddresses: 'all' | readonly Address[];
  /** Drop packets that conntrack calls invalid, unless the sysctl nf_conntrack_tcp_be_liberal is set (k8s#94861). */
  readonly dropInvalid: boolean;
  /** Ranges of the family's cluster IPs. Packets to an address there that no Service has are dropped. undefined: unknown. */
  readonly serviceCidrs: readonly Cidr[] | undefined;
  /** Count the connections to each frontend. */
  readonly countsConnections: boolean;
}
