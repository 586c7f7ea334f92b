/** The action of each command. The larger ones are loaded when they run. */
import { writeFile } from 'node:fs/promises';
import { modeChooser } from '../agent/choose-mode.ts';
import { prepare } from '../agent/load-config.ts';
import { fileText } from '../config/config-file.ts';
import { versionText } from '../config/program-version.ts';
import { endSoonAfter, type Hangups } from '../kernel/process.ts';
import { MODE_NAMES } from '../proxy/model/modes.ts';
import { cleanupCommand } from './cleanup.ts';
import type { CommandInput } from './command-input.ts';
import type { CommandName } from './commands/command-table.ts';
import { initCommand } from './init.ts';
import { planCommand } from './plan.ts';
import { runCommand } from './run.ts';

/** Resolves with the exit status. */
type CommandAction = (input: CommandInput, hangups: Hangups) => Promise<number>;

type QuestionsModule = typeof import('./questions.ts');

const question =
  (actionOf: (questions: QuestionsModule) => (input: CommandInput) => Promise<number>): CommandAction =>
  async (input) => {
    endSoonAfter(input.signal);
    return await actionOf(await import('./questions.ts'))(input);
  };

export const ACTIONS: Readonly<Record<CommandName, CommandAction>> = {
  run: runOrAct,
  plan: async ({ flags, signal, print }) => {
    const output = flags.output === 'json' ? 'json' : 'text';
    endSoonAfter(signal);
    return await planCommand({ ...(await prepare(flags, modeChooser(signal))), signal, output, print });
  },
  cleanup: async ({ flags, signal, print }) =>
    await cleanupCommand({ config: (await prepare(flags)).config, signal, print }),
  explain: question(({ explainCommand }) => explainCommand),
  exposure: question(({ exposureCommand }) => exposureCommand),
  verify: question(({ verifyCommand }) => verifyCommand),
  status: question(({ statusCommand }) => statusCommand),
  history: question(({ historyCommand }) => historyCommand),
  record: question(({ recordCommand }) => recordCommand),
  replay: question(({ replayCommand }) => replayCommand),
  controller: async ({ flags, signal }, hangups) => {
    const { controllerCommand } = await import('./controller.ts');
    endSoonAfter(signal);
    return await controllerCommand(flags, signal, hangups);
  },
  fleet: async ({ flags, signal }, hangups) => await (await import('./fleet.ts')).fleetCommand(flags, signal, hangups),
  shadow: async ({ flags, signal }, hangups) => {
    const { shadowCommand } = await import('./shadow.ts');
    endSoonAfter(signal);
    return await shadowCommand(flags, signal, hangups);
  },
  drained: async (input) => await (await import('./drained.ts')).drainedCommand(input),
  demo: async ({ flags, signal, print }) => {
    const { demoCommand } = await import('./demo/demo.ts');
    const mode = MODE_NAMES.find((one) => one === flags.mode) ?? 'iptables';
    return await demoCommand({ mode, signal, print });
  },
  'demo-host': async () => {
    await import('./lab/host-process.ts');
    // The process ends with its standard input.
    return await new Promise<never>(() => undefined);
  },
  completion: async (input) => await (await import('./complete.ts')).completionCommand(input),
  complete: async (input) => await (await import('./complete.ts')).completeCommand(input),
  version: async ({ print }) => {
    print(versionText());
    return 0;
  },
};

/** `run`, or the action of kube-proxy's flags --version, --write-config-to, --cleanup and --init-only. */
async function runOrAct({ flags, signal, print }: CommandInput, hangups: Hangups): Promise<number> {
  if (flags.version === true) {
    print(versionText());
    return 0;
  }
  // Removing rules takes the time that it needs.
  if (flags.cleanup !== true) endSoonAfter(signal);
  if (typeof flags.writeConfigTo === 'string') {
    const { config, others } = await prepare(flags);
    await writeFile(flags.writeConfigTo, fileText(config, others));
    return 0;
  }
  if (flags.cleanup === true) return await cleanupCommand({ config: (await prepare(flags)).config, signal, print });
  const prepared = await prepare(flags, modeChooser(signal));
  if (flags.initOnly === true) return await initCommand({ ...prepared, signal });
  return await runCommand({ ...prepared, signal, hangups, flags });
}
