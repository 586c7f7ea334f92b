/** `slicewire completion`, and the command that its scripts call at each Tab. */

import { ConfigError } from '../config/flags.ts';
import { parseListen } from '../config/listen.ts';
import { servicesSchema } from '../inspect/wire/services.ts';
import { askAgent } from './ask-agent.ts';
import type { CommandInput } from './command-input.ts';
import { type Completion, complete, completionText, SCRIPTS, SHELLS } from './commands/completion.ts';

/** Prints the script of a shell. Throws ConfigError for another shell. */
export async function completionCommand({ words: [word = ''], print }: CommandInput): Promise<number> {
  const shell = SHELLS.find((one) => one === word);
  if (shell === undefined) throw new ConfigError(`unknown shell ${word}; completion knows ${SHELLS.join(', ')}`);
  print(SCRIPTS[shell].trimEnd());
  return 0;
}

/** Prints the words that can follow. */
export async function completeCommand({ words, signal, print }: CommandInput): Promise<number> {
  const completion = complete(words);
  const text = completionText({
    ...completion,
    candidates: [...completion.candidates, ...(await named(completion, words, signal))],
  });
  if (text !== '') print(text);
  return 0;
}

/** A person waits for the names. */
const ANSWER_TIMEOUT_MS = 700;
/** The agent gives at most so many names. Names that begin with the typed letters may be missing when there are more. */
const MAX_NAMES = 500;
const DEFAULT_PORT = 10_249;

/** Names of Services from the agent of this node; none where it does not answer at once. */
async function named(
  { services }: Completion,
  words: readonly string[],
  signal: AbortSignal,
): Promise<Completion['candidates']> {
  if (services === undefined) return [];
  const { before, typed } = services;
  const listen = parseListen(addressIn(words), DEFAULT_PORT);
  if (listen === undefined) return [];
  const parameters = { search: typed, limit: String(MAX_NAMES) };
  const until = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
  try {
    const { rows } = await askAgent({ listen, path: '/services', parameters, signal: until }, servicesSchema);
    const names = rows.filter(({ service }) => service.startsWith(typed) && NAME.test(service));
    return names.map(({ service, type, state }) => ({ word: `${before}${service}`, about: `${type}, ${state}` }));
  } catch {
    // A completion prints no error when there is no agent.
    return [];
  }
}

/** Only such names are passed to a shell. */
const NAME = /^[a-z0-9.-]+\/[a-z0-9.-]+$/;

/** The agent's address by the flag in the line, or the default. */
function addressIn(words: readonly string[]): string {
  const flag = '--metrics-bind-address';
  const at = words.lastIndexOf(flag);
  const joined = words.findLast((word) => word.startsWith(`${flag}=`));
  return joined?.slice(flag.length + 1) ?? (at < 0 ? undefined : words[at + 1]) ?? '127.0.0.1';
}
