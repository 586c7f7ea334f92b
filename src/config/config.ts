/** The configuration of one run: made once from the flags, then frozen. Parts of it are passed on, never the whole. */

import type { Address, Cidr } from '../base/address.ts';
import type { ConntrackSettings } from '../kernel/conntrack-settings.ts';
import type { IptablesBackend } from '../kernel/iptables-tools.ts';
import type { ModeName } from '../proxy/model/modes.ts';
import type { PortRange } from '../proxy/model/port-range.ts';
import type { FeatureGates } from './feature-gates.ts';
import type { ServeConfig } from './listen.ts';
import type { LogConfig } from './readers.ts';

export type SourceConfig =
  | {
      readonly kind: 'manifests';
      readonly path: string;
      /** The range that node ports must be in. */
      readonly nodePorts: PortRange;
      /** Services may have an address of this node together with a port in use. */
      readonly allowsNodeAddressPorts: boolean;
    }
  | {
      readonly kind: 'kubernetes';
      readonly kubeconfig: string | undefined;
      readonly master: string | undefined;
      /** Content type of lists of Services and EndpointSlices. */
      readonly contentType: (typeof CONTENT_TYPES)[number];
    };

/** Content types of the API server's lists; the first is kube-proxy's default, too. */
export const CONTENT_TYPES = ['application/vnd.kubernetes.protobuf', 'application/json'] as const;

/** How traffic from local pods is recognised (`--detect-local-mode`). */
export type DetectLocal =
  | { readonly kind: 'cluster-cidr'; readonly cidrs: readonly Cidr[] }
  | { readonly kind: 'node-cidr' }
  | { readonly kind: 'interface'; readonly name: string };

/** Node addresses that accept node ports; no CIDRs and not primary: all addresses. */
export interface NodePortAddresses {
  /** The Node's first address; `known`: if the Node or --bind-address names one, otherwise all addresses. */
  readonly primary: boolean | 'known';
  readonly cidrs: readonly Cidr[];
}

/** Settings of IPVS mode alone. */
export interface IpvsConfig {
  readonly scheduler: string;
  readonly excludeCidrs: readonly Cidr[];
  readonly strictArp: boolean;
  /** Seconds; 0 keeps the kernel's value. */
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
}

/** History on disk. */
export interface RecordingConfig {
  readonly folder: string;
  /** Bytes of all its files. */
  readonly size: number;
}

/** `confirm`: endpoints of a Node get no new connections while the agent finds that nothing there answers. */
export const FAILOVERS = ['none', 'confirm'] as const;

/** In the place of a mode: the agent chooses one when it starts. kube-proxy has no such word. */
export const AUTO = 'auto';

/** How the mode came about. */
export type ModeChoice =
  /** `default`: neither a flag nor the file names a mode. */
  | { readonly by: 'configuration' | 'default' }
  /** `why`: the reason of the choice, as a clause; undefined: not chosen yet, and the mode must not be used. */
  | { readonly by: typeof AUTO; readonly why: string | undefined };

export interface Config {
  readonly mode: ModeName;
  readonly modeChoice: ModeChoice;
  readonly ipvs: IpvsConfig;
  readonly source: SourceConfig;
  readonly nodeName: string;
  /** The configuration names the node; otherwise it is the host's name. */
  readonly isNodeNamed: boolean;
  /** Sync until everything is applied, then exit. */
  readonly once: boolean;
  readonly detectLocal: DetectLocal;
  readonly masqueradeAll: boolean;
  readonly masqueradeBit: number;
  readonly nodePortAddresses: NodePortAddresses;
  readonly localhostNodePorts: boolean;
  readonly iptablesBackend: IptablesBackend;
  /** nftables mode counts connections of each frontend. */
  readonly countsConnections: boolean;
  /** Metrics of each Service: connections, bytes, endpoints. */
  readonly serviceMetrics: boolean;
  /** What is done about Nodes that do not answer. */
  readonly failover: (typeof FAILOVERS)[number];
  /** Milliseconds. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: number;
  readonly bindAddress: Address | undefined;
  readonly conntrack: ConntrackSettings;
  readonly serve: ServeConfig;
  readonly log: LogConfig;
  /** Where the history is kept on disk; undefined: in memory alone. */
  readonly recording: RecordingConfig | undefined;
  /** OOM-killer score, -1000 to 1000. */
  readonly oomScoreAdj: number;
  /** Feature gates that were set. */
  readonly featureGates: FeatureGates;
  /** Milliseconds; without effect, since changes arrive through watches. */
  readonly configSyncPeriod: number;
  /** The fields of the file of --config, unchanged. */
  readonly given: Readonly<Record<string, unknown>>;
}
