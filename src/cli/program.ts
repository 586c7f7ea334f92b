/** The command line: its commands and their help. */
import { writeFile } from 'node:fs/promises';
import { Command, CommanderError, Option } from 'commander';
import { CannotRun } from '../agent/cannot-run.ts';
import { prepare } from '../agent/load-config.ts';
import { isWrongQuestion, NoAnswer } from '../answers/problem.ts';
import { KubeconfigUnusable } from '../api/credentials.ts';
import { fileText } from '../config/config-file.ts';
import { controllerConfig } from '../config/controller-config.ts';
import { ConfigError, type Flags } from '../config/flags.ts';
import { versionText } from '../config/version.ts';
import { DEMO_MODES, type DemoMode } from '../demo/scene.ts';
import { singleFiles } from '../documents/files.ts';
import type { Hangups } from '../host/hangups.ts';
import { IptablesError } from '../host/iptables-tools.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { endSoonAfter } from '../host/last-resort.ts';
import { NftUnusable } from '../host/nftables-kernel.ts';
import { pluginArguments } from '../kubectl/plugin-name.ts';
import { CleanupIncomplete } from '../modes/mode.ts';
import { ManifestsUnusable } from '../source/manifests/index.ts';
import { KernelNotRead } from '../sync/loop.ts';
import { withAgentFlags } from './agent-flags.ts';
import { goArguments } from './arguments.ts';
import { cleanupCommand } from './cleanup.ts';
import { withControllerFlags } from './controller-flags.ts';
import { initCommand } from './init.ts';
import { planCommand } from './plan.ts';
import { addQuestions } from './question-commands.ts';
import { runCommand } from './run.ts';

/** Errors that print one line: their text says what to do. Others are bugs, and print a stack. */
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
  NoAnswer,
];

/** Parse, run, and resolve with the exit status. */
export async function main(args: readonly string[], signal: AbortSignal, hangups: Hangups): Promise<number> {
  let status = 0;
  if (args.some((arg) => /^--?(?:kube)?config(?:=|$)/.test(arg))) singleFiles.begin();
  // A reader that closed its end, as in `plan | head`, is no error; the rest of the command goes on.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_DESTROYED') throw error;
  });
  const program = buildProgram({ signal, hangups, setStatus: (value) => (status = value) });
  const plugin = pluginArguments(process.argv0, args);
  try {
    if (plugin !== undefined) return await (await import('../kubectl/program.ts')).runPlugin(plugin, { signal, print });
    mustBeCommand(program, args);
    await program.parseAsync(goArguments(args), { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 1;
    // A signal ended the command early. An agent that follows changes resolves instead, and logs that it stopped.
    if (signal.aborted) {
      process.stderr.write(
        `slicewire: ${signal.reason instanceof Error ? signal.reason.message : 'stopped'}; the command did not finish\n`,
      );
      return 1;
    }
    const isPlain = isWrongQuestion(error) || PLAIN.some((kind) => error instanceof kind);
    process.stderr.write(`slicewire: ${isPlain ? (error as Error).message : errorText(error)}\n`);
    return 1;
  }
}

/** Commander takes an unknown command for an argument of the default one; name the commands instead. */
function mustBeCommand(program: Command, [word = '']: readonly string[]): void {
  const names = program.commands.map((command) => command.name()).filter((name) => name !== 'demo-host');
  if (word === '' || word.startsWith('-') || [...names, 'demo-host', 'help'].includes(word)) return;
  throw new ConfigError(`unknown command ${word}; the commands are ${names.join(', ')} and help`);
}

interface Context {
  readonly signal: AbortSignal;
  readonly hangups: Hangups;
  readonly setStatus: (status: number) => void;
}

function buildProgram(context: Context): Command {
  const program = new Command('slicewire')
    .description(
      'A service proxy for Kubernetes nodes: programs Services and EndpointSlices into iptables, IPVS or nftables.\nReplaces kube-proxy and accepts its flags and its configuration file.',
    )
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'slicewire: ')) })
    .showHelpAfterError('(slicewire --help lists the commands, slicewire run --help the flags)');
  addAgentCommands(program, context);
  addQuestions(program, { ...context, print });
  addOtherCommands(program, context);
  return program;
}

const print = (text: string) => process.stdout.write(`${text}\n`);

/** The commands that take the flags of the agent. */
function addAgentCommands(program: Command, { signal, hangups, setStatus }: Context): void {
  withAgentFlags(
    program
      .command('run', { isDefault: true })
      .description('run the agent: keep the rules of this node up to date (default)'),
  )
    .option('--once', 'write all rules, then exit')
    .option('--config <file>', 'KubeProxyConfiguration file; replaces most flags')
    .option('--write-config-to <file>', 'write the resulting configuration to a file, then exit')
    .option('--report-start', 'log how many milliseconds the phases of the start took')
    .option('--init-only', 'write the kernel settings, which need more than NET_ADMIN, then exit')
    .option('--cleanup', 'same as the command cleanup')
    .option('--version', 'same as the command version')
    .action(async (flags: Flags) => setStatus(await runOrAct(flags, { signal, hangups })));
  withAgentFlags(program.command('plan').description('show what run would change on this node; write nothing'))
    .option('--config <file>', 'KubeProxyConfiguration file; replaces most flags')
    .addOption(new Option('-o, --output <form>', 'output format').choices(['text', 'json']).default('text'))
    .action(async (flags: Flags) => {
      const output = flags.output === 'json' ? 'json' : 'text';
      endSoonAfter(signal);
      setStatus(await planCommand({ ...(await prepare(flags)), signal, output, print }));
    });
  withAgentFlags(
    program.command('cleanup').description('remove all rules of slicewire and kube-proxy from this node'),
  ).action(async (flags: Flags) =>
    setStatus(await cleanupCommand({ config: (await prepare(flags)).config, signal, print })),
  );
}

function addOtherCommands(program: Command, { signal, hangups, setStatus }: Context): void {
  withControllerFlags(
    program
      .command('controller')
      .description('write EndpointSlices and Endpoints for an API server without kube-controller-manager'),
  ).action(async (flags: Flags) => {
    const { controllerCommand } = await import('./controller.ts');
    endSoonAfter(signal);
    setStatus(await controllerCommand(controllerConfig(flags), signal, hangups));
  });
  program
    .command('demo')
    .description('show the proxy at work without a cluster, in private network namespaces')
    .addOption(new Option('--mode <mode>', 'iptables, ipvs or nftables').choices(DEMO_MODES).default('iptables'))
    .action(async ({ mode }: { mode: DemoMode }) => {
      const { demoCommand } = await import('../demo/index.ts');
      setStatus(await demoCommand({ mode, signal, print }));
    });
  program.command('demo-host', { hidden: true }).action(async () => {
    await import('../lab/host-process.ts');
    // The process ends with its standard input.
    await new Promise(() => undefined);
  });
  program
    .command('version')
    .description('print the version')
    .action(() => {
      print(versionText());
    });
}

/** `run`, or the action of kube-proxy's flags --version, --write-config-to, --cleanup and --init-only. */
async function runOrAct(flags: Flags, { signal, hangups }: Pick<Context, 'signal' | 'hangups'>): Promise<number> {
  if (flags.version === true) {
    print(versionText());
    return 0;
  }
  // Removing rules takes the time that it needs.
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

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
