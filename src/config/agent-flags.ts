/**
 * The agent's flags as data: kube-proxy's, with their names and meanings, and slicewire's own. `from-flags.ts` applies the defaults; the
 * help repeats them.
 */
import { SCHEDULERS } from '../proxy/model/ipvs-scheduler.ts';
import { MODE_NAMES } from '../proxy/model/modes.ts';
import { AUTO, CONTENT_TYPES, DATAPATH_CHECKS, FAILOVERS, TAKEOVERS } from './config.ts';
import { type FlagGroup, hidden, option } from './flags.ts';

const MODE_WORDS = [...MODE_NAMES, AUTO];

const MODE: FlagGroup = {
  title: 'Mode',
  flags: [
    option(
      '--mode <mode>',
      'iptables, ipvs or nftables; auto: the mode whose rules stand on this node, otherwise nftables where the kernel can',
      { initial: 'iptables', values: MODE_WORDS, isEssential: true },
    ),
    option('--proxy-mode <mode>', "the same, by kube-proxy's name", { values: MODE_WORDS }),
  ],
};

const OBJECTS: FlagGroup = {
  title: 'Objects',
  flags: [
    option('--manifests <path>', 'read objects from a folder, a file, or - for standard input; needs no cluster', {
      isEssential: true,
    }),
    option(
      '--service-node-port-range <range>',
      'with --manifests: ignore node ports outside this range, such as 30000-32767 or 30000+2767',
      { initial: '30000-32767' },
    ),
    option(
      '--allow-node-address-ports [bool]',
      'with --manifests: let Services use an address and port of this node that a program already serves',
    ),
    option('--kubeconfig <file>', 'how to reach the API server; default: the service account of the pod', {
      isEssential: true,
    }),
    option('--master <url>', 'address of the API server; overrides the kubeconfig'),
    option(
      '--kube-api-content-type <type>',
      'encoding of lists and watches: application/vnd.kubernetes.protobuf (default; JSON if the API server lacks it) or application/json',
      { values: CONTENT_TYPES },
    ),
  ],
};

const NODE: FlagGroup = {
  title: 'Node',
  flags: [
    option('--hostname-override <name>', 'name of this Node (default: the host name)', { isEssential: true }),
    option('--bind-address <address>', "this node's primary address; no socket listens on it"),
    option(
      '--nodeport-addresses <list>',
      'where node ports are served: CIDRs, primary, localhost, all (default: all; in nftables mode: primary)',
      { values: ['all', 'primary', 'localhost'], isEssential: true },
    ),
  ],
};

const LOCAL_TRAFFIC: FlagGroup = {
  title: 'Local traffic and masquerading',
  flags: [
    option(
      '--cluster-cidr <cidrs>',
      'range of pod addresses, one per family; other traffic to cluster IPs is masqueraded',
      { isEssential: true },
    ),
    option(
      '--detect-local-mode <mode>',
      'how traffic from local pods is recognised: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix',
      { values: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] },
    ),
    option('--pod-bridge-interface <name>', 'bridge of the pods, for BridgeInterface'),
    option('--pod-interface-name-prefix <prefix>', "prefix of the pods' interface names, for InterfaceNamePrefix"),
    option('--masquerade-all [bool]', 'masquerade all traffic to cluster IPs'),
  ],
};

const IPTABLES: FlagGroup = {
  title: 'iptables mode',
  flags: [
    option('--iptables-masquerade-bit <bit>', 'bit of the packet mark that requests masquerading, 0 to 31', {
      initial: '14',
    }),
    option('--iptables-localhost-nodeports [bool]', 'serve node ports on 127.0.0.0/8 too', { initial: 'true' }),
    option('--iptables-sync-period <duration>', 'how often to retry, and to check the rules', { initial: '30s' }),
    option(
      '--iptables-min-sync-period <duration>',
      'shortest time between two syncs; one sync takes all changes since the last',
      { initial: '1s' },
    ),
    option('--iptables-backend <variant>', 'iptables tools to use: auto, nft or legacy', {
      initial: 'auto',
      values: ['auto', 'nft', 'legacy'],
    }),
  ],
};

const NFTABLES: FlagGroup = {
  title: 'nftables mode',
  flags: [
    option('--nftables-masquerade-bit <bit>', 'bit of the packet mark that requests masquerading, 0 to 31', {
      initial: '14',
    }),
    option('--nftables-sync-period <duration>', 'how often to retry, and to check the table', { initial: '30s' }),
    option('--nftables-min-sync-period <duration>', 'shortest time between two syncs', { initial: '1s' }),
    option('--nftables-count-connections', 'count the connections to each frontend, for /metrics'),
  ],
};

