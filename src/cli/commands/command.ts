/** A command of slicewire, as data: the command line, its help, the completion of shells and the manual pages are made from it. */
import { AGENT_FLAGS } from '../../config/agent-flags.ts';
import { CONTROLLER_FLAGS } from '../../config/controller-config.ts';
import type { FlagEntry, FlagGroup } from '../../config/flags.ts';
import { FLEET_FLAGS } from '../../config/fleet-config.ts';

/** The whole program. */
export const ABOUT = `A service proxy for Kubernetes nodes: programs Services and EndpointSlices into iptables, IPVS or nftables.
Replaces kube-proxy and accepts its flags and its configuration file.`;

/** What the help of the program says after its commands. */
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
  /** Words after the name: `<FROM>` is needed, `[service]` can be left out. */
  readonly words: readonly string[];
  readonly subject: (typeof SUBJECTS)[number];
  /** One line. */
  readonly summary: string;
  /** Lines after the summary. */
  readonly details?: string;
  /** The flags of this command alone. */
  readonly flags: readonly FlagGroup[];
  /** Whose flags it takes beside its own. */
  readonly takes?: 'agent' | 'controller' | 'fleet';
  /** What the exit status means, beside 0 for success and 1 for an error. */
  readonly status?: string;
  /** Lines at the end of the help. */
  readonly notes?: string;
  /** Without the name of the program. */
  readonly example?: string;
  /** It counts where the first word is no command. */
  readonly isDefault?: true;
  /** Neither shown nor completed. */
  readonly isHidden?: true;
}

/** A group of flags as the help of a command shows it. */
export interface ShownGroup extends FlagGroup {
  /** The flags count, but the help of another command shows them. */
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
  const most = { title: ESSENTIAL_FLAGS_TITLE, flags: essential };
  const others = withoutEssential(ofAgent).map((group) =>
    isDefault ? group : { ...group, isElsewhere: true as const },
  );
  const rest = withoutEssential(flags);
  return isDefault ? [most, ...rest, ...others] : [...rest, most, ...others];
}

const withoutEssential = (groups: readonly FlagGroup[]): FlagGroup[] =>
  groups.map((group) => ({ ...group, flags: group.flags.filter(({ isEssential }) => !isEssential) }));

/** All flags that a command takes, those without effect too. */
export function flagsOf(command: CommandEntry): readonly FlagEntry[] {
  return groupsOf(command).flatMap(({ flags }) => flags);
}

/** What the help of a command says after its flags. */
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
