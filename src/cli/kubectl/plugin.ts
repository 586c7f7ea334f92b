/** The command line of the plugin, with its help. */
import { Command, Option } from 'commander';
import type { Flags } from '../../config/flags.ts';
import type { PluginInput } from './plugin-commands.ts';

export interface PluginContext {
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

type Commands = typeof import('./plugin-commands.ts');
type PluginAction = (commands: Commands, input: PluginInput) => Promise<number>;

interface PluginCommand {
  readonly usage: string;
  readonly description: string;
  readonly status: string;
  readonly options?: readonly (readonly [flags: string, description: string])[];
  readonly action: PluginAction;
}

const AT = 'answer for an earlier moment: 12:03:04, 2026-11-22T12:03:04Z, or -5m for five minutes ago';
const OF = [
  '--of <proxy>',
  'about the rules of another proxy: kube-proxy, which a shadow on the node reads (docs/shadow.md)',
] as const;
const COMMANDS: readonly PluginCommand[] = [
  {
    usage: 'status',
    description: 'show the status of the agents of all nodes, or of one with --node',
    status: '0 all are healthy, or have rules that are right; 2 one is not',
    options: [['--of <proxy>', 'the findings of the shadows about another proxy: kube-proxy (docs/shadow.md)']],
    action: (commands, input) => commands.statusCommand(input),
  },
  {
    usage: 'explain <FROM> <TO>',
    description: 'show where a packet goes, and why; a sender pod/NAMESPACE/NAME also names the node to ask',
    status: '0 it reaches an endpoint, 2 it does not',
    options: [['--rules', 'show the way through the kernel, step by step'], ['--at <time>', AT], OF],
    action: (commands, input) => commands.explainCommand(input),
  },
  {
    usage: 'verify',
    description: 'compare the kernel with what is desired, and name each difference',
    status: '0 equal, 2 differs',
    options: [OF],
    action: (commands, input) => commands.verifyCommand(input),
  },
  {
    usage: 'history [service]',
    description: 'show the changes with their times and reasons, of one Service (NAMESPACE/NAME) or of all',
    status: '0 answered',
    options: [
      ['--since <time>', 'only changes since then: 10m is the last ten minutes; or a time as in --at'],
      ['--at <time>', 'show the state of the kernel at that moment, and the changes until then'],
    ],
    action: (commands, input) => commands.historyCommand(input),
  },
  {
    usage: 'exposure',
    description: 'show the addresses that a node serves to clients outside the cluster, and problems with them',
    status: '0 answered',
    options: [OF],
    action: (commands, input) => commands.exposureCommand(input),
  },
];

const CONNECTION = `
The API server forwards the question to the Pod of the agent, as in kubectl port-forward. No port is opened on this machine.
docs/kubectl.md has the rights that this needs.`;

/** Parse, run, and resolve with the exit status. Throws CommanderError, WrongQuestion, NoAnswer and KubeconfigUnusable. */
export async function runPlugin(words: readonly string[], { signal, print }: PluginContext): Promise<number> {
  let status = 0;
  const program = new Command('kubectl slicewire')
    .description('Asks the agents of slicewire that run in a cluster.')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'slicewire: ')) })
    .showHelpAfterError('(kubectl slicewire --help lists the commands)')
    .helpOption('-h, --help', 'show this help')
    .helpCommand('help [command]', 'show the help of a command')
    .addHelpText('after', CONNECTION);
  for (const { usage, description, options = [], status: means, action } of COMMANDS) {
    const command = program.command(usage).description(description).optionsGroup('Question:');
    for (const [flags, text] of options) command.option(flags, text);
    withCommonFlags(command);
    command.addHelpText('after', `\nExit status: ${means}, 1 error: also where a node of --all-nodes gives no answer.`);
    command.action(async () => {
      const input = { words: command.args, flags: command.opts<Flags>(), signal, print };
      status = await action(await import('./plugin-commands.ts'), input);
    });
  }
  await program.parseAsync(words, { from: 'user' });
  return status;
}

function withCommonFlags(command: Command): void {
  command
    .optionsGroup('Nodes:')
    .option('--node <name>', 'ask the agent of this node')
    .option('--all-nodes', 'ask the agents of all nodes, and put the answers together')
    .option('--timeout <duration>', 'wait for one agent for at most this time (default: 30s)')
    .addOption(new Option('-o, --output <form>', 'output format').choices(['text', 'json']).default('text'))
    .optionsGroup('Cluster:')
    .option('--kubeconfig <file>', 'the kubeconfig (default: the files of KUBECONFIG, or ~/.kube/config)')
    .option('--context <name>', 'context of the kubeconfig')
    .option('--cluster <name>', 'cluster of the kubeconfig')
    .option('--user <name>', 'user of the kubeconfig')
    .option('--as <name>', 'user to impersonate')
    .option('-n, --namespace <name>', 'namespace of the agents (default: kube-system)')
    .option(
      '-l, --selector <labels>',
      'labels of the agents (default: k8s-app=slicewire; with --of k8s-app=slicewire-shadow)',
    )
    .option('--port <port>', 'port of the metrics server of the agents (default: 10249; with --of 10269)')
    .optionsGroup('Help:')
    .helpOption('-h, --help', 'show this help');
}
