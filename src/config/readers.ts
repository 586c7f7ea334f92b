/** Readers of flag values. Each returns the value, and reports a fault when the value is invalid. */
import { type Cidr, parseCidr } from '../base/address.ts';
import { durationText, parseDuration } from '../base/duration.ts';
import { ConfigError, type Flags, flagText, textFlag } from './flags.ts';

export interface FlagReader {
  /** The text of a flag; undefined when it was not given. */
  text(flag: string): string | undefined;
  fault(flag: string, problem: string): void;
  /** The name for the user: the flag, or the field of the file. */
  name(flag: string): string;
}

/** The configuration that `make` reads from a command line. Throws a ConfigError that lists every fault. */
export function fromCommandLine<C extends object>(flags: Flags, make: (read: FlagReader) => C): Readonly<C> {
  const faults: string[] = [];
  const config = make({
    text: (flag) => textFlag(flags, flag),
    fault: (flag, problem) => faults.push(`${flagText(flags, flag)}: ${problem}`),
    name: (flag) => `--${flag}`,
  });
  if (faults.length > 0) throw new ConfigError(faults.join('; '));
  return Object.freeze(config);
}

export function readCidrs(read: FlagReader, flag: string, what = 'a CIDR such as 10.244.0.0/16'): Cidr[] {
  const texts = (read.text(flag) ?? '').split(',').filter((text) => text.trim() !== '');
  const cidrs: Cidr[] = [];
  for (const text of texts) {
    const cidr = parseCidr(text);
    if (cidr === undefined) read.fault(flag, texts.length === 1 ? `must be ${what}` : `${text} is not ${what}`);
    else cidrs.push(cidr);
  }
  return cidrs;
}

/** Milliseconds. */
export function readDuration(read: FlagReader, flag: string, initial: string): number {
  const milliseconds = parseDuration(read.text(flag) ?? initial);
  if (milliseconds === undefined) read.fault(flag, 'must be a duration such as 30s or 1m30s');
  return milliseconds ?? Number.NaN;
}

/** Milliseconds, at least 0. */
export function readTimeout(read: FlagReader, flag: string, initial: string): number {
  const milliseconds = readDuration(read, flag, initial);
  if (milliseconds < 0) read.fault(flag, 'must not be negative');
  return milliseconds;
}

/** Milliseconds, more than 0. */
export function readPositive(read: FlagReader, flag: string, initial: string): number {
  const milliseconds = readDuration(read, flag, initial);
  if (milliseconds <= 0) read.fault(flag, 'must be more than 0');
  return milliseconds;
}

interface NamedDuration {
  readonly flag: string;
  readonly milliseconds: number;
}

interface Order {
  readonly shorter: NamedDuration;
  readonly longer: NamedDuration;
  readonly mayBeEqual: boolean;
}

/** Reports two durations in the wrong order, as a fault of the one that the user set. The text says whether the other is a default. */
export function checkOrder(read: FlagReader, { shorter, longer, mayBeEqual }: Order): void {
  const isGiven = ({ flag }: NamedDuration) => read.text(flag) !== undefined;
  const isShorterAtFault = isGiven(shorter) || !isGiven(longer);
  const [at, other] = isShorterAtFault ? [shorter, longer] : [longer, shorter];
  const [is, isNot] = isShorterAtFault ? ['shorter', 'longer'] : ['longer', 'shorter'];
  const must = mayBeEqual ? `must not be ${isNot}` : `must be ${is}`;
  const isDefault = isGiven(other) ? '' : ' by default';
  read.fault(
    at.flag,
    `${must} than ${read.name(other.flag)}, which is ${durationText(other.milliseconds)}${isDefault}`,
  );
}

/** The largest number of a 32-bit field of the API. */
export const MAX_INT32 = 2_147_483_647;

export function readInteger(
  read: FlagReader,
  flag: string,
  { initial, least, most }: { readonly initial: number; readonly least: number; readonly most: number },
): number {
  const text = read.text(flag) ?? String(initial);
  const value = /^-?\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most)) read.fault(flag, `must be a whole number from ${least} to ${most}`);
  return value;
}

export function isOn(read: FlagReader, flag: string, initial: boolean): boolean {
  const text = read.text(flag) ?? String(initial);
  const value = parseBool(text);
  if (value === undefined) read.fault(flag, 'must be true or false');
  return value === true;
}

/** Reads a boolean as Go's ParseBool does; undefined for another text. */
export function parseBool(text: string): boolean | undefined {
  if (['1', 't', 'T', 'true', 'TRUE', 'True'].includes(text)) return true;
  return ['0', 'f', 'F', 'false', 'FALSE', 'False'].includes(text) ? false : undefined;
}

export function readChoice<C extends string>(
  read: FlagReader,
  flag: string,
  { initial, choices }: { readonly initial: C; readonly choices: readonly C[] },
): C {
  const text = read.text(flag) || initial;
  if (choices.includes(text as C)) return text as C;
  read.fault(flag, `must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`);
  return initial;
}

const SIZE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
};

/** Bytes, as Kubernetes writes quantities: `64Mi`. */
export function readSize(
  read: FlagReader,
  flag: string,
  { initial, least, most }: { readonly initial: string; readonly least: number; readonly most: number },
): number {
  const [, number = '', unit = ''] = /^(\d{1,15})(k|M|G|Ki|Mi|Gi)?$/.exec(read.text(flag) ?? initial) ?? [];
  const bytes = number === '' ? Number.NaN : Number(number) * (SIZE_UNITS[unit] ?? Number.NaN);
  if (!(bytes >= least && bytes <= most))
    read.fault(flag, 'must be a number of bytes such as 64Mi, at least 1Mi and at most 1024Gi');
  return bytes;
}

export interface LogConfig {
  /** auto: lines for people on a terminal, JSON elsewhere. */
  readonly format: 'auto' | 'json' | 'text';
  readonly verbosity: number;
}

export function readLog(read: FlagReader): LogConfig {
  return {
    format: readChoice(read, 'logging-format', { initial: 'auto', choices: ['auto', 'json', 'text'] }),
    verbosity: readInteger(read, 'v', { initial: 0, least: 0, most: MAX_INT32 }),
  };
}
