/** The flags of the agent: kube-proxy's, by their names and meanings, and those of slicewire. */
import { type Command, Option } from 'commander';
import { IDLE_FLAGS } from '../config/kube-proxy-flags.ts';

/** `run`, `plan` and `cleanup` take these. Defaults are in config/config.ts; the help repeats them. */
export function withAgentFlags(command: Command): Command {
  const groups = [modeFlags, sourceFlags, nodeFlags, localTrafficFlags, iptablesFlags, nftablesFlags, ipvsFlags];
  for (const add of [...groups, conntrackFlags, servingFlags, recordingFlags, otherFlags]) add(command);
  // Flags of kube-proxy without effect are accepted with a warning; the help leaves them out.
  for (const { name } of IDLE_FLAGS) command.addOption(new Option(`--${name} [value]`).hideHelp());
  return command.optionsGroup('Command:');
}

function modeFlags(command: Command): void {
  command
    .optionsGroup('Mode:')
    .option('--mode <mode>', 'iptables, ipvs or nftables (default: iptables)')
    .option('--proxy-mode <mode>', "the same, by kube-proxy's name");
}

function sourceFlags(command: Command): void {
  command
    .optionsGroup('Objects:')
    .option('--manifests <path>', 'read objects from a folder, a file, or - for standard input; needs no cluster')
    .option(
      '--service-node-port-range <range>',
      'with --manifests: ignore node ports outside this range, such as 30000-32767 or 30000+2767 (default: 30000-32767)',
    )
    .option(
      '--allow-node-address-ports [bool]',
      'with --manifests: let Services use an address and port of this node that a program already serves',
    )
    .option('--kubeconfig <file>', 'how to reach the API server; default: the service account of the pod')
    .option('--master <url>', 'address of the API server; overrides the kubeconfig')
    .option(
      '--kube-api-content-type <type>',
      'encoding of lists and watches: application/vnd.kubernetes.protobuf (default; JSON if the API server lacks it) or application/json',
    );
}

function nodeFlags(command: Command): void {
  command
    .optionsGroup('Node:')
    .option('--hostname-override <name>', 'name of this Node (default: the host name)')
    .option('--bind-address <address>', "this node's primary address; no socket listens on it")
    .option(
      '--nodeport-addresses <list>',
      'where node ports are served: CIDRs, primary, localhost, all (default: all; in nftables mode: primary)',
    );
}

function localTrafficFlags(command: Command): void {
  command
    .optionsGroup('Local traffic and masquerading:')
    .option(
      '--cluster-cidr <cidrs>',
      'range of pod addresses, one per family; other traffic to cluster IPs is masqueraded',
    )
    .option(
      '--detect-local-mode <mode>',
      'how traffic from local pods is recognised: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix',
    )
    .option('--pod-bridge-interface <name>', 'bridge of the pods, for BridgeInterface')
    .option('--pod-interface-name-prefix <prefix>', "prefix of the pods' interface names, for InterfaceNamePrefix")
    .option('--masquerade-all [bool]', 'masquerade all traffic to cluster IPs');
}

function iptablesFlags(command: Command): void {
  command
    .optionsGroup('iptables mode:')
    .option(
      '--iptables-masquerade-bit <bit>',
      'bit of the packet mark that requests masquerading, 0 to 31 (default: 14)',
    )
    .option('--iptables-localhost-nodeports [bool]', 'serve node ports on 127.0.0.0/8 too (default: true)')
    .option('--iptables-sync-period <duration>', 'how often to retry, and to check the rules (default: 30s)')
    .option(
      '--iptables-min-sync-period <duration>',
      'shortest time between two syncs; one sync takes all changes since the last (default: 1s)',
    )
    .option('--iptables-backend <variant>', 'iptables tools to use: auto, nft or legacy (default: auto)');
}

