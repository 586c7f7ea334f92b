/** The log: JSON lines on standard error, or lines for people if that is a terminal. */
import { type DestinationStream, type Logger, pino } from 'pino';

export type Log = Logger;

export interface LogOptions {
  /** `-v`: with 0 the lines that operators need, from 4 on each step that is written. */
  readonly verbosity: number;
  /** auto: text on a terminal, otherwise JSON. */
  readonly format: 'auto' | 'json' | 'text';
}

/** Verbosity from which every step is logged; kube-proxy's debug levels begin there. */
const DEBUG_FROM = 4;

export async function createLog({ verbosity, format }: LogOptions): Promise<Log> {
  const forPeople = format === 'text' || (format === 'auto' && process.stderr.isTTY === true);
  const level = levelOf(verbosity);
  // Synchronous: lines from before a crash are in the log.
  const stream = forPeople ? await linesForPeople() : pino.destination({ dest: 2, sync: true });
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
}

export function levelOf(verbosity: number): 'debug' | 'info' {
  return verbosity >= DEBUG_FROM ? 'debug' : 'info';
}

/** Loaded only for a terminal: an agent on a node saves its 12 MB. */
async function linesForPeople(): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty');
  return pretty({ destination: 2, sync: true, ignore: 'pid,hostname,fault', translateTime: 'HH:MM:ss.l' });
}
