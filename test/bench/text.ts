/** Tables and figures of the benchmarks, as text. */

/** In the place of a figure that there is not. */
export const NOT_RUN = 'not run';

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The least value that at least this share of all values does not exceed. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}

/** What is kept of very many values. */
export interface Summary {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
}

export function summary(values: readonly number[]): Summary {
  const most = values.reduce((highest, value) => Math.max(highest, value), 0);
  return { count: values.length, p50: median(values), p99: quantile(values, 0.99), most };
}

/** `1.25 s (1.20 to 1.31)` */
export function spread(values: readonly number[]): string {
  const seconds = (value: number) => (value / 1000).toFixed(2);
  const all = `${seconds(Math.min(...values))} to ${seconds(Math.max(...values))}`;
  return values.length === 1 ? `${seconds(median(values))} s` : `${seconds(median(values))} s (${all})`;
}

/** `205 (198 to 221)` */
export function spreadOf(values: readonly number[]): string {
  const all = `${Math.min(...values).toFixed(0)} to ${most(values).toFixed(0)}`;
  return values.length === 1 ? median(values).toFixed(0) : `${median(values).toFixed(0)} (${all})`;
}

/** `10,000 × 5` */
export const size = ({ services, endpoints }: { services: number; endpoints: number }) =>
  `${services.toLocaleString('en')} × ${endpoints}`;
export const ms = (value: number, digits = 0) => `${value.toFixed(digits)} ms`;
/** `3.1 ms`, from a second on `27.9 s` */
export const duration = (milliseconds: number) =>
  milliseconds < 1000 ? ms(milliseconds, 1) : `${(milliseconds / 1000).toFixed(1)} s`;
export const percent = (share: number, digits = 1) => `${(share * 100).toFixed(digits)} %`;
export const ratio = (a: number, b: number) => (a / b).toFixed(2);
export const most = (values: readonly number[]) => Math.max(...values);

/** What was wanted of a figure. */
export interface Aim {
  readonly what: string;
  readonly at: string;
  readonly aim: string;
  readonly found: string;
  /** The floor or the rival of the same run. */
  readonly beside: string;
  /** undefined: it was not measured, or there is nothing to compare it with. */
  readonly isReached: boolean | undefined;
  /** The reason where it is missed, by profile and measurement. */
  readonly inTheWay?: string;
}

/** Student's t for 95 % on both sides, by degrees of freedom from 1. */
const STUDENT = [12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The mean with its 95 % interval: `15,020 ± 310`. */
export function interval(values: readonly number[], digits = 0): string {
  const number = (value: number) =>
    value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const middle = mean(values);
  if (values.length < 2) return number(middle);
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const student = STUDENT[values.length - 2] ?? 2.2;
  return `${number(middle)} ± ${number(student * Math.sqrt(squares / (values.length - 1) / values.length))}`;
}
