/** The benchmarks' figures are of one state: docs/benchmarks.json, docs/benchmarks.md and its chart, and the table of the README. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { chart } from '../bench/chart.ts';
import { commitsOf, page } from '../bench/page.ts';
import { withFigures } from '../bench/readme-figures.ts';
import { type Results, readResults } from '../bench/results.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

describe('the benchmarks', () => {
  const results = readResults() as Results;

  it('are all of one commit: npm run bench -- PART measures a part again', () => {
    const commits = [...commitsOf(results)];
    assert.equal(commits.length, 1, commits.join(', '));
    assert.match(commits.join(), /^[0-9a-f]{8}$/);
  });

  it('have a page and a chart of the figures of now', () => {
    assert.equal(read('docs/benchmarks.md'), page(results));
    assert.equal(read('docs/benchmarks.svg'), chart(results.proxies.figures));
  });
});

describe('the figures of the README', () => {
  const results = readResults() as Results;

  it('are those of docs/benchmarks.json: node test/bench/write-pages.ts writes them', () => {
    const readme = read('README.md');
    assert.equal(withFigures(readme, results), readme);
  });

  it('follow the results of the benchmarks', () => {
    const figures = { measured: [], missing: [] };
    const changed = { ...results, proxies: { ...results.proxies, figures } };
    const text = withFigures(read('README.md'), changed);
    assert.match(text, /\| nftables, 10,000 × 5, start to all rules \| not run \| \[not run\]/);
    assert.match(text, /\| {2}\| kube-proxy \| slicewire \|/);
  });

  it('need a place in the text', () => {
    assert.throws(() => withFigures('# slicewire\n', results), /README.md has no lines/);
  });
});
