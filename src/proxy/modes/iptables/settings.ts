/** The settings of one family that the rules of iptables mode depend on. */
import type { Address } from '../../../base/address.ts';
import type { FamilySettings } from '../netfilter/settings.ts';

export interface IptablesSettings extends FamilySettings {
  /** Node ports on all addresses of the node, or on these. */
  readonly nodePortAddresses: 'all' | readonly Address[];
  /** Node ports on 127.0.0.0/8. IPv4 only; needs the sysctl route_localnet and the guard in KUBE-FIREWALL. */
  readonly localhostNodePorts: boolean;
  /** Drop packets that conntrack calls invalid, unless the sysctl nf_conntrack_tcp_be_liberal is set (k8s#94861). */
  readonly dropInvalid: boolean;
}
