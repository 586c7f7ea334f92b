/** The commands that ask: explain, verify, status, history; and record and replay. What they do is loaded when one runs. */
import { type Command, Option } from 'commander';
import type { Flags } from '../config/flags.ts';
import { endSoonAfter } from '../host/last-resort.ts';
import { withAgentFlags } from './agent-flags.ts';
import type { AskedOnCommandLine } from './asked.ts';

export interface QuestionContext {
  readonly signal: AbortSignal;
  readonly setStatus: (status: number) => void;
  readonly print: (text: string) => void;
}

type Module = typeof import('./questions.ts');
type Action = (module: Module, asked: AskedOnCommandLine) => Promise<number>;

const STATUS_HELP = {
  explain: 'Exit status: 0 it reaches an endpoint, 2 it does not (refused, dropped, no Service), 1 error.',
  verify: 'Exit status: 0 equal, 2 differs, 1 error.',
  status: 'Exit status: 0 healthy, 2 not healthy, 1 error.',
  history: 'Exit status: 0 answered, 1 error.',
  record: 'Exit status: 0 written, 1 error.',
  replay: 'Exit status: 0 the same plans as recorded, 2 other plans, 1 error.',
} as const;
const EXAMPLES = {
  explain: 'explain 10.244.1.13 svc/shop/web',
  verify: 'verify',
  status: 'status --watch',
  history: 'history shop/web --since 10m',
  record: 'record issue.recording --for 1m',
  replay: 'replay issue.recording',
} as const;
const ASKED = `
The agent of this node is asked, at its --metrics-bind-address. With --kubeconfig, --master or --manifests no agent is needed: the
command reads objects and kernel itself, and takes the flags of the agent. With --recording it answers from a file of \`record\`.`;

const AT =
  'answer for that moment: a time of day such as 12:03:04, a moment such as 2026-11-22T12:03:04Z, or a time ago such as -5m';

export function addQuestions(program: Command, context: QuestionContext): void {
  const { command, run } = commandsOf(program, context);
  const explain = command('explain <FROM> <TO>', `tell why a packet goes where it goes\n${FORMS}`)
    .option('--rules', 'show the way through the kernel, step by step')
    .option('--live', 'trace real packets of this connection, and show the way that they took')
    .option('--seconds <n>', 'with --live: how long to wait for packets, 1 to 300 (default: 10)')
    .option('--at <time>', AT);
  run(explain, (module, asked) => module.explainCommand(asked));
  run(command('verify', 'compare the kernel with what is desired, and name each difference'), (module, asked) =>
    module.verifyCommand(asked),
  );
  const status = command('status', 'tell how the agent is: health, source, last syncs, faults');
  run(status.option('--watch', 'ask each second, until interrupted'), (module, asked) => module.statusCommand(asked));
  const history = command(
    'history [service]',
    'tell what changed, when and why; of one Service (NAMESPACE/NAME), or of all',
  )
    .option('--since <time>', 'changes of that time alone: 10m is the last ten minutes; also a moment, as in --at')
    .option('--at <time>', 'what stood in the kernel at that moment, and the changes until then');
  run(history, (module, asked) => module.historyCommand(asked));
  const record = program
    .command('record <file>')
    .description('write objects, changes and syncs of the agent into a file that can be attached to an issue')
    .option('--anonymize', 'replace names and addresses, consistently')
    .option('--for <duration>', 'record from now on for so long; otherwise what the agent remembers')
    .addHelpText('after', `\n${STATUS_HELP.record}`);
  run(withAgent(record), (module, asked) => module.recordCommand(asked));
  const replay = program
    .command('replay <file>')
    .description('run a recording through the proxy again, without a kernel, and print each plan')
    .addHelpText('after', `\n${STATUS_HELP.replay}`);
  run(withOutput(replay), (module, asked) => module.replayCommand(asked));
}

const FORMS = `FROM: pod/NAMESPACE/NAME, an IP address, node, or outside
TO:   ADDRESS:PORT, svc/NAMESPACE/NAME[:PORT], or nodeport:PORT; each with /udp or /sctp if it is not TCP`;

function commandsOf(program: Command, { signal, setStatus, print }: QuestionContext) {
  const command = (usage: string, description: string) => {
    const [name = ''] = usage.split(' ');
    const text = `${ASKED}\n${STATUS_HELP[name as keyof typeof STATUS_HELP]}`;
    const [summary = ''] = description.split('\n', 1);
    const made = program.command(usage).description(description).summary(summary);
    made.optionsGroup('Question:').addHelpText('after', text);
    return withOutput(made).option('--recording <file>', 'answer from a file of `record`');
  };
  const run = (made: Command, action: Action) => {
    const name = made.name();
    const whole = name === 'record' || name === 'replay' ? made : withAgent(withAgentFlags(made));
    const example = EXAMPLES[name as keyof typeof EXAMPLES];
    whole.showHelpAfterError(`(for example: slicewire ${example}; slicewire ${name} --help has the rest)`);
    whole.action(async () => {
      endSoonAfter(signal);
      const words = whole.args;
      const flags = whole.opts<Flags>();
      setStatus(await action(await import('./questions.ts'), { words, flags, signal, print }));
    });
  };
  return { command, run };
}

function withOutput(command: Command): Command {
  return command.addOption(
    new Option('-o, --output <form>', 'output format').choices(['text', 'json']).default('text'),
  );
}

function withAgent(command: Command): Command {
  const has = command.options.some(({ long }) => long === '--metrics-bind-address');
  if (!has) command.option('--metrics-bind-address <address>', 'where the agent answers (default: 127.0.0.1:10249)');
  return command.option('--config <file>', "the agent's KubeProxyConfiguration file");
}