const IPVS: FlagGroup = {
  title: 'IPVS mode',
  flags: [
    option('--ipvs-scheduler <name>', 'how IPVS chooses an endpoint: rr, lc, sh…; with flags: sh,sh-port', {
      initial: 'rr',
      values: SCHEDULERS,
    }),
    option('--ipvs-sync-period <duration>', 'how often to retry, and to check the kernel', { initial: '30s' }),
    option('--ipvs-min-sync-period <duration>', 'shortest time between two syncs', { initial: '0s' }),
    option('--ipvs-exclude-cidrs <cidrs>', 'keep virtual servers of other programs with an address in these ranges'),
    option('--ipvs-strict-arp [bool]', 'answer ARP for an address only on the interface that has it'),
    option('--ipvs-tcp-timeout <duration>', 'timeout of idle TCP connections of IPVS; 0: unchanged', { initial: '0' }),
    option('--ipvs-tcpfin-timeout <duration>', 'timeout after a FIN; 0: unchanged', { initial: '0' }),
    option('--ipvs-udp-timeout <duration>', 'timeout of UDP flows of IPVS; 0: unchanged', { initial: '0' }),
  ],
};

const CONNTRACK: FlagGroup = {
  title: 'Connection tracking',
  flags: [
    option('--conntrack-max-per-core <n>', 'conntrack entries per CPU core; 0: unchanged', { initial: '32768' }),
    option('--conntrack-min <n>', 'conntrack entries at least', { initial: '131072' }),
    option('--conntrack-tcp-timeout-established <duration>', 'timeout of idle TCP connections; 0: unchanged', {
      initial: '24h',
    }),
    option('--conntrack-tcp-timeout-close-wait <duration>', 'timeout of TCP connections in CLOSE_WAIT; 0: unchanged', {
      initial: '1h',
    }),
    option('--conntrack-tcp-be-liberal [bool]', 'accept TCP packets outside the window as valid'),
    option('--conntrack-udp-timeout <duration>', 'timeout of unanswered UDP flows; 0: unchanged', { initial: '0' }),
    option('--conntrack-udp-timeout-stream <duration>', 'timeout of answered UDP flows; 0: unchanged', {
      initial: '0',
    }),
  ],
};

const FAILOVER: FlagGroup = {
  title: 'Failover',
  flags: [
    option(
      '--reset-gone',
      'reset TCP connections to endpoints that are gone, so that their clients learn it with their next packet',
    ),
    option(
      '--failover <how>',
      'none, or confirm: ask a Node whose endpoints leave connections unanswered, and while nothing there answers, give its endpoints no new ones',
      { initial: 'none', values: FAILOVERS },
    ),
  ],
};

const TAKEOVER: FlagGroup = {
  title: 'Takeover and data path',
  flags: [
    option(
      '--takeover <how>',
      'none, or confirm: keep what another proxy has in the kernel, check whether the new rules serve, and bring it back where they do not',
      { initial: 'none', values: TAKEOVERS },
    ),
    option('--takeover-window <duration>', 'with --takeover=confirm: how long the checks last', { initial: '60s' }),
    option(
      '--datapath-check <how>',
      'none, report: connect through the rules every 2 s, for /healthz/datapath and metrics; or healthz: /healthz depends on it, too',
      { initial: 'none', values: DATAPATH_CHECKS },
    ),
    option(
      '--datapath-addresses <list>',
      'addresses that nobody else uses, one per family, and the one after each: through them the agent asks itself',
      { initial: '192.0.2.80,2001:db8::80' },
    ),
  ],
};

/** A flag of every command that serves HTTP. */
export const MAX_CONNECTIONS_PER_CLIENT = option(
  '--max-connections-per-client <n>',
  'connections that one remote address may have to each port',
  { initial: '16' },
);

