/**
 * The modes, and the differences between them that other parts of the program need: these ask the descriptor instead of comparing names.
 * `agent/build-mode.ts` builds each mode. Pure.
 */
import { LIMIT_NAMES, type LimitName } from './limits.ts';

export const MODE_NAMES = ['iptables', 'ipvs', 'nftables'] as const;

export type ModeName = (typeof MODE_NAMES)[number];

export interface ModeDescriptor {
  /** The writer of the rules: the tools of iptables, or netlink messages of nftables. */
  readonly rulesBy: 'iptables' | 'nftables';
  /** Endpoints are chosen by rules, or by virtual servers, which also translate and refuse without a rule (docs/ipvs.md). */
  readonly balancesBy: 'rules' | 'virtual servers';
  /** Node ports at loopback: by rules for 127.0.0.0/8, or by the agent's relay where --nodeport-addresses names loopback (docs/semantics.md 6.17). */
  readonly loopbackBy: 'rules' | 'relay';
  /** Packets to an address in a range of cluster IPs that no Service has are dropped, so the ServiceCIDRs are followed (KEP-1880). */
  readonly usesServiceCidrs: boolean;
  /** --nftables-count-connections has an effect. */
  readonly countsFrontends: boolean;
  /** An endpoint can be chosen by the client (`slicewire.dev/balance: hash`, docs/traffic.md). */
  readonly hashesClients: boolean;
  /** The limits of connections that the mode can keep (docs/traffic.md). */
  readonly limits: readonly LimitName[];
  /** The addresses that take node ports where --nodeport-addresses is not set, as in kube-proxy. */
  readonly nodePortsAt: 'all' | 'primary';
  /** The default of minSyncPeriod, a duration of Go, as in kube-proxy. */
  readonly minSyncPeriod: string;
  /** The absence of one rule shows that all rules were flushed; otherwise the kernel is read every syncPeriod. */
  readonly hasCanary: boolean;
}

export const MODES: Readonly<Record<ModeName, ModeDescriptor>> = {
  iptables: {
    rulesBy: 'iptables',
    balancesBy: 'rules',
    loopbackBy: 'rules',
    usesServiceCidrs: false,
    countsFrontends: false,
    hashesClients: false,
    // The legacy variant writes a whole table, and connlimit begins to count anew (xt_connlimit.c, connlimit_mt_check).
    limits: ['new-connections'],
    nodePortsAt: 'all',
    minSyncPeriod: '1s',
    hasCanary: true,
  },
  ipvs: {
    rulesBy: 'iptables',
    balancesBy: 'virtual servers',
    loopbackBy: 'relay',
    usesServiceCidrs: false,
    countsFrontends: false,
    hashesClients: true,
    limits: [],
    nodePortsAt: 'all',
    minSyncPeriod: '0s',
    hasCanary: false,
  },
  nftables: {
    rulesBy: 'nftables',
    balancesBy: 'rules',
    loopbackBy: 'relay',
    usesServiceCidrs: true,
    countsFrontends: true,
    hashesClients: true,
    limits: LIMIT_NAMES,
    nodePortsAt: 'primary',
    minSyncPeriod: '1s',
    hasCanary: true,
  },
};