function nftablesFlags(command: Command): void {
  command
    .optionsGroup('nftables mode:')
    .option(
      '--nftables-masquerade-bit <bit>',
      'bit of the packet mark that requests masquerading, 0 to 31 (default: 14)',
    )
    .option('--nftables-sync-period <duration>', 'how often to retry, and to check the table (default: 30s)')
    .option('--nftables-min-sync-period <duration>', 'shortest time between two syncs (default: 1s)')
    .option('--nftables-count-connections', 'count the connections to each frontend, for /metrics');
}

function ipvsFlags(command: Command): void {
  command
    .optionsGroup('IPVS mode:')
    .option('--ipvs-scheduler <name>', 'how IPVS chooses an endpoint: rr, lc, sh… (default: rr)')
    .option('--ipvs-sync-period <duration>', 'how often to retry, and to check the kernel (default: 30s)')
    .option('--ipvs-min-sync-period <duration>', 'shortest time between two syncs (default: 0s)')
    .option('--ipvs-exclude-cidrs <cidrs>', 'keep virtual servers of other programs with an address in these ranges')
    .option('--ipvs-strict-arp [bool]', 'answer ARP for an address only on the interface that has it')
    .option('--ipvs-tcp-timeout <duration>', 'timeout of idle TCP connections of IPVS; 0: unchanged (default: 0)')
    .option('--ipvs-tcpfin-timeout <duration>', 'timeout after a FIN; 0: unchanged (default: 0)')
    .option('--ipvs-udp-timeout <duration>', 'timeout of UDP flows of IPVS; 0: unchanged (default: 0)');
}

function conntrackFlags(command: Command): void {
  command
    .optionsGroup('Connection tracking:')
    .option('--conntrack-max-per-core <n>', 'conntrack entries per CPU core; 0: unchanged (default: 32768)')
    .option('--conntrack-min <n>', 'conntrack entries at least (default: 131072)')
    .option(
      '--conntrack-tcp-timeout-established <duration>',
      'timeout of idle TCP connections; 0: unchanged (default: 24h)',
    )
    .option(
      '--conntrack-tcp-timeout-close-wait <duration>',
      'timeout of TCP connections in CLOSE_WAIT; 0: unchanged (default: 1h)',
    )
    .option('--conntrack-tcp-be-liberal [bool]', 'accept TCP packets outside the window as valid')
    .option('--conntrack-udp-timeout <duration>', 'timeout of unanswered UDP flows; 0: unchanged (default: 0)')
    .option('--conntrack-udp-timeout-stream <duration>', 'timeout of answered UDP flows; 0: unchanged (default: 0)');
}

function servingFlags(command: Command): void {
  command
    .optionsGroup('Health and metrics:')
    .option('--healthz-bind-address <address>', 'address of /healthz, /livez and /readyz (default: 0.0.0.0:10256)')
    .option(
      '--metrics-bind-address <address>',
      'address of /metrics, /configz and /proxyMode (default: 127.0.0.1:10249)',
    )
    .addOption(new Option('--healthz-port <port>').hideHelp())
    .addOption(new Option('--metrics-port <port>').hideHelp())
    .option('--bind-address-hard-fail [bool]', 'exit if the health or metrics port cannot be bound; default: retry')
    .option('--profiling [bool]', 'serve /debug/pprof on the metrics port');
}

function recordingFlags(command: Command): void {
  command
    .optionsGroup('History:')
    .option('--record-dir <folder>', 'keep the history on disk too, across restarts; default: in 8 MB of memory alone')
    .option('--record-size <bytes>', 'with --record-dir: most bytes of its files (default: 64Mi)');
}

function otherFlags(command: Command): void {
  command
    .optionsGroup('Process and log:')
    .option('--oom-score-adj <score>', 'OOM-killer score, -1000 to 1000 (default: -999)')
    .option(
      '--feature-gates <pairs>',
      'AllowServiceExternalIPs=false ignores spec.externalIPs; other gates have no effect',
      // As in Go, each occurrence adds to those before it.
      (pairs: string, before: string | undefined) => (before === undefined ? pairs : `${before},${pairs}`),
    )
    .option('--logging-format <format>', 'json or text (default: text on a terminal)')
    .option('-v, --v <level>', 'log verbosity; from 4 on, log every step that is written');
}
