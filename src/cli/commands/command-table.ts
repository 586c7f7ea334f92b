/**
 * The commands of slicewire as data: the command line, its help, the completion of shells and the manual pages are made from the table.
 * Each command also has an action, in src/cli/actions.ts.
 */

import { AGENT_FLAGS } from '../../config/agent-flags.ts';
import { CONTROLLER_FLAGS } from '../../config/controller-config.ts';
import { type FlagEntry, type FlagGroup, option } from '../../config/flags.ts';
import { FLEET_FLAGS } from '../../config/fleet-config.ts';
import { MODE_NAMES } from '../../proxy/model/modes.ts';

/** The whole program. */
export const ABOUT = `A service proxy for Kubernetes nodes: programs Services and EndpointSlices into iptables, IPVS or nftables.
Replaces kube-proxy and accepts its flags and its configuration file.`;

/** The end of the program's help. */
export const WITHOUT_COMMAND = `Without a command, slicewire runs the agent. slicewire COMMAND --help shows the flags of a command,
and slicewire run --help all flags of the agent.
slicewire kubectl --help shows the plugin of kubectl, which asks the agents of a cluster from any machine. Under the name
kubectl-slicewire, such as by a link, the executable is that plugin.`;

/** Subjects of commands, in the order of `slicewire --help`. */
export const SUBJECTS = [
  'Program the rules of this node',
  'Ask the agent of this node',
  'Recordings',
  'The cluster',
  'Try it, and set up the shell',
] as const;

export interface CommandEntry {
  readonly name: string;
  /** The words after the name: `<FROM>` is required, `[service]` is optional. */
  readonly words: readonly string[];
  readonly subject: (typeof SUBJECTS)[number];
  /** One line. */
  readonly summary: string;
  /** Lines after the summary. */
  readonly details?: string;
  /** The flags of this command alone. */
  readonly flags: readonly FlagGroup[];
  /** The component whose flags it takes beside its own. */
  readonly takes?: 'agent' | 'controller' | 'fleet';
  /** The meaning of the exit statuses. */
  readonly status?: string;
  /** Lines at the end of the help. */
  readonly notes?: string;
  /** A command line, without the name of the program. */
  readonly example?: string;
  /** The command for a line whose first word is no command. */
  readonly isDefault?: true;
  /** Neither shown nor completed. */
  readonly isHidden?: true;
}

/** A group of flags as the help of a command shows it. */
interface ShownGroup extends FlagGroup {
  /** The help of another command shows the flags. */
  readonly isElsewhere?: true;
}

const ESSENTIAL_FLAGS_TITLE = 'The flags that matter most';

/**
 * The flags that a command takes, in the order of its help. The ten that matter most come first, before the subjects. Of the
 * commands that take the flags of the agent, `run` alone shows the others.
 */
export function groupsOf({ flags, takes, isDefault }: CommandEntry): readonly ShownGroup[] {
  if (takes === undefined) return flags;
  if (takes === 'controller') return [...CONTROLLER_FLAGS, ...flags];
  if (takes === 'fleet') return [...FLEET_FLAGS, ...flags];
  const own = new Set(flags.flatMap((group) => group.flags.map(({ name }) => name)));
  const ofAgent = AGENT_FLAGS.map((group) => ({ ...group, flags: group.flags.filter(({ name }) => !own.has(name)) }));
  const essential = [...ofAgent, ...flags].flatMap((group) => group.flags.filter(({ isEssential }) => isEssential));
  const first = { title: ESSENTIAL_FLAGS_TITLE, flags: essential };
  const others = withoutEssential(ofAgent).map((group) =>
    isDefault ? group : { ...group, isElsewhere: true as const },
  );
  const rest = withoutEssential(flags);
  return isDefault ? [first, ...rest, ...others] : [...rest, first, ...others];
}

const withoutEssential = (groups: readonly FlagGroup[]): FlagGroup[] =>
  groups.map((group) => ({ ...group, flags: group.flags.filter(({ isEssential }) => !isEssential) }));

/** All flags that a command takes, also those without effect. */
export function flagsOf(command: CommandEntry): readonly FlagEntry[] {
  return groupsOf(command).flatMap(({ flags }) => flags);
}

/** The end of a command's help, after its flags. */
export function helpLines({
  notes,
  status,
  takes,
  isDefault,
}: Omit<CommandEntry, 'status'> & { readonly status?: string | undefined }): readonly string[] {
  const elsewhere = takes === 'agent' && !isDefault ? ELSEWHERE : undefined;
  return [notes, elsewhere, status].filter((text) => text !== undefined);
}

const ELSEWHERE = 'It also takes the other flags of the agent: slicewire run --help lists them by subject.';

const [RULES, ASK, RECORDINGS, CLUSTER, SHELL] = SUBJECTS;

const OUTPUT = option('-o, --output <form>', 'text or json', {
  initial: 'text',
  values: ['text', 'json'],
  isStrict: true,
});

