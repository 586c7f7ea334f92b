/** The configuration of one run: made once from the flags, then frozen. Parts of it are passed on, never the whole. */
import type { ConntrackSettings } from '../host/conntrack-settings.ts';
import type { IptablesBackend } from '../host/iptables-tools.ts';
import type { Address, Cidr } from '../model/address.ts';
import type { PortRange } from '../model/port-range.ts';
import type { FeatureGates } from './feature-gates.ts';
import type { ServeConfig } from './listen.ts';
import type { LogConfig } from './log.ts';

export type SourceConfig =
  | {
      readonly kind: 'manifests';
      readonly path: string;
      /** In which node ports must be. */
      readonly nodePorts: PortRange;
      /** Services may have an address of this node with a port that is in use on it. */
      readonly allowsNodeAddressPorts: boolean;
    }
  | {
      readonly kind: 'kubernetes';
      readonly kubeconfig: string | undefined;
      readonly master: string | undefined;
      /** Of lists of Services and EndpointSlices, where the API server has it. */
      readonly contentType: (typeof CONTENT_TYPES)[number];
    };

/** Kinds of content that the API server can be asked for; the first is kube-proxy's default, too. */
export const CONTENT_TYPES = ['application/vnd.kubernetes.protobuf', 'application/json'] as const;

/** How pods of this node are told from other traffic (reference 1.9). */
export type DetectLocal =
  | { readonly kind: 'cluster-cidr'; readonly cidrs: readonly Cidr[] }
  | { readonly kind: 'node-cidr' }
  | { readonly kind: 'interface'; readonly name: string };

/** Which addresses of the node take node ports (reference 1.3); no CIDRs and not primary: all. */
export interface NodePortAddresses {
  /** The Node's first address; `known`: if it is told of the Node or by --bind-address, otherwise all. */
  readonly primary: boolean | 'known';
  readonly cidrs: readonly Cidr[];
}

/** What IPVS mode is told beside what all modes are. */
export interface IpvsConfig {
  readonly scheduler: string;
  readonly excludeCidrs: readonly Cidr[];
  readonly strictArp: boolean;
  /** Seconds; 0 leaves the kernel's. */
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
}

export const MODES = ['iptables', 'ipvs', 'nftables'] as const;

export interface Config {
  readonly mode: (typeof MODES)[number];
  readonly ipvs: IpvsConfig;
  readonly source: SourceConfig;
  readonly nodeName: string;
  /** By the configuration; otherwise it is the host's. */
  readonly isNodeNamed: boolean;
  /** Sync until everything is applied, then exit. */
  readonly once: boolean;
  readonly detectLocal: DetectLocal;
  readonly masqueradeAll: boolean;
  readonly masqueradeBit: number;
  readonly nodePortAddresses: NodePortAddresses;
  readonly localhostNodePorts: boolean;
  readonly iptablesBackend: IptablesBackend;
  /** nftables mode counts connections by frontend. */
  readonly countsConnections: boolean;
  /** Milliseconds. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: number;
  readonly bindAddress: Address | undefined;
  readonly conntrack: ConntrackSettings;
  readonly serve: ServeConfig;
  readonly log: LogConfig;
  /** What the kernel prefers to end when memory is short: -1000 never, 1000 first. */
  readonly oomScoreAdj: number;
  /** Those that were set. */
  readonly featureGates: FeatureGates;
  /** Milliseconds; nothing follows from it, since changes arrive through watches. */
  readonly configSyncPeriod: number;
  /** The fields of the file, as they stood there. */
  readonly given: Readonly<Record<string, unknown>>;
}
