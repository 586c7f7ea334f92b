/** Who answers a question: the agent that runs, this command from the source and the kernel, or a recording. */
import { loadConfig } from '../agent/load-config.ts';
import { type Flags, textFlag } from '../config/flags.ts';
import type { ListenAddress } from '../config/listen.ts';
import { WrongQuestion } from '../inspect/wire/problem.ts';

export type Answerer =
  | { readonly who: 'agent'; readonly listen: ListenAddress }
  | { readonly who: 'command' }
  | { readonly who: 'recording'; readonly file: string };

const SOURCES = ['manifests', 'kubeconfig', 'master'];

/** Throws WrongQuestion for two of them, and ConfigError. */
export async function answererOf(flags: Flags): Promise<Answerer> {
  const source = SOURCES.find((flag) => flags[flag] !== undefined);
  const file = textFlag(flags, 'recording');
  if (file !== undefined && source !== undefined) {
    throw new WrongQuestion(
      `--recording ${file}: cannot be combined with --${source}: both name what answers; give one of them`,
    );
  }
  if (file !== undefined) return { who: 'recording', file };
  if (source !== undefined) return { who: 'command' };
  return { who: 'agent', listen: (await loadConfig(flags)).config.serve.metrics };
}
