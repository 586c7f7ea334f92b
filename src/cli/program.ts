/** The command line: commands, flags and their help. */

import { writeFile } from 'node:fs/promises';
import { Command, CommanderError, Option } from 'commander';
import { CannotRun } from '../agent/cannot-run.ts';
import { prepare, withIdleFlags } from '../agent/load-config.ts';
import { KubeconfigUnusable } from '../api/credentials.ts';
import { fileText } from '../config/config-file.ts';
import { controllerConfig } from '../config/controller-config.ts';
import { ConfigError, type Flags } from '../config/flags.ts';
import { versionText } from '../config/version.ts';
import type { Hangups } from '../host/hangups.ts';
import { IptablesError } from '../host/iptables-tools.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { endSoonAfter } from '../host/last-resort.ts';
import { NftUnusable } from '../host/nftables-kernel.ts';
import { CleanupIncomplete } from '../modes/mode.ts';
import { ManifestsUnusable } from '../source/manifests/index.ts';
import { KernelNotRead } from '../sync/loop.ts';
import { goArguments } from './arguments.ts';
import { cleanupCommand } from './cleanup.ts';
import { withControllerFlags } from './controller-flags.ts';
import { DEMO_MODES, type DemoMode } from './demo/scene.ts';
import { initCommand } from './init.ts';
import { planCommand } from './plan.ts';
import { runCommand } from './run.ts';

/** Errors that are told in one line: what to do about them is in their text. */
const PLAIN = [
  ConfigError,
  CannotRun,
  ManifestsUnusable,
  KernelNotRead,
  KubeconfigUnusable,
  IptablesError,
  IpvsUnusable,
  NftUnusable,
  CleanupIncomplete,
];

/** Parse, run, and resolve with the exit status. */
export async function main(args: readonly string[], signal: AbortSignal, hangups: Hangups): Promise<number> {
  let status = 0;
  // Who reads no longer, as in `plan | head`, needs no more; what the command does beside it goes on.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_DESTROYED') throw error;
  });
  const program = buildProgram({ signal, hangups, setStatus: (value) => (status = value) });
  try {
    mustBeCommand(program, args);
    await program.parseAsync(goArguments(args), { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 1;
    // Stopped before it was done: only an agent that follows ends well that way, and it says so itself.
    if (signal.aborted) {
      process.stderr.write(
        `slicewire: ${signal.reason instanceof Error ? signal.reason.message : 'stopped'} before it was done\n`,
      );
      return 1;
    }
    const isPlain = PLAIN.some((kind) => error instanceof kind);
    process.stderr.write(`slicewire: ${isPlain ? (error as Error).message : errorText(error)}\n`);
    return 1;
  }
}

/** A word that is no command is an argument of the default one, which takes none: say what is meant. */
function mustBeCommand(program: Command, [word = '']: readonly string[]): void {
  const names = program.commands.map((command) => command.name()).filter((name) => name !== 'demo-host');
  if (word === '' || word.startsWith('-') || [...names, 'demo-host', 'help'].includes(word)) return;
  throw new ConfigError(`${word} is no command; the commands are ${names.join(', ')} and help`);
}

interface Context {
  readonly signal: AbortSignal;
  readonly hangups: Hangups;
  readonly setStatus: (status: number) => void;
}

function buildProgram({ signal, hangups, setStatus }: Context): Command {
  const program = new Command('slicewire')
    .description('the service proxy of a node: EndpointSlices in, iptables, IPVS or nftables out')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'slicewire: ')) })
    .showHelpAfterError('(slicewire --help lists the commands, slicewire run --help the flags)');
  const print = (text: string) => process.stdout.write(`${text}\n`);
  withAgentFlags(program.command('run', { isDefault: true }).description('the agent (the default)'))
    .option('--once', 'sync until everything is applied, then exit')
    .option('--config <file>', 'a KubeProxyConfiguration; it takes the place of most flags')
    .option('--write-config-to <file>', 'write the configuration that results, and exit')
    .option('--init-only', 'do what needs more than NET_ADMIN (kernel settings), and exit')
    .option('--cleanup', 'the same as the command cleanup')
    .option('--version', 'the same as the command version')
    .action(async (flags: Flags) => setStatus(await runOrAct(flags, { signal, hangups, print })));
  withAgentFlags(program.command('plan').description('what run would change in this kernel now; writes nothing'))
    .option('--config <file>', 'a KubeProxyConfiguration; it takes the place of most flags')
    .addOption(new Option('--output <form>', 'form of the answer').choices(['text', 'json']).default('text'))
    .action(async (flags: Flags) => {
      const output = flags.output === 'json' ? 'json' : 'text';
      endSoonAfter(signal);
      setStatus(await planCommand({ ...(await prepare(flags)), signal, output, print }));
    });
  withAgentFlags(
    program.command('cleanup').description('remove all rules of slicewire and kube-proxy, and nothing else'),
  ).action(async (flags: Flags) =>
    setStatus(await cleanupCommand({ config: (await prepare(flags)).config, signal, print })),
  );
  withControllerFlags(
    program
      .command('controller')
      .description('write EndpointSlices and Endpoints for an API server that has no kube-controller-manager'),
  ).action(async (flags: Flags) => {
    const { controllerCommand } = await import('./controller.ts');
    endSoonAfter(signal);
    setStatus(await controllerCommand(controllerConfig(flags), signal, hangups));
  });
  program
    .command('demo')
    .description('the main job on this machine with no cluster, in private network namespaces')
    .addOption(new Option('--mode <mode>', 'kernel mechanism').choices(DEMO_MODES).default('iptables'))
    .action(async ({ mode }: { mode: DemoMode }) => {
      const { demoCommand } = await import('./demo/index.ts');
      setStatus(await demoCommand({ mode, signal, print }));
    });
  program.command('demo-host', { hidden: true }).action(async () => {
    await import('../lab/host-process.ts');
    // It ends with its standard input.
    await new Promise(() => undefined);
  });
  program
    .command('version')
    .description('print the version')
    .action(() => {
      print(versionText());
    });
  return program;
}

