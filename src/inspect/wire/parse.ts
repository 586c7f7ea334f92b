/** Words of a query that commands, the plugin of kubectl and the agent read alike: a moment, a span of time, a Service. */

import { parseDuration } from '../../base/duration.ts';
import { WrongQuestion } from './envelope.ts';

const CLOCK = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(\.\d{1,3})?)?$/;
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;
const DAY = 24 * 60 * 60 * 1000;

/** The forms of a moment, for a message. */
const MOMENT_FORMS =
  'a time of day such as 12:03:04 or 12:03:04.500, a moment such as 2026-11-22T12:03:04Z, or a duration before now such as -5m';

/**
 * A moment in milliseconds since 1970: `12:03:04.567` is the last time that this machine's clock showed it, RFC 3339, or `-5m` before
 * `now`. undefined for any other text, and for a moment after `now`.
 */
export function parseMoment(text: string, now: number): number | undefined {
  const found = rawMoment(text, now);
  return found === undefined || Number.isNaN(found) || found > now ? undefined : found;
}

function rawMoment(text: string, now: number): number | undefined {
  if (text.startsWith('-')) {
    const before = parseDuration(text.slice(1));
    return before === undefined ? undefined : now - before;
  }
  if (RFC_3339.test(text)) return Date.parse(text);
  const [, hours, minutes, seconds = '0', fraction = ''] = CLOCK.exec(text) ?? [];
  if (hours === undefined) return undefined;
  const at = new Date(now);
  at.setHours(Number(hours), Number(minutes), Number(seconds), Math.round(Number(`0${fraction}`) * 1000));
  return at.getTime() > now ? at.getTime() - DAY : at.getTime();
}

/** The beginning of a span that ends now: `10m`, or a moment. undefined as for `parseMoment`. */
export function parseSince(text: string, now: number): number | undefined {
  const span = parseDuration(text);
  return span !== undefined && span > 0 ? now - span : parseMoment(text, now);
}

/** The forms of the beginning of a span, for a message. */
const SINCE_FORMS = `a duration such as 10m, or ${MOMENT_FORMS}`;

/** Milliseconds since 1970. Throws WrongQuestion. */
export function readMoment(name: string, text: string, now: number): number {
  const found = parseMoment(text, now);
  if (found !== undefined) return found;
  throw new WrongQuestion(`${name}: ${text} is not a time in the past: write ${MOMENT_FORMS}`);
}

/** The same, of the beginning of a span until now. */
export function readSince(name: string, text: string, now: number): number {
  const found = parseSince(text, now);
  if (found !== undefined) return found;
  throw new WrongQuestion(`${name}: ${text} is not a time in the past: write ${SINCE_FORMS}`);
}

/** `shop/web`, or `svc/shop/web`. Throws WrongQuestion. */
export function serviceKey(text: string): string {
  const key = text.replace(/^svc\//, '');
  if (!/^[a-z0-9][-a-z0-9.]*\/[a-z0-9][-a-z0-9.]*$/.test(key)) {
    throw new WrongQuestion(`${text} is no Service: write NAMESPACE/NAME, such as shop/web`);
  }
  return key;
}
