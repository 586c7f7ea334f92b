/** Flags, as the command line hands them over. */
import type { Flags } from '../../src/config/flags.ts';
import type { Row } from './row.ts';

const m = { manifests: '/m', hostnameOverride: 'node-a' };

export const FLAGS: readonly Row<Flags>[] = [
  {
    name: 'an unknown mode',
    input: { ...m, mode: 'userspace' },
    message: '--mode=userspace: must be iptables, ipvs, nftables or auto',
  },
  {
    name: 'an unknown mode by kube-proxy’s name',
    input: { ...m, proxyMode: 'userspace' },
    message: '--proxy-mode=userspace: must be iptables, ipvs, nftables or auto',
  },
  {
    name: 'two modes',
    input: { ...m, mode: 'ipvs', proxyMode: 'iptables' },
    message: '--proxy-mode=iptables: contradicts --mode=ipvs; give one of them',
  },
  {
    name: 'an address for /metrics alone that is none',
    input: { ...m, scrapeBindAddress: 'node-a' },
    message:
      '--scrape-bind-address=node-a: must be an IP address, or one with a port from 1 to 65535, such as 192.0.2.7:10249',
  },
  {
    name: 'all addresses for /metrics alone, on the port of the metrics server',
    input: { ...m, scrapeBindAddress: '0.0.0.0' },
    message:
      '--scrape-bind-address=0.0.0.0: must not take the port of --metrics-bind-address, which is 127.0.0.1:10249: give one address of this node, or another port',
  },
  {
    name: 'an address for /metrics alone, on the port of the health server',
    input: { ...m, scrapeBindAddress: '192.0.2.7:10256' },
    message:
      '--scrape-bind-address=192.0.2.7:10256: must not take the port of --healthz-bind-address, which is 0.0.0.0:10256: give another address, or another port',
  },
  {
    name: 'a word for whether /programmed needs a token',
    input: { ...m, programmedAuthentication: 'maybe' },
    message: '--programmed-authentication=maybe: must be true or false',
  },
  {
    name: 'no connection for any client',
    input: { ...m, maxConnectionsPerClient: '0' },
    message: '--max-connections-per-client=0: must be a whole number from 1 to 512',
  },
  {
    name: 'a Service of the fleet without its namespace',
    input: { ...m, fleetService: 'slicewire-fleet' },
    message:
      '--fleet-service=slicewire-fleet: must be NAMESPACE/NAME of a Service, such as kube-system/slicewire-fleet',
  },
  {
    name: 'manifests and a kubeconfig',
    input: { ...m, kubeconfig: '/k' },
    message: '--manifests=/m: cannot be combined with --kubeconfig: both name a source of objects; give one of them',
  },
  {
    name: 'manifests and a server',
    input: { ...m, master: 'https://a' },
    message: '--manifests=/m: cannot be combined with --master: both name a source of objects; give one of them',
  },
  {
    name: 'manifests without a path',
    input: { ...m, manifests: '' },
    message: '--manifests=: must name a folder, a file, or - for standard input',
  },
  {
    name: 'a blank name of the node',
    input: { ...m, hostnameOverride: ' ' },
    message: '--hostname-override= : must not be blank: it is the name of this Node',
  },
  {
    name: 'a way to tell pods that is none',
    input: { ...m, detectLocalMode: 'Pods' },
    message: '--detect-local-mode=Pods: must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix',
  },
  {
    name: 'a bridge that is not named',
    input: { ...m, detectLocalMode: 'BridgeInterface' },
    message:
      '--pod-bridge-interface: must be the name of the pod bridge, at most 15 characters, because --detect-local-mode is BridgeInterface',
  },
  {
    name: 'a bridge with a name that is none',
    input: { ...m, detectLocalMode: 'BridgeInterface', podBridgeInterface: 'cni 0' },
    message:
      '--pod-bridge-interface=cni 0: must be the name of the pod bridge, at most 15 characters, because --detect-local-mode is BridgeInterface',
  },
  {
    name: 'a prefix that is not given',
    input: { ...m, detectLocalMode: 'InterfaceNamePrefix' },
    message:
      '--pod-interface-name-prefix: must be the prefix of pod interface names, at most 14 characters, because --detect-local-mode is InterfaceNamePrefix',
  },
  {
    name: 'a range of pods that is none',
    input: { ...m, clusterCidr: '10.0.0.0/40' },
    message: '--cluster-cidr=10.0.0.0/40: must be a CIDR such as 10.244.0.0/16',
  },
  {
    name: 'two ranges of one family',
    input: { ...m, clusterCidr: '10.0.0.0/8,11.0.0.0/8' },
    message: '--cluster-cidr=10.0.0.0/8,11.0.0.0/8: must be one CIDR, or one IPv4 CIDR and one IPv6 CIDR',
  },
  {
    name: 'another failover',
    input: { ...m, failover: 'yes' },
    message: '--failover=yes: must be none or confirm',
  },
  {
    name: 'another takeover',
    input: { ...m, takeover: 'maybe' },
    message: '--takeover=maybe: must be none or confirm',
  },
  {
    name: 'a takeover that is confirmed by nobody',
    input: { ...m, takeover: 'confirm', once: true },
    message: '--takeover=confirm: needs an agent that stays, and --once ends',
  },
  {
    name: 'no time for the checks of a takeover',
    input: { ...m, takeover: 'confirm', takeoverWindow: '0s' },
    message: '--takeover-window=0s: must be more than 0',
  },
  {
    name: 'an address of the data path that is none',
    input: { ...m, datapathAddresses: '192.0.2.1,web' },
    message: '--datapath-addresses=192.0.2.1,web: web is not an IP address',
  },
  {
    name: 'two addresses of the data path of one family',
    input: { ...m, datapathAddresses: '192.0.2.1,192.0.2.2' },
    message: '--datapath-addresses=192.0.2.1,192.0.2.2: 192.0.2.2 is the second address of its family',
  },
  {
    name: 'another check of the data path',
    input: { ...m, datapathCheck: 'yes' },
    message: '--datapath-check=yes: must be none, report or healthz',
  },
  {
    name: 'a folder for the history without a name',
    input: { ...m, recordDir: '' },
    message: '--record-dir=: must name a folder',
  },
  {
    name: 'a size of the history that is none',
    input: { ...m, recordDir: '/r', recordSize: '64 MB' },
    message: '--record-size=64 MB: must be a number of bytes such as 64Mi, at least 1Mi and at most 1024Gi',
  },
  {
    name: 'a history that is too small',
    input: { ...m, recordDir: '/r', recordSize: '1000' },
    message: '--record-size=1000: must be a number of bytes such as 64Mi, at least 1Mi and at most 1024Gi',
  },
  {
    name: 'a size of a history without a folder',
    input: { ...m, recordSize: '1Gi' },
    message: '--record-size has no effect without --record-dir',
  },
  {
    name: 'a bit that is none',
    input: { ...m, iptablesMasqueradeBit: '32' },
    message: '--iptables-masquerade-bit=32: must be a whole number from 0 to 31',
  },
  {
    name: 'a word that is neither true nor false',
    input: { ...m, masqueradeAll: 'yes' },
    message: '--masquerade-all=yes: must be true or false',
  },
  {
    name: 'an address for node ports that is none',
    input: { ...m, nodeportAddresses: 'eth0' },
    message: '--nodeport-addresses=eth0: must be primary, localhost, all or a CIDR such as 10.0.0.0/8',
  },
  {
    name: 'a period that is no duration',
    input: { ...m, iptablesSyncPeriod: '30' },
    message: '--iptables-sync-period=30: must be a duration such as 30s or 1m30s',
  },
  {
    name: 'a period of nothing',
    input: { ...m, iptablesSyncPeriod: '0s' },
    message: '--iptables-sync-period=0s: must be more than 0',
  },
  {
    name: 'a negative pause',
    input: { ...m, iptablesMinSyncPeriod: '-1s' },
    message: '--iptables-min-sync-period=-1s: must not be negative',
  },
  {
    name: 'a pause longer than the period, which nobody gave',
    input: { ...m, iptablesMinSyncPeriod: '40s' },
    message: '--iptables-min-sync-period=40s: must not be longer than --iptables-sync-period, which is 30s by default',
  },
  {
    name: 'a pause longer than the period',
    input: { ...m, iptablesMinSyncPeriod: '40s', iptablesSyncPeriod: '20s' },
    message: '--iptables-min-sync-period=40s: must not be longer than --iptables-sync-period, which is 20s',
  },
  {
    name: 'a period shorter than the pause, which nobody gave',
    input: { ...m, iptablesSyncPeriod: '500ms' },
    message:
      '--iptables-sync-period=500ms: must not be shorter than --iptables-min-sync-period, which is 1s by default',
  },
  {
    name: 'a variant of iptables that is none',
    input: { ...m, iptablesBackend: 'nftables' },
    message: '--iptables-backend=nftables: must be auto, nft or legacy',
  },
  {
    name: 'a scheduler that is no name',
    input: { ...m, mode: 'ipvs', ipvsScheduler: 'Round Robin' },
    message: '--ipvs-scheduler=Round Robin: must begin with the name of a scheduler, such as rr or lc',
  },
  {
    name: 'a size that is no number',
    input: { ...m, conntrackMin: 'many' },
    message: '--conntrack-min=many: must be a whole number from 0 to 2147483647',
  },
  {
    name: 'an address of the node that is none',
    input: { ...m, bindAddress: 'eth0' },
    message: '--bind-address=eth0: must be an IP address',
  },
  {
    name: 'an address for health that is none',
    input: { ...m, healthzBindAddress: 'localhost:10256' },
    message:
      '--healthz-bind-address=localhost:10256: must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:10256',
  },
  {
    name: 'a port for health that is none',
    input: { ...m, healthzPort: '70000' },
    message: '--healthz-port=70000: must be 0 to 65535',
  },
  {
    name: 'metrics that are turned off',
    input: { ...m, metricsPort: '0' },
    message: '--metrics-port=0: must be 1 to 65535: the metrics server cannot be turned off',
  },
  {
    name: 'a form of the log that is none',
    input: { ...m, loggingFormat: 'xml' },
    message: '--logging-format=xml: must be auto, json or text',
  },
  {
    name: 'a verbosity that is none',
    input: { ...m, v: 'debug' },
    message: '--v=debug: must be a whole number from 0 to 2147483647',
  },
  {
    name: 'a score out of its range',
    input: { ...m, oomScoreAdj: '-2000' },
    message: '--oom-score-adj=-2000: must be a whole number from -1000 to 1000',
  },
  {
    name: 'a kind of content that is none',
    input: { kubeApiContentType: 'application/yaml' },
    message:
      '--kube-api-content-type=application/yaml: must be application/vnd.kubernetes.protobuf or application/json',
  },
  {
    name: 'a range of node ports that is none',
    input: { ...m, serviceNodePortRange: '32767-30000' },
    message:
      '--service-node-port-range=32767-30000: must be a range of ports from 1 to 65535, such as 30000-32767 or 30000+2767',
  },
  {
    name: 'two faults',
    input: { ...m, mode: 'x', conntrackMin: '-1' },
    message:
      '--mode=x: must be iptables, ipvs, nftables or auto; --conntrack-min=-1: must be a whole number from 0 to 2147483647',
  },
  {
    name: 'a flag without effect',
    input: { ...m, kubeApiQps: '5' },
    message: '--kube-api-qps has no effect: the agent sends only a few requests a minute',
  },
  {
    name: 'a flag of manifests without them',
    input: { kubeconfig: '/k', serviceNodePortRange: '80-90' },
    message: '--service-node-port-range has no effect without --manifests: an API server checks its objects itself',
  },
  {
    name: 'a configuration file that is not there',
    input: { config: '/no/such/config.yaml' },
    message: '--config /no/such/config.yaml: cannot be read: there is no such file or folder',
  },
  {
    name: 'a configuration file that is a folder',
    input: { config: '/' },
    message: '--config /: cannot be read: it is a folder, not a regular file',
  },
];

