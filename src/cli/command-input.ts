/** The input of a command, and the output of its answer. */
import type { Flags } from '../config/flags.ts';

export interface CommandInput {
  readonly words: readonly string[];
  readonly flags: Flags;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

/** Prints an answer as text, or as JSON with --output json. */
export function show<A extends object>({ flags, print }: CommandInput, answer: A, textOf: (answer: A) => string): void {
  print(flags.output === 'json' ? JSON.stringify(answer, undefined, 2) : textOf(answer).trimEnd());
}
