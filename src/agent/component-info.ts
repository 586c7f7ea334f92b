/** What a process tells of itself at /statusz and /flagz. */
import { realClock } from '../base/clock.ts';
import { camel, type FlagGroup, type Flags } from '../config/flags.ts';
import { version } from '../config/program-version.ts';
import type { ComponentInfo } from '../serve/zpages.ts';

// The flags of a command line with their values, also those that were not given: for /flagz (KEP-4828).

/** What Kubernetes' components write instead of a value that nobody may see. */
const SECRET = 'CLASSIFIED';

/**
 * Sorted by name, without dashes. A flag that was not given has the value that it then means; "" where that is no single value. Flags
 * that no help shows are left out unless they were given.
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

/** Of a name in camel case. */
function nameOf(name: string): string {
  const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return camel(flag) === name ? flag : name;
}

/** A URL may carry a user and a password. */
function withoutSecret(value: string): string {
  return value.replace(/(\w:\/\/)[^/?#\s]*@/g, `$1${SECRET}@`);
}

/** To be called when the process starts to serve. `flags`: the command line. */
export function componentInfo(flags: Flags, groups: readonly FlagGroup[]): ComponentInfo {
  return {
    version: version(),
    startedAt: realClock.wall(),
    wall: () => realClock.wall(),
    random: Math.random,
    flags: flagValues(flags, groups),
  };
}
