/** Words of a question that commands, the plugin of kubectl and the agent read alike: a moment, a span of time, a Service. */
import { MOMENT_FORMS, parseMoment, parseSince, SINCE_FORMS } from '../../base/moments.ts';
import { WrongQuestion } from './problem.ts';

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
