/** The configuration of one run: made once from the flags, then frozen. Parts of it are passed on, never the whole. */

import type { Address, Cidr } from '../base/address.ts';
import type { ConntrackSettings } from '../kernel/conntrack-settings.ts';
import type { IptablesBackend } from '../kernel/iptables-tools.ts';
import type { SchedulerText } from '../proxy/model/ipvs-scheduler.ts';
import type { ModeName } from '../proxy/model/modes.ts';
import type { PortRange } from '../proxy/model/port-range.ts';
import type { FeatureGates } from './feature-gates.ts';
import type { ServeConfig } from './listen.ts';
import type { LogConfig } from './readers.ts';

export type SourceConfig =
  | {
      readonly kind: 'manifests';
      readonly path: string;
      /** The range of allowed node ports. */
      readonly nodePorts: PortRange;
      /** Whether Services may have an address of this node together with a port in use. */
      readonly allowsNodeAddressPorts: boolean;
    }
  | {
      readonly kind: 'kubernetes';
      readonly kubeconfig: string | undefined;
      readonly master: string | undefined;
      /** Content type of lists of Services and EndpointSlices. */
      readonly contentType: (typeof CONTENT_TYPES)[number];
    };

/** Content types of the API server's lists. The first is the default, also of kube-proxy. */
export const CONTENT_TYPES = ['application/vnd.kubernetes.protobuf', 'application/json'] as const;

/** The way in which traffic from local pods is recognised (`--detect-local-mode`). */
export type DetectLocal =
  | { readonly kind: 'cluster-cidr'; readonly cidrs: readonly Cidr[] }
  | { readonly kind: 'node-cidr' }
  | { readonly kind: 'interface'; readonly name: string };

/** Node addresses that accept node ports: all addresses where it is not primary and has no CIDRs. */
export interface NodePortAddresses {
  /** The Node's first address. `known`: that address if the Node or --bind-address names one, otherwise all addresses. */
  readonly primary: boolean | 'known';
  readonly cidrs: readonly Cidr[];
}

/** Settings of IPVS mode alone. */
export interface IpvsConfig {
  /** Of Services that name none. */
  readonly scheduler: SchedulerText;
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

/** With `confirm`, endpoints of a Node get no new connections while the agent finds that nothing there answers. */
export const FAILOVERS = ['none', 'confirm'] as const;

/** With `confirm`, what a predecessor has in the kernel comes back where the agent's rules do not serve. */
export const TAKEOVERS = ['none', 'confirm'] as const;

export interface TakeoverConfig {
  readonly how: (typeof TAKEOVERS)[number];
  /** Milliseconds from the first complete sync to the confirmation. */
  readonly window: number;
}

export const DATAPATH_CHECKS = ['none', 'report', 'healthz'] as const;

/** The value of --mode with which the agent chooses a mode when it starts. kube-proxy has no such value. */
export const AUTO = 'auto';

/** The origin of the mode. */
export type ModeChoice =
  /** `default`: neither a flag nor the file names a mode. */
  | { readonly by: 'configuration' | 'default' }
  /** `why`: the reason for the choice, as a clause; undefined before the choice, when the mode must not be used. */
  | { readonly by: typeof AUTO; readonly why: string | undefined };

export interface Config {
  readonly mode: ModeName;
  readonly modeChoice: ModeChoice;
  readonly ipvs: IpvsConfig;
  readonly source: SourceConfig;
  readonly nodeName: string;
  /** Whether the configuration names the node. Otherwise its name is the host's. */
  readonly isNodeNamed: boolean;
  /** Whether to sync until everything is applied, and then exit. */
  readonly once: boolean;
  readonly detectLocal: DetectLocal;
  readonly masqueradeAll: boolean;
  readonly masqueradeBit: number;
  readonly nodePortAddresses: NodePortAddresses;
  readonly localhostNodePorts: boolean;
  readonly iptablesBackend: IptablesBackend;
  /** Whether nftables mode counts the connections of each frontend. */
  readonly countsConnections: boolean;
  /** Whether there are metrics of each Service: connections, bytes, endpoints. */
  readonly serviceMetrics: boolean;
  /** Whether clients of endpoints that are gone get a reset. */
  readonly resetGone: boolean;
  /** The treatment of Nodes that do not answer. */
  readonly failover: (typeof FAILOVERS)[number];
  readonly takeover: TakeoverConfig;
  /** With `report`, the agent asks itself through its rules; with `healthz` its health depends on the answers, too. */
  readonly datapathCheck: (typeof DATAPATH_CHECKS)[number];
  /** Addresses through which the agent asks itself, one for each family at most. */
  readonly datapathAddresses: readonly Address[];
  /** Milliseconds. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: number;
  readonly bindAddress: Address | undefined;
  readonly conntrack: ConntrackSettings;
  readonly serve: ServeConfig;
  readonly log: LogConfig;
  /** The history on disk; undefined where it is in memory alone. */
  readonly recording: RecordingConfig | undefined;
  /** OOM-killer score, -1000 to 1000. */
  readonly oomScoreAdj: number;
  /** Feature gates that were set. */
  readonly featureGates: FeatureGates;
  /** Milliseconds. It has no effect, because changes arrive through watches. */
  readonly configSyncPeriod: number;
  /** The fields of the file of --config, unchanged. */
  readonly given: Readonly<Record<string, unknown>>;
}
