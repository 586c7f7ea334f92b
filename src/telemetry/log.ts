/** The log: JSON lines on standard error, or lines for people on a terminal. */
import { type DestinationStream, type Logger, pino } from 'pino';

/** The lowest `-v` of each level below info (docs/observe.md, "The log"). */
const VERBOSITY = { v1: 1, v2: 2, debug: 4 } as const;
/** Between pino's info (30) and debug (20). */
const OWN_LEVELS = { v1: 28, v2: 25 } as const;

/** `v1` and `v2` write the lines of `-v 1` (hints that few need) and `-v 2` (each sync), `debug` those of `-v 4`. */
export type Log = Logger<keyof typeof OWN_LEVELS>;
export type LogLevel = 'info' | keyof typeof VERBOSITY;

export interface LogOptions {
  /** `-v`: with 0 the lines that operators need, from 2 on each sync, from 4 on each step that is written. */
  readonly verbosity: number;
  /** auto: text on a terminal, otherwise JSON. */
  readonly format: 'auto' | 'json' | 'text';
}

export async function createLog({ verbosity, format }: LogOptions): Promise<Log> {
  const forPeople = format === 'text' || (format === 'auto' && process.stderr.isTTY === true);
  // Synchronous, so that lines from before a crash are in the log.
  const stream = forPeople ? await linesForPeople() : pino.destination({ dest: 2, sync: true });
  return logInto(stream, levelOf(verbosity));
}

/** A log that writes into a stream. Lines of `-v` have the level debug for readers, and their `v` as in klog's JSON. */
export function logInto(stream: DestinationStream, level: LogLevel | 'warn' | 'silent' = 'info'): Log {
  return pino(
    {
      level,
      customLevels: OWN_LEVELS,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => (isVerbose(label) ? { level: 'debug', v: VERBOSITY[label] } : { level: label }),
      },
    },
    stream,
  );
}

function isVerbose(label: string): label is keyof typeof VERBOSITY {
  return Object.hasOwn(VERBOSITY, label);
}

export function levelOf(verbosity: number): LogLevel {
  if (verbosity >= VERBOSITY.debug) return 'debug';
  if (verbosity >= VERBOSITY.v2) return 'v2';
  return verbosity >= VERBOSITY.v1 ? 'v1' : 'info';
}

/** Loaded only for a terminal, which saves an agent on a node 12 MB. */
async function linesForPeople(): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty');
  return pretty({ destination: 2, sync: true, ignore: 'pid,hostname,fault,v', translateTime: 'HH:MM:ss.l' });
}