/** `run`, and what kube-proxy does instead when one of its action flags is given (docs/semantics.md 10.5). */
async function runOrAct(
  flags: Flags,
  { signal, hangups, print }: Pick<Context, 'signal' | 'hangups'> & { print: (text: string) => void },
): Promise<number> {
  if (flags.version === true) {
    print(versionText());
    return 0;
  }
  // What removes rules takes the time that it needs.
  if (flags.cleanup !== true) endSoonAfter(signal);
  const prepared = await prepare(flags);
  if (typeof flags.writeConfigTo === 'string') {
    await writeFile(flags.writeConfigTo, fileText(prepared.config));
    return 0;
  }
  if (flags.cleanup === true) return await cleanupCommand({ config: prepared.config, signal, print });
  if (flags.initOnly === true) return await initCommand({ ...prepared, signal });
  return await runCommand({ ...prepared, signal, hangups, flags });
}

/** kube-proxy's flags by their names and meanings (docs/semantics.md 10.5), and ours. */
function withAgentFlags(command: Command): Command {
  return withIdleFlags(command)
    .option('--mode <mode>', 'kernel mechanism: iptables, ipvs or nftables (default: iptables)')
    .option('--proxy-mode <mode>', "the same, by kube-proxy's name")
    .option('--manifests <path>', 'read objects from a folder, a file, or - for standard input; no cluster is needed')
    .option(
      '--service-node-port-range <range>',
      'with --manifests: node ports outside it are left out, such as 30000-32767 or 30000+2767 (default: 30000-32767)',
    )
    .option(
      '--allow-node-address-ports [bool]',
      'with --manifests: a Service may have an address of this node with a port that a program here serves',
    )
    .option('--kubeconfig <file>', 'how to reach the API server; without it and --manifests, as a pod in its cluster')
    .option('--master <url>', 'address of the API server; wins over the kubeconfig')
    .option(
      '--kube-api-content-type <type>',
      'of lists: application/vnd.kubernetes.protobuf (default), where the API server has it, or application/json',
    )
    .option('--hostname-override <name>', 'name of this Node; default: the host name')
    .option('--bind-address <address>', "this node's primary address; no socket listens on it")
    .option(
      '--cluster-cidr <cidrs>',
      'range of pod addresses, or one a family; other traffic to cluster IPs is masqueraded',
    )
    .option(
      '--detect-local-mode <mode>',
      'how pods are told: ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix',
    )
    .option('--pod-bridge-interface <name>', 'the bridge of the pods, for BridgeInterface')
    .option('--pod-interface-name-prefix <prefix>', "what the names of the pods' interfaces begin with")
    .option('--masquerade-all [bool]', 'masquerade all traffic to cluster IPs')
    .option(
      '--iptables-masquerade-bit <bit>',
      'bit of the packet mark that asks for masquerading, 0 to 31 (default: 14)',
    )
    .option('--iptables-localhost-nodeports [bool]', 'node ports on 127.0.0.0/8 as well (default: true)')
    .option('--iptables-sync-period <duration>', 'retry, and look after the rules, this often (default: 30s)')
    .option('--iptables-min-sync-period <duration>', 'pause between two syncs: changes in it are one (default: 1s)')
    .option('--iptables-backend <variant>', 'auto, nft or legacy: which iptables tools (default: auto)')
    .option('--nftables-masquerade-bit <bit>', 'the same bit in nftables mode, 0 to 31 (default: 14)')
    .option('--nftables-sync-period <duration>', 'retry, and look after the table, this often (default: 30s)')
    .option('--nftables-count-connections', 'count the connections to each frontend, for /metrics')
    .option('--nftables-min-sync-period <duration>', 'pause between two syncs: changes in it are one (default: 1s)')
    .option('--ipvs-scheduler <name>', 'how IPVS chooses among endpoints: rr, lc, sh… (default: rr)')
    .option('--ipvs-sync-period <duration>', 'retry, and look after the kernel, this often (default: 30s)')
    .option('--ipvs-min-sync-period <duration>', 'pause between two syncs: changes in it are one (default: 0s)')
    .option('--ipvs-exclude-cidrs <cidrs>', 'virtual servers of others with an address in these are left alone')
    .option('--ipvs-strict-arp [bool]', 'answer ARP for an address on the device that has it alone')
    .option('--ipvs-tcp-timeout <duration>', 'forget a silent connection of IPVS after; 0: as it is (default)')
    .option('--ipvs-tcpfin-timeout <duration>', 'forget one that was closed after; 0: as it is (default)')
    .option('--ipvs-udp-timeout <duration>', 'forget a UDP flow of IPVS after; 0: as it is (default)')
    .option(
      '--conntrack-max-per-core <n>',
      'size of the table of connections, for each core; 0: as it is (default: 32768)',
    )
    .option('--conntrack-min <n>', 'its size at least (default: 131072)')
    .option(
      '--conntrack-tcp-timeout-established <duration>',
      'forget a silent connection after; 0: as it is (default: 24h)',
    )
    .option(
      '--conntrack-tcp-timeout-close-wait <duration>',
      'forget a half-closed one after; 0: as it is (default: 1h)',
    )
    .option('--conntrack-tcp-be-liberal [bool]', 'take packets outside the window of a connection as valid')
    .option('--conntrack-udp-timeout <duration>', 'forget an unanswered UDP flow after; 0: as it is (default)')
    .option('--conntrack-udp-timeout-stream <duration>', 'forget an answered UDP flow after; 0: as it is (default)')
    .option(
      '--healthz-bind-address <address>',
      'where /healthz, /livez and /readyz are served (default: 0.0.0.0:10256)',
    )
    .option(
      '--metrics-bind-address <address>',
      'where /metrics, /configz and /proxyMode are served (default: 127.0.0.1:10249)',
    )
    .addOption(new Option('--healthz-port <port>').hideHelp())
    .addOption(new Option('--metrics-port <port>').hideHelp())
    .option('--bind-address-hard-fail [bool]', 'end when one of these two cannot be had, rather than try again')
    .option('--profiling [bool]', 'serve /debug/pprof beside the metrics')
    .option('--oom-score-adj <score>', 'what the kernel ends when memory is short, -1000 to 1000 (default: -999)')
    .option(
      '--nodeport-addresses <list>',
      'CIDRs, primary, localhost, all: where node ports are served (default: all; in nftables mode: primary)',
    )
    .option(
      '--feature-gates <pairs>',
      'AllowServiceExternalIPs=false: no external IPs (spec.externalIPs) are served; others have no effect',
      // As Go's: each time it is given adds to what was given before.
      (pairs: string, before: string | undefined) => (before === undefined ? pairs : `${before},${pairs}`),
    )
    .option('--logging-format <format>', 'json or text (default: text on a terminal)')
    .option('-v, --v <level>', 'how much to log; from 4 on, every step that is written');
}

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
