/** The configuration file of a simulated agent. */
import type { Flags } from '../../../src/config/flags.ts';
import type { Settings } from '../history/actions.ts';
import { NODE, NODE_ADDRESSES } from '../history/objects.ts';
import type { HistoryPlan } from '../history/plan.ts';

export const CONFIG_FILE = '/etc/slicewire/config.json';
export const MANIFESTS = '/etc/slicewire/manifests';
export const API_SERVER = 'http://192.168.7.1:6443';
export const RECORD_DIR = '/var/lib/slicewire/history';
/** Bytes: the least that --record-size takes. */
export const RECORD_SIZE = 2 ** 20;
export const HEALTH_PORT = 10_256;
export const METRICS_PORT = 10_249;

/** Where the chosen mode is unknown, all modes serve the same node ports: on addresses that never change, and not on loopback. */
const NODE_RANGES = NODE_ADDRESSES.map((address) => `${address}/${address.includes(':') ? 128 : 32}`);

/** All addresses, as an empty list means, with those of loopback. */
const WITH_LOOPBACK = ['192.168.7.0/24', 'fd00:7::/64', '127.0.0.0/8', '::1/128'];

function nodePortAddresses(
  { nodePortAddresses: ranges }: Settings,
  { choosesMode, relays }: Pick<HistoryPlan, 'choosesMode' | 'relays'>,
): readonly string[] {
  if (choosesMode) return NODE_RANGES;
  return relays && ranges.length === 0 ? WITH_LOOPBACK : ranges;
}

/** A KubeProxyConfiguration, as JSON. */
export function configText(
  settings: Settings,
  plan: Pick<HistoryPlan, 'readsProtobuf' | 'streamsLists' | 'choosesMode' | 'relays'>,
): string {
  const { readsProtobuf, streamsLists, choosesMode } = plan;
  const periods = { syncPeriod: `${settings.syncPeriod}ms`, minSyncPeriod: `${settings.minSyncPeriod}ms` };
  const { masqueradeAll } = settings;
  return JSON.stringify({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: choosesMode ? 'auto' : settings.mode,
    clusterCIDR: '10.244.0.0/16,fd00:244::/48',
    detectLocalMode: 'ClusterCIDR',
    clientConnection: { contentType: readsProtobuf ? 'application/vnd.kubernetes.protobuf' : 'application/json' },
    featureGates: { WatchListClient: streamsLists },
    healthzBindAddress: `127.0.0.1:${HEALTH_PORT}`,
    metricsBindAddress: `127.0.0.1:${METRICS_PORT}`,
    nodePortAddresses: nodePortAddresses(settings, plan),
    iptables: { ...periods, masqueradeAll, ...(choosesMode ? { localhostNodePorts: false } : {}) },
    // It masquerades as the section iptables says.
    ipvs: periods,
    nftables: { ...periods, masqueradeAll },
  });
}

/** The command line of a simulated agent. */
export function flagsOf(
  { source, measures, confirms, records }: Pick<HistoryPlan, 'source' | 'measures' | 'confirms' | 'records'>,
  node: string = NODE,
): Flags {
  const objects = source === 'manifests' ? { manifests: MANIFESTS } : { master: API_SERVER };
  return {
    config: CONFIG_FILE,
    hostnameOverride: node,
    serviceMetrics: measures,
    failover: confirms ? 'confirm' : 'none',
    resetGone: measures,
    ...objects,
    ...(records ? { recordDir: RECORD_DIR, recordSize: String(RECORD_SIZE) } : {}),
  };
}
