/** The figures in the table of the README are those of docs/benchmarks.json, so a new run of the benchmarks renews them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Results } from '../bench/page.ts';
import { withFigures } from '../bench/readme-figures.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

describe('the figures of the README', () => {
  const results = JSON.parse(read('docs/benchmarks.json')) as Results;

  it('are those of docs/benchmarks.json: node test/bench/readme-figures.ts writes them', () => {
    const readme = read('README.md');
    assert.equal(withFigures(readme, results), readme);
  });

  it('follow the results of the benchmarks', () => {
    const { kubeProxy: _, ...rivals } = results.rivals;
    const changed = { ...results, rivals: { ...rivals, measured: [] } };
    const text = withFigures(read('README.md'), changed);
    assert.match(text, /\| nftables, 10,000, start to all rules \| not run \| \[not run\]/);
    assert.match(text, /\| {2}\| kube-proxy \| slicewire \|/);
  });

  it('need a place in the text', () => {
    assert.throws(() => withFigures('# slicewire\n', results), /README.md has no lines/);
  });
});
