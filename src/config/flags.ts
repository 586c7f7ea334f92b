/** Flags by name, as the command line or a file gives them. */

/** Flags by name in camel case, as commander returns them: a string, or true. */
export type Flags = Readonly<Record<string, string | boolean | undefined>>;

/** All faults of the configuration in one message. */
export class ConfigError extends Error {
  readonly code = 'CONFIG';
}

/** `sync-period` → `syncPeriod`: commander's name of a flag. */
export function camel(flag: string): string {
  return flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** `--v=x`, or `--v` where it was not given. */
export function flagText(flags: Flags, flag: string): string {
  const value = textFlag(flags, flag);
  return value === undefined ? `--${flag}` : `--${flag}=${value}`;
}

export function textFlag(flags: Flags, flag: string): string | undefined {
  const value = flags[camel(flag)];
  return value === undefined ? undefined : String(value);
}
