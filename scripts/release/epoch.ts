/** The one time that what is built may contain (https://reproducible-builds.org/specs/source-date-epoch/). */

/** Seconds since 1970; undefined when the variable is not set. Throws when it is no such number. */
export function epochOf({
  SOURCE_DATE_EPOCH: value,
}: Readonly<Record<string, string | undefined>>): number | undefined {
  if (value === undefined || value === '') return undefined;
  if (/^\d{1,11}$/.test(value)) return Number(value);
  throw new Error(`SOURCE_DATE_EPOCH=${value}: must be a number of seconds since 1970`);
}
