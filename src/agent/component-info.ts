/** The facts of a process that /statusz and /flagz show. */
import { realClock } from '../base/clock.ts';
import { camel, type FlagGroup, type Flags } from '../config/flags.ts';
import { version } from '../config/program-version.ts';
import type { ComponentInfo } from '../serve/zpages.ts';

/** Replaces a secret value, as in Kubernetes' own components. */
const SECRET = 'CLASSIFIED';

/**
 * All flags with their values for /flagz (KEP-4828), sorted by name, without dashes. A flag that was not given has its default; "" where
 * that is no single value. Hidden flags are left out unless they were given.
 */
export function flagValues(flags: Flags, groups: readonly FlagGroup[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const { name, initial = '', isHidden } of groups.flatMap((group) => group.flags)) {
    if (isHidden !== true) values.set(name, initial);
  }
  for (const [name, value] of Object.entries(flags)) {
    if (value !== undefined) values.set(nameOf(name), withoutSecret(String(value)));
  }
  return new Map([...values].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The flag of a name in camel case. */
function nameOf(name: string): string {
  const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return camel(flag) === name ? flag : name;
}

/** A URL may carry a user and a password. */
function withoutSecret(value: string): string {
  return value.replace(/(\w:\/\/)[^/?#\s]*@/g, `$1${SECRET}@`);
}

/** Call this when the process starts to serve, because it takes the start time. `flags` is the command line. */
export function componentInfo(flags: Flags, groups: readonly FlagGroup[]): ComponentInfo {
  return {
    version: version(),
    startedAt: realClock.wall(),
    wall: () => realClock.wall(),
    random: Math.random,
    flags: flagValues(flags, groups),
  };
}
