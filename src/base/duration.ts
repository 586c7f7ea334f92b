/** Go's duration text (time.ParseDuration), which flags and configuration files of Kubernetes use. */

const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  // Go accepts both letters: the micro sign and the Greek mu.
  '\u00b5s': 1e-3,
  '\u03bcs': 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Milliseconds of Go's longest duration, 2⁶³ nanoseconds: 292 years. */
const MAX_DURATION_MS = 2 ** 63 / 1e6;
/** Characters of a duration, so that its parsing is bounded. */
const MAX_TEXT = 100;

/** `1m30s` → 90000 milliseconds; undefined for a text that is no duration, or longer than 292 years. */
export function parseDuration(text: string): number | undefined {
  if (text.length > MAX_TEXT) return undefined;
  if (/^[+-]?0$/.test(text)) return 0;
  const whole = /^([+-]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|[\u00b5\u03bc]s|ms|s|m|h))+)$/.exec(text);
  if (whole === null) return undefined;
  let total = 0;
  for (const [, number, unit] of (whole[2] ?? '').matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|[\u00b5\u03bc]s|ms|s|m|h)/g)) {
    total += Number(number) * (UNITS[unit ?? ''] ?? Number.NaN);
  }
  if (total > MAX_DURATION_MS) return undefined;
  return whole[1] === '-' ? -total : total;
}

/** 90000 → `1m30s`, as Go prints it. */
export function durationText(milliseconds: number): string {
  if (milliseconds === 0) return '0s';
  if (Math.abs(milliseconds) < 1000) return `${milliseconds}ms`;
  const sign = milliseconds < 0 ? '-' : '';
  const total = Math.abs(milliseconds);
  const hours = Math.floor(total / 3_600_000);
  const minutes = Math.floor((total % 3_600_000) / 60_000);
  const seconds = `${(total % 60_000) / 1000}s`;
  if (hours > 0) return `${sign}${hours}h${minutes}m${seconds}`;
  return sign + (minutes > 0 ? `${minutes}m${seconds}` : seconds);
}
