import type { Flags } from '../config/flags.ts';

/** The words and flags of a command. */
export interface AskedOnCommandLine {
  readonly words: readonly string[];
  readonly flags: Flags;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}
