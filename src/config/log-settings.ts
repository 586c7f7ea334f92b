/** How the log is written; the agent and the controller read it alike. */
import { type FlagReader, MAX_INT32, readChoice, readInteger } from './readers.ts';

export interface LogConfig {
  /** auto: lines for people on a terminal, JSON elsewhere. */
  readonly format: 'auto' | 'json' | 'text';
  readonly verbosity: number;
}

export function readLog(read: FlagReader): LogConfig {
  return {
    format: readChoice(read, 'logging-format', { initial: 'auto', choices: ['auto', 'json', 'text'] }),
    verbosity: readInteger(read, 'v', { initial: 0, least: 0, most: MAX_INT32 }),
  };
}
