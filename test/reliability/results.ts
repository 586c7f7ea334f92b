/**
 * What is recorded about reliability: docs/reliability.json, and docs/reliability.md, which is made of it. Each runner records
 * its own part (`--record`); the others stay.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Results } from './recorded.ts';
import { page } from './report.ts';

const docs = (name: string) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
const DATA = docs('reliability.json');
const PAGE = docs('reliability.md');

export const PARTS: readonly (keyof Results)[] = [
  'soak',
  'versions',
  'simulator',
  'prefixes',
  'mutations',
  'fuzz',
  'kernels',
  'stories',
  'rivals',
];

export function readResults(): Results {
  return existsSync(DATA) ? (JSON.parse(readFileSync(DATA, 'utf8')) as Results) : {};
}

export function readPage(): string {
  return readFileSync(PAGE, 'utf8');
}

/** Write one part, and the page. */
export function recordPart<Name extends keyof Results>(name: Name, value: NonNullable<Results[Name]>): void {
  const results: Results = { ...readResults(), [name]: value };
  // More digits than these are noise.
  const rounded = (_: string, one: unknown) => (typeof one === 'number' ? Math.round(one * 1e3) / 1e3 : one);
  writeFileSync(DATA, `${JSON.stringify(results, rounded, 1)}\n`);
  writeFileSync(PAGE, page(readResults()));
  process.stderr.write(`written: ${DATA} and ${PAGE}\n`);
}

/** The page again, after its words changed. */
export function writePage(): void {
  writeFileSync(PAGE, page(readResults()));
}