export const CONTROLLER_FLAGS: readonly Row<Flags>[] = [
  {
    name: 'a controller that is none',
    input: { controllers: 'nodes' },
    message:
      '--controllers=nodes: nodes is not a controller; choose from endpointslice-controller, endpoints-controller, endpointslice-mirroring-controller; * means all of them, and a - before a name leaves it out',
  },
  { name: 'no controller', input: { controllers: '' }, message: '--controllers=: must name at least one controller' },
  {
    name: 'a deadline as long as the lease, which nobody gave',
    input: { leaderElectRenewDeadline: '15s' },
    message:
      '--leader-elect-renew-deadline=15s: must be shorter than --leader-elect-lease-duration, which is 15s by default',
  },
  {
    name: 'a lease as short as the deadline, which nobody gave',
    input: { leaderElectLeaseDuration: '10s' },
    message:
      '--leader-elect-lease-duration=10s: must be longer than --leader-elect-renew-deadline, which is 10s by default',
  },
  {
    name: 'a period too long for the deadline',
    input: { leaderElectRetryPeriod: '9s' },
    message:
      '--leader-elect-retry-period=9s: must be more than 0, and 1.2 times this period must be less than --leader-elect-renew-deadline, which is 10s',
  },
  {
    name: 'a lease that is no name',
    input: { leaderElectResourceName: 'A_b' },
    message:
      '--leader-elect-resource-name=A_b: must be a name: lower-case letters, digits, - and ., at most 253 characters',
  },
  {
    name: 'an address to listen on that is none',
    input: { bindAddress: 'localhost' },
    message:
      '--bind-address=localhost: must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:10261',
  },
  {
    name: 'slices of more endpoints than may be',
    input: { maxEndpointsPerSlice: '1001' },
    message: '--max-endpoints-per-slice=1001: must be a whole number from 1 to 1000',
  },
];

export const FLEET_FLAGS: readonly Row<Flags>[] = [
  {
    name: 'a Service of the agents without its namespace',
    input: { agentsService: 'slicewire-agents' },
    message:
      '--agents-service=slicewire-agents: must be NAMESPACE/NAME of a Service, such as kube-system/slicewire-agents',
  },
  { name: 'a token without a file', input: { tokenFile: '' }, message: '--token-file=: must name a file' },
  {
    name: 'a negative time for a Node that is not ready',
    input: { leaveOutAfter: '-1m' },
    message: '--leave-out-after=-1m: must not be negative',
  },
  {
    name: 'a word of authentication that is neither true nor false',
    input: { authentication: 'no' },
    message: '--authentication=no: must be true or false',
  },
  {
    name: 'an address of the fleet that is none',
    input: { bindAddress: 'fleet:10262' },
    message:
      '--bind-address=fleet:10262: must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:10262',
  },
];
