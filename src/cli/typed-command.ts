/** A command that asks, as it was typed. */
import type { Flags } from '../config/flags.ts';

/** The words and flags of a command. */
export interface AskedOnCommandLine {
  readonly words: readonly string[];
  readonly flags: Flags;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

/** Print an answer as the flags ask for it. */
export function show<A extends object>(
  { flags, print }: AskedOnCommandLine,
  answer: A,
  textOf: (answer: A) => string,
): void {
  print(flags.output === 'json' ? JSON.stringify(answer, undefined, 2) : textOf(answer).trimEnd());
}