const CONFIG = option('--config <file>', 'KubeProxyConfiguration file; replaces most flags', { isEssential: true });

const own = (...flags: readonly FlagEntry[]): FlagGroup => ({ title: 'Command', flags });
const question = (...flags: readonly FlagEntry[]): FlagGroup => ({ title: 'Question', flags });

const AGENT_ADDRESS = [
  option('--metrics-bind-address <address>', 'address of the agent', { initial: '127.0.0.1:10249' }),
  option('--config <file>', "the agent's KubeProxyConfiguration file, which has the address"),
] as const;

const ANSWERER: FlagGroup = {
  title: 'The agent, or a recording',
  flags: [...AGENT_ADDRESS, option('--recording <file>', 'answer from a file of `record`')],
};

const OF = option('--of <proxy>', 'about the rules of another proxy on this node: kube-proxy, in any of its modes');

const OF_SHADOW = option(
  '--of <proxy>',
  'the findings of the shadow of this node about another proxy: kube-proxy; the shadow answers at 127.0.0.1:10269',
);

const AT =
  'answer for an earlier moment: a time of day such as 12:03:04, a date and time such as 2026-11-22T12:03:04Z, or -5m for five minutes ago';

const WHO_ANSWERS = `The agent of this node answers, at its --metrics-bind-address. With --kubeconfig, --master or --manifests no agent is needed: the
command reads objects and kernel itself, and takes the flags of the agent. With --recording it answers from a file of \`record\`.`;

const FORMS = `FROM: pod/NAMESPACE/NAME, an IP address, node, or outside
TO:   ADDRESS:PORT, svc/NAMESPACE/NAME[:PORT], or nodeport:PORT; each with /udp or /sctp if it is not TCP`;

const COMPLETION = `bash: source <(slicewire completion bash), in ~/.bashrc
zsh:  source <(slicewire completion zsh), in ~/.zshrc, after compinit
fish: slicewire completion fish > ~/.config/fish/completions/slicewire.fish`;

