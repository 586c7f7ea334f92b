/** The command line: commands, flags and their help. */

import { writeFile } from 'node:fs/promises';
import { Command, CommanderError, Option } from 'commander';
import { CannotRun } from '../agent/cannot-run.ts';
import { prepare } from '../agent/load-config.ts';
import { ConfigError, type Flags } from '../config/config.ts';
import { fileText } from '../config/config-file.ts';
import { controllerConfig } from '../config/controller-config.ts';
import { versionText } from '../config/version.ts';
import type { Hangups } from '../host/hangups.ts';
import { IptablesError } from '../host/iptables-tools.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { endSoonAfter } from '../host/last-resort.ts';
import { NftUnusable } from '../host/nftables-kernel.ts';
import { CleanupIncomplete } from '../modes/mode.ts';
import { KubeconfigUnusable } from '../source/kubernetes.ts';
import { ManifestsUnusable } from '../source/manifests/index.ts';
import { KernelNotRead } from '../sync/loop.ts';
import { withAgentFlags } from './agent-flags.ts';
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

/** `run`, and what kube-proxy does instead when one of its action flags is given (reference 1.7). */
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

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
