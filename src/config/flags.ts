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

// Flags as data: the command line, its help, the completion of shells and the manual pages are all made from them.

export interface FlagEntry {
  /** With its letter and argument: `-v, --v <level>`. An argument in brackets can be left out. */
  readonly usage: string;
  /** Without dashes and argument. */
  readonly name: string;
  readonly help: string;
  /** The default, where it is one value. Otherwise `help` describes it. */
  readonly initial?: string;
  /** The allowed values, or the common ones. */
  readonly values?: readonly string[];
  /** The command line refuses values that are not in `values`. src/config/ checks the values of other flags. */
  readonly isStrict?: true;
  /** One of the ten that matter most. */
  readonly isEssential?: true;
  /** Accepted, but neither shown nor completed. */
  readonly isHidden?: true;
  /** Each occurrence adds to those before it, with a comma between them, as in Go. */
  readonly isJoined?: true;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly FlagEntry[];
}

/** `usage`: `--mode <mode>`. */
export function option(usage: string, help: string, rest: Omit<FlagEntry, 'usage' | 'name' | 'help'> = {}): FlagEntry {
  return { usage, name: /--([\w-]+)/.exec(usage)?.[1] ?? '', help, ...rest };
}

/** A flag that is accepted, and that no help shows. */
export const hidden = (usage: string): FlagEntry => option(usage, '', { isHidden: true });

/** The help of a flag, with its default. */
export function helpOf({ help, initial }: FlagEntry): string {
  return initial === undefined ? help : `${help} (default: ${initial})`;
}

/** The name of a flag's argument, such as `file` of `<file>`; undefined for a flag without one. */
export function argumentOf({ usage }: FlagEntry): string | undefined {
  return /[<[]([^\]>]+)[\]>]/.exec(usage)?.[1];
}

/** Whether the word after the flag is its value. Otherwise the flag has none, or one that can be left out. */
export function needsValue({ usage }: FlagEntry): boolean {
  return usage.includes('<');
}