const TABLE = [
  {
    name: 'run',
    words: [],
    subject: RULES,
    summary: 'run the agent: keep the rules of this node up to date (default)',
    flags: [
      own(
        option('--once', 'write all rules, then exit'),
        CONFIG,
        option('--write-config-to <file>', 'write the resulting configuration to a file, then exit'),
        option('--report-start', 'log how many milliseconds the phases of the start took'),
        option('--init-only', 'write the kernel settings, which need more than NET_ADMIN, then exit'),
        option('--cleanup', 'same as the command cleanup'),
        option('--version', 'same as the command version'),
      ),
    ],
    takes: 'agent',
    isDefault: true,
  },
  {
    name: 'plan',
    words: [],
    subject: RULES,
    summary: 'show what run would change on this node; write nothing',
    flags: [own(CONFIG, OUTPUT)],
    takes: 'agent',
    status: 'Exit status: 0 nothing to do, 2 something to do, 1 error.',
  },
  {
    name: 'shadow',
    words: [],
    subject: RULES,
    summary: 'watch the kube-proxy of this node: compare its rules, time its writes; write nothing',
    flags: [
      own(
        option('--metrics-bind-address <address>', 'address of the page, the metrics, health and questions', {
          initial: '127.0.0.1:10269',
        }),
        CONFIG,
      ),
    ],
    takes: 'agent',
    notes: `The mode is that of kube-proxy's rules, and health is answered at the same port: --mode and --healthz-bind-address have no effect.
slicewire status --of kube-proxy shows what it has found. docs/shadow.md has the rest.`,
  },
  {
    name: 'cleanup',
    words: [],
    subject: RULES,
    summary: 'remove all rules of slicewire and kube-proxy from this node',
    flags: [],
    takes: 'agent',
  },
  {
    name: 'explain',
    words: ['<FROM>', '<TO>'],
    subject: ASK,
    summary: 'show where a packet goes, and why',
    details: FORMS,
    flags: [
      question(
        OUTPUT,
        option('--rules', 'show the way through the kernel, step by step'),
        option('--live', 'trace real packets of this connection, and show the way that they took'),
        option('--seconds <n>', 'with --live: wait so many seconds for packets, 1 to 300', { initial: '10' }),
        option('--at <time>', AT),
        OF,
      ),
      ANSWERER,
    ],
    takes: 'agent',
    status: 'Exit status: 0 it reaches an endpoint, 2 it does not (refused, dropped, no Service), 1 error.',
    notes: WHO_ANSWERS,
    example: 'explain 10.244.1.13 svc/shop/web',
  },
  {
    name: 'verify',
    words: [],
    subject: ASK,
    summary: 'compare the kernel with what is desired, and name each difference',
    flags: [question(OUTPUT, OF), ANSWERER],
    takes: 'agent',
    status: 'Exit status: 0 equal, 2 differs, 1 error.',
    notes: WHO_ANSWERS,
    example: 'verify',
  },
  {
    name: 'status',
    words: [],
    subject: ASK,
    summary: "show the agent's status: health, source, last syncs, faults",
    flags: [question(OUTPUT, option('--watch', 'ask each second, until interrupted'), OF_SHADOW), ANSWERER],
    takes: 'agent',
    status: 'Exit status: 0 healthy, 2 not healthy, 1 error.',
    notes: WHO_ANSWERS,
    example: 'status --watch',
  },
  {
    name: 'history',
    words: ['[service]'],
    subject: ASK,
    summary: 'show the changes with their times and reasons, of one Service (NAMESPACE/NAME) or of all',
    flags: [
      question(
        OUTPUT,
        option('--since <time>', 'only changes since then: 10m is the last ten minutes; or a time as in --at'),
        option('--at <time>', 'show the state of the kernel at that moment, and the changes until then'),
      ),
      ANSWERER,
    ],
    takes: 'agent',
    status: 'Exit status: 0 answered, 1 error.',
    notes: WHO_ANSWERS,
    example: 'history shop/web --since 10m',
  },
  {
    name: 'exposure',
    words: [],
    subject: ASK,
    summary: 'show the addresses that this node serves to clients outside the cluster, and problems with them',
    flags: [question(OUTPUT, OF), ANSWERER],
    takes: 'agent',
    notes: WHO_ANSWERS,
    status: 'Exit status: 0 answered, 1 error.',
    example: 'exposure',
  },
  {
    name: 'record',
    words: ['<file>'],
    subject: RECORDINGS,
    summary: 'write objects, changes and syncs of the agent into a file that can be attached to an issue',
    flags: [
      own(
        option('--anonymize', 'replace names and addresses, consistently'),
        option('--for <duration>', 'record from now on, for so long (default: what the agent remembers)'),
        ...AGENT_ADDRESS,
      ),
    ],
    status: 'Exit status: 0 written, 1 error.',
    example: 'record issue.recording',
  },
  {
    name: 'replay',
    words: ['<file>'],
    subject: RECORDINGS,
    summary: 'run a recording through the proxy again, without a kernel, and print each plan',
    flags: [own(OUTPUT)],
    status: 'Exit status: 0 the same plans as recorded, 2 other plans, 1 error.',
    example: 'replay issue.recording',
  },
  {
    name: 'controller',
    words: [],
    subject: CLUSTER,
    summary: 'write EndpointSlices and Endpoints for an API server without kube-controller-manager',
    flags: [],
    takes: 'controller',
  },
  {
    name: 'fleet',
    words: [],
    subject: CLUSTER,
    summary:
      'follow the agents of all nodes: answer whether an endpoint is drained, how far each node is, and how long changes take',
    flags: [],
    takes: 'fleet',
  },
  {
    name: 'drained',
    words: [],
    subject: CLUSTER,
    summary: 'wait until no node sends new connections to a Pod that ends: its preStop hook',
    flags: [
      question(
        OUTPUT,
        option('--pod <name>', 'the Pod: NAMESPACE/NAME, or NAME in the namespace of this Pod (default: $POD_NAME)'),
        option('--address <address>', 'an address of an endpoint, instead of a Pod'),
        option('--timeout <duration>', 'how long to wait, at most 10m', { initial: '30s' }),
        option('--fleet <url>', 'where the fleet answers', { initial: 'http://slicewire-fleet.kube-system:10262' }),
        option('--token-file <file>', "token to show to the fleet (default: that of this Pod's ServiceAccount)"),
      ),
    ],
    status: 'Exit status: 0 drained, 1 not within the time, 2 the question is wrong.',
    notes: `A fleet that is away, or ends, is asked again until the time is over.
docs/fleet.md has the hook as YAML, and what it guarantees.`,
    example: 'drained --pod shop/web-1 --timeout 30s',
  },
  {
    name: 'demo',
    words: [],
    subject: SHELL,
    summary: 'show the proxy at work without a cluster, in private network namespaces',
    flags: [
      own(
        option('--mode <mode>', 'iptables, ipvs or nftables', {
          initial: 'iptables',
          values: MODE_NAMES,
          isStrict: true,
        }),
      ),
    ],
  },
  {
    name: 'demo-host',
    words: [],
    subject: SHELL,
    summary: 'a host of the demonstration',
    flags: [],
    isHidden: true,
  },
  {
    name: 'completion',
    words: ['<shell>'],
    subject: SHELL,
    summary: 'print the completion of a shell: bash, zsh or fish',
    details: COMPLETION,
    flags: [],
    example: 'completion bash',
  },
  {
    name: 'complete',
    words: ['[words...]'],
    subject: SHELL,
    summary: 'print the words that can follow; after -- come those of the command line up to the cursor',
    flags: [],
    isHidden: true,
  },
  { name: 'version', words: [], subject: SHELL, summary: 'print the version', flags: [] },
] as const satisfies readonly CommandEntry[];

export type CommandName = (typeof TABLE)[number]['name'];
export type NamedCommand = CommandEntry & { readonly name: CommandName };

export const COMMANDS: readonly NamedCommand[] = TABLE;