const SERVING: FlagGroup = {
  title: 'Health and metrics',
  flags: [
    option('--healthz-bind-address <address>', 'address of /healthz, /livez and /readyz', {
      initial: '0.0.0.0:10256',
      isEssential: true,
    }),
    option(
      '--metrics-bind-address <address>',
      'address of /metrics, of the live page at /, and of what the commands ask the agent',
      {
        initial: '127.0.0.1:10249',
        isEssential: true,
      },
    ),
    option('--scrape-bind-address <address>', 'one more address, for /metrics alone (default: none; port: 10249)'),
    option(
      '--programmed-authentication [bool]',
      'ask other machines for a token before they may read /programmed on the health port',
      { initial: 'true' },
    ),
    MAX_CONNECTIONS_PER_CLIENT,
    option(
      '--fleet-service <name>',
      'Service of the fleet, as NAMESPACE/NAME: a flood of others keeps it out of no port',
      {
        initial: 'kube-system/slicewire-fleet',
      },
    ),
    hidden('--healthz-port <port>'),
    hidden('--metrics-port <port>'),
    option('--bind-address-hard-fail [bool]', 'exit if the health or metrics port cannot be bound; default: retry'),
    option('--profiling [bool]', 'serve /debug/pprof on the metrics port'),
    option(
      '--service-metrics',
      'metrics of each Service: its connections, and its endpoints, used or not, by reason; these are many series',
    ),
  ],
};

const HISTORY: FlagGroup = {
  title: 'History',
  flags: [
    option('--record-dir <folder>', 'keep the history on disk too, across restarts; default: in 8 MB of memory alone'),
    option('--record-size <bytes>', 'with --record-dir: most bytes of its files', { initial: '64Mi' }),
  ],
};

/** A flag of every command that writes a log. */
export const LOGGING_FORMAT = option('--logging-format <format>', 'json or text (default: text on a terminal)', {
  values: ['json', 'text'],
});

const PROCESS: FlagGroup = {
  title: 'Process and log',
  flags: [
    option('--oom-score-adj <score>', 'OOM-killer score, -1000 to 1000', { initial: '-999' }),
    option(
      '--feature-gates <pairs>',
      'AllowServiceExternalIPs=false ignores spec.externalIPs, KubeProxyNFTablesLocalhostNodePorts=false relays no node ports on loopback, WatchListClient=true asks for lists as streams; other gates have no effect',
      {
        values: ['AllowServiceExternalIPs=false', 'AllowServiceExternalIPs=true', 'WatchListClient=true'],
        isJoined: true,
      },
    ),
    LOGGING_FORMAT,
    option('-v, --v <level>', 'log verbosity; from 2 on, log each sync, from 4 on every step that is written', {
      isEssential: true,
    }),
  ],
};

// kube-proxy's flags without effect, and its deprecated ones, are accepted with a warning, so that its command line works unchanged.

interface IdleFlag {
  readonly name: string;
  /** The reason, for the warning. */
  readonly why: string;
}

const idle = (why: string, ...names: string[]): IdleFlag[] => names.map((name) => ({ name, why }));

export const IDLE_FLAGS: readonly IdleFlag[] = [
  ...idle('slicewire has no hidden metrics', 'show-hidden-metrics-for-version'),
  ...idle('the agent sends only a few requests a minute', 'kube-api-qps', 'kube-api-burst'),
  ...idle('changes arrive through watches', 'config-sync-period'),
  ...idle(
    'log lines are written immediately, in one format',
    'log-flush-frequency',
    'vmodule',
    'log-text-split-stream',
    'log-text-info-buffer-size',
    'log-json-split-stream',
    'log-json-info-buffer-size',
  ),
  ...idle('nothing reads it', 'boot-id-file', 'machine-id-file'),
  ...idle(
    'it is for Windows only',
    'windows-service',
    'source-vip',
    'network-name',
    'enable-dsr',
    'root-hnsendpoint-name',
    'forward-healthcheck-vip',
  ),
];

/** The deprecated flags of kube-proxy 1.37 (k8s.io/kubernetes, cmd/kube-proxy/app/options.go), with the flag that replaces each. They work. */
export const DEPRECATED_FLAGS: readonly { readonly name: string; readonly instead: string }[] = [
  { name: 'healthz-port', instead: 'healthz-bind-address' },
  { name: 'metrics-port', instead: 'metrics-bind-address' },
];

const IDLE: FlagGroup = {
  title: 'Without effect',
  flags: IDLE_FLAGS.map(({ name }) => hidden(`--${name} [value]`)),
};

/** The flags of `run`, `plan`, `cleanup` and the questions. */
export const AGENT_FLAGS: readonly FlagGroup[] = [
  MODE,
  OBJECTS,
  NODE,
  LOCAL_TRAFFIC,
  IPTABLES,
  NFTABLES,
  IPVS,
  CONNTRACK,
  FAILOVER,
  TAKEOVER,
  SERVING,
  HISTORY,
  PROCESS,
  IDLE,
];
