/** Go's forms of flags that commander does not know: `-v=4`, `--cleanup=true`. Command lines of kube-proxy have them. */

import { argumentOf, ConfigError } from '../config/flags.ts';
import { parseBool } from '../config/readers.ts';
import { flagsOf } from './commands/command.ts';
import { COMMANDS } from './commands/command-table.ts';

/** Flags without a value. */
const ACTIONS: ReadonlySet<string> = new Set(
  COMMANDS.flatMap(flagsOf)
    .filter((flag) => argumentOf(flag) === undefined)
    .map(({ name }) => `--${name}`),
);

/** What follows `--` stays as it is. */
export function goArguments(args: readonly string[]): string[] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  return [...args.slice(0, end).flatMap(commanderForm), ...args.slice(end)];
}

function commanderForm(arg: string): string[] {
  const [name = '', value] = splitAt(arg, '=');
  if (value === undefined) return [arg];
  if (name === '-v') return ['-v', value];
  if (!ACTIONS.has(name)) return [arg];
  // kube-proxy has two forms of its version; here both are one.
  const isOn = name === '--version' && value === 'raw' ? true : parseBool(value);
  if (isOn === undefined) throw new ConfigError(`${arg}: must be true or false`);
  return isOn ? [name] : [];
}

function splitAt(text: string, separator: string): readonly [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
