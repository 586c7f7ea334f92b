/** Reports the time that each phase of a start took (`--report-start`). */
import type { Flags } from '../config/flags.ts';
import type { Log } from '../telemetry/log.ts';

/** The phases in their order, each with the event at its end. */
export const PHASES = {
  program: 'the program was loaded',
  configuration: 'the command line and the configuration were read',
  tools: 'the tools of iptables were tried where something needs them',
  lists: 'the initial lists were complete',
  mode: 'the mode was built',
  sync: 'the first sync ended',
} as const;

export type StartPhase = keyof typeof PHASES;

export interface StartReport {
  /** A phase ended now. Only its first end counts, and after the last phase the report is logged. */
  ended(phase: StartPhase): void;
}

/** The time at which the program was loaded, of which this file is a part. */
const LOADED = performance.now();

/** undefined unless the flags ask for a report. Call it when the configuration has been read. */
export function startReportFor({ reportStart }: Flags, log: Log): StartReport | undefined {
  return reportStart === true ? startReport(log, { loaded: LOADED, now: () => performance.now() }) : undefined;
}

interface StartTimes {
  /** Milliseconds on the clock of `now`, which starts with the process. */
  readonly loaded: number;
  readonly now: () => number;
}

export function startReport(log: Log, { loaded, now }: StartTimes): StartReport {
  const times = new Map<StartPhase, number>([
    ['program', Math.round(loaded)],
    ['configuration', Math.round(now())],
  ]);
  return {
    ended(phase) {
      if (times.has(phase)) return;
      times.set(phase, Math.round(now()));
      if (phase !== 'sync') return;
      log.info({ start: Object.fromEntries(times) }, startText(times));
    },
  };
}

function startText(times: ReadonlyMap<StartPhase, number>): string {
  const parts = [...times].map(([phase, time]) => `${PHASES[phase]} after ${time} ms`);
  return `the start: ${parts.join(', ')}`;
}
