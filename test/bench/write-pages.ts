/**
 * Writes what shows the figures of docs/benchmarks.json: docs/benchmarks.md, its chart, and the table of the README. `npm run bench` does it
 * at its end; a test fails when one of them is stale.
 *
 *   node test/bench/write-pages.ts
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chart } from './chart.ts';
import { page } from './page.ts';
import { withFigures } from './readme-figures.ts';
import { type Results, readResults } from './results.ts';

const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** From the file of figures, in which they are rounded. */
export function writePages(): void {
  const results = readResults() as Results;
  writeFileSync(file('docs/benchmarks.svg'), chart(results.proxies.figures));
  writeFileSync(file('docs/benchmarks.md'), page(results));
  writeFileSync(file('README.md'), withFigures(readFileSync(file('README.md'), 'utf8'), results));
  process.stdout.write(`written: ${file('docs/benchmarks.md')}\n`);
}

if (import.meta.main) writePages();
