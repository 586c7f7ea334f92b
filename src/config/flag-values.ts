/** The flags of a command line with their values, also those that were not given: for /flagz (KEP-4828). */
import type { FlagGroup } from './flag-table.ts';
import { camel, type Flags } from './flags.ts';

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
