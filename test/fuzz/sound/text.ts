/** Checks of texts and numbers. Each throws Unsound with the place of the value. */
import { type Family, familyOf, parseAddress, parseCidr } from '../../../src/base/address.ts';
import { shown, sure } from '../target.ts';

export function soundAddress(value: unknown, at: string, family?: Family): void {
  sure(typeof value === 'string', () => `${at}: ${shown(value)} is no text`);
  const address = parseAddress(value);
  sure(address === value, () => `${at}: ${shown(value)} is no canonical address`);
  if (family !== undefined) sure(familyOf(address) === family, () => `${at}: ${value} is not of ${family}`);
}

export function soundCidr(value: unknown, at: string): void {
  sure(typeof value === 'string' && parseCidr(value) === value, () => `${at}: ${shown(value)} is no canonical CIDR`);
}

export function soundNumber(value: unknown, at: string, least: number, most: number): void {
  const is = typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most;
  sure(is, () => `${at}: ${shown(value)} (${String(value)}) is no whole number from ${least} to ${most}`);
}

export function soundPort(value: unknown, at: string, least = 1): void {
  soundNumber(value, at, least, 65_535);
}

export function soundBoolean(value: unknown, at: string): void {
  sure(typeof value === 'boolean', () => `${at}: ${shown(value)} is neither true nor false`);
}

export function soundChoice(value: unknown, at: string, choices: readonly unknown[]): void {
  sure(choices.includes(value), () => `${at}: ${shown(value)} is none of ${choices.join(', ')}`);
}

/** A time in milliseconds since 1970. */
export function soundTime(value: unknown, at: string): void {
  sure(typeof value === 'number' && Math.abs(value) <= 8.64e15, () => `${at}: ${shown(value)} is no time`);
}

export function soundList(value: unknown, at: string, one: (value: unknown, at: string) => void): void {
  sure(Array.isArray(value), () => `${at}: ${shown(value)} is no list`);
  for (const [i, item] of value.entries()) one(item, `${at}[${i}]`);
}

/** A text for a line of a log: printable ASCII on one line, and the sign of a shortened value. */
export function soundLine(value: unknown, at: string): void {
  sure(typeof value === 'string', () => `${at}: ${shown(value)} is no text`);
  sure(/^[\x20-\x7e…]*$/.test(value), () => `${at}: ${shown(value)} is not one line of printable characters`);
}

/** A text that may stand in a rule without quotes. */
export function soundWord(value: unknown, at: string, form: RegExp): void {
  sure(typeof value === 'string' && form.test(value), () => `${at}: ${shown(value)} is not of the form ${form.source}`);
}

export const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
export const KEY = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
export const PORT_NAME = /^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$/;
/** Of a zone or a node. */
export const HINT = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$/;

/** Nothing has changed what all objects inherit. */
export function soundPrototypes(): void {
  const inherited: Record<string, unknown> = {};
  const names: string[] = [];
  for (const name in inherited) names.push(name);
  sure(names.length === 0, () => `all objects inherit ${names.join(', ')}`);
}
