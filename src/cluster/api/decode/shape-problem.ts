/** Faults of an object's shape in words for users: the schema library's own words are for those who write schemas. */
import type * as z from 'zod/mini';

const WANTED: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map of fields',
  record: 'a map of names to values',
};

/** `must be a number, not a string; write it without quotes` */
export function shapeProblem(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'too_small' && (value === '' || (Array.isArray(value) && value.length === 0))) {
    return 'must not be empty';
  }
  const wanted = wantedBy(issue);
  if (wanted.length === 0) return `cannot be used: ${issue.message}`;
  const words = wanted.map((type) => WANTED[type] ?? type).join(' or ');
  if (value === undefined) return `is missing; it must be ${words}`;
  return `must be ${words}, not ${typeText(value)}${hint(wanted, value)}`;
}

/** The types that the schema allows. */
function wantedBy(issue: z.core.$ZodIssue): readonly string[] {
  if (issue.code === 'invalid_type') return [issue.expected];
  if (issue.code !== 'invalid_union') return [];
  // Only type issues name an allowed type.
  const types = issue.errors.map(([first]) => (first?.code === 'invalid_type' ? first.expected : undefined));
  return types.filter((type) => type !== undefined);
}

function typeText(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'a string';
  if (typeof value === 'number') return Number.isNaN(value) ? 'NaN' : 'a number';
  return typeof value === 'boolean' ? 'true or false' : 'a map';
}

/** Advice where YAML reads another type than the author probably meant. */
function hint(wanted: readonly string[], value: unknown): string {
  const wants = (type: string) => wanted.includes(type);
  if (wants('string') && (typeof value === 'number' || typeof value === 'boolean')) return '; write it in quotes';
  if (typeof value !== 'string') return '';
  const isMeant = (wants('number') && /^-?\d+$/.test(value)) || (wants('boolean') && /^(true|false)$/.test(value));
  return isMeant ? '; write it without quotes' : '';
}
