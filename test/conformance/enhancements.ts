/** Enhancements of Kubernetes (KEPs) that a service proxy or the controllers of slices meet, and where each stands here. */

export interface Enhancement {
  readonly says: string;
  /** Its stage in Kubernetes 1.37, by the file kep.yaml of kubernetes/enhancements. */
  readonly upstream: string;
  readonly here: string;
  /** Tests that show it, besides the stories that name it. From the root of the repository. */
  readonly shown?: readonly string[];
}

/** By number. */
export const ENHANCEMENTS: Readonly<Record<string, Enhancement>> = {
  'KEP-265': {
    says: 'IPVS mode',
    upstream: 'stable since 1.11, deprecated since 1.35 (KEP-5495)',
    here: 'served; it stays after kube-proxy has removed its own',
    shown: ['test/vm/stories.vm.ts'],
  },
  'KEP-563': {
    says: 'Services of two families',
    upstream: 'stable since 1.23',
    here: 'served; each family has its own rules, and one that fails does not stop the other',
    shown: ['test/proxy/modes/families.test.ts'],
  },
  'KEP-614': { says: 'SCTP', upstream: 'stable since 1.20', here: 'served', shown: ['test/netns/sctp.test.ts'] },
  'KEP-752': {
    says: 'EndpointSlices',
    upstream: 'stable since 1.21',
    here: 'served; `slicewire controller` makes them',
    shown: ['test/cluster/producers/golden.test.ts'],
  },
  'KEP-784': {
    says: 'the configuration file of kube-proxy, v1alpha1',
    upstream: 'alpha; only v1alpha1 is released',
    here: 'read; [kube-proxy-flags.md](kube-proxy-flags.md) has each field',
    shown: ['test/config/file-fields.test.ts'],
  },
  'KEP-1669': {
    says: 'terminating endpoints serve where no others are',
    upstream: 'stable since 1.28',
    here: 'served',
  },
  'KEP-1672': {
    says: 'conditions serving and terminating',
    upstream: 'stable since 1.26',
    here: 'read and written',
    shown: ['test/cluster/producers/golden.test.ts'],
  },
  'KEP-1860': { says: 'ipMode of a load balancer', upstream: 'stable since 1.32', here: 'served' },
  'KEP-1880': {
    says: 'ServiceCIDR and IPAddress',
    upstream: 'stable since 1.33',
    here: 'ServiceCIDRs are read in nftables mode; nothing here needs IPAddresses',
    shown: ['test/cluster/source/kubernetes.test.ts'],
  },
  'KEP-2086': { says: 'internalTrafficPolicy', upstream: 'stable since 1.26', here: 'served' },
  'KEP-2340': {
    says: 'consistent reads from the cache of the API server',
    upstream: 'stable since 1.34',
    here: 'used: lists ask for the newest state, never for any state',
    shown: ['test/cluster/api/reflector.test.ts'],
  },
  'KEP-2433': {
    says: 'hints by zone (`service.kubernetes.io/topology-mode`)',
    upstream: 'stable since 1.33',
    here: 'read by the agent, written by the controller',
    shown: ['test/cluster/producers/topology.test.ts'],
  },
  'KEP-2447': {
    says: 'Services and slices of another proxy (`service-proxy-name`)',
    upstream: 'stable since 1.14',
    here: 'left to it',
  },
  'KEP-2450': {
    says: 'ways to tell local pods (`--detect-local-mode`)',
    upstream: 'stable since 1.18',
    here: 'all four',
    shown: ['test/conformance/stories/cluster-ip.ts'],
  },
  'KEP-3015': {
    says: 'PreferSameZone and PreferSameNode',
    upstream: 'stable since 1.35',
    here: 'read by the agent, written by the controller',
    shown: ['test/cluster/producers/distribution.test.ts'],
  },
  'KEP-3157': {
    says: 'streaming lists',
    upstream: 'beta; on in the server since 1.34, in kube-proxy since 1.35',
    here: 'with the feature gate WatchListClient=true; otherwise pages, since [a stream costs more memory](../design-notes.md#streaming-lists)',
    shown: ['test/cluster/api/streaming.test.ts'],
  },
  'KEP-3178': {
    says: 'chains of iptables by owner',
    upstream: 'stable since 1.28',
    here: "kubelet's chains are left alone",
    shown: ['test/netns/agent.test.ts'],
  },
  'KEP-3453': {
    says: 'small inputs for iptables-restore',
    upstream: 'stable since 1.28',
    here: 'each sync writes what changed, by one process of iptables-restore that stays',
    shown: ['test/kernel/lasting-restore.test.ts'],
  },
  'KEP-3836': {
    says: '/healthz fails on a Node that is being deleted, /livez does not',
    upstream: 'stable since 1.31',
    here: 'served',
    shown: ['test/serve/health.test.ts'],
  },
  'KEP-3866': {
    says: 'nftables mode',
    upstream: 'stable since 1.33',
    here: 'served, over netlink',
    shown: ['test/netns/stories-nftables.test.ts'],
  },
  'KEP-4444': {
    says: 'trafficDistribution',
    upstream: 'stable since 1.33',
    here: 'read by the agent, written by the controller',
    shown: ['test/cluster/producers/distribution.test.ts'],
  },
  'KEP-4858': {
    says: 'strict addresses and CIDRs',
    upstream: 'beta',
    here: 'older objects are read as kube-proxy reads them: `010.0.0.1` is 10.0.0.1',
    shown: ['test/proxy/model/memory.test.ts'],
  },
  'KEP-4974': {
    says: 'Endpoints are deprecated',
    upstream: 'deprecated since 1.33',
    here: 'the agent reads none; the controller writes them as kube-controller-manager does',
    shown: ['test/cluster/producers/endpoints-object.test.ts'],
  },
  'KEP-5311': {
    says: 'names of Services that begin with a digit',
    upstream: 'stable since 1.37',
    here: 'read',
  },
  'KEP-5343': {
    says: 'nftables becomes the default of kube-proxy',
    upstream: 'a warning since 1.37; the default changes in 1.40',
    here: 'the same warning; `--mode=auto` takes nftables mode where nothing stands that would have to move',
    shown: ['test/agent/mode-warning.test.ts', 'test/netns/auto-mode.test.ts'],
  },
  'KEP-5495': {
    says: 'IPVS mode is deprecated',
    upstream: 'deprecated since 1.35; kube-proxy is to lose it in 1.43',
    here: 'IPVS mode stays, and gives no warning',
    shown: ['test/vm/stories.vm.ts'],
  },
  'KEP-5504': {
    says: 'resourceVersions can be compared',
    upstream: 'stable since 1.35',
    here: 'used: a version that goes back means a restored store, and everything is listed again',
    shown: ['test/cluster/api/reflector.test.ts'],
  },
  'KEP-5707': {
    says: 'externalIPs are deprecated',
    upstream: 'deprecated since 1.36; kube-proxy ignores them from about 1.40',
    here: 'served; the feature gate AllowServiceExternalIPs=false ignores them',
  },
  'KEP-5958': {
    says: 'lists without managedFields',
    upstream: 'alpha in 1.38',
    here: 'asked for; servers that do not know it ignore that',
    shown: ['test/cluster/api/client.test.ts'],
  },
  'KEP-6032': {
    says: 'node ports on loopback in nftables mode',
    upstream: 'alpha in 1.37',
    here: 'a relay for TCP in nftables and IPVS mode, where --nodeport-addresses names a loopback range',
    shown: ['test/netns/localhost-relay.test.ts', 'test/vm/localhost-relay.vm.ts'],
  },
};
