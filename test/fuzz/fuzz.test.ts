/** A short run of every target, the same each time, and everything that a run found before (`npm run fuzz` looks for more). */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { type Finding, judge, runTarget } from './engine.ts';
import { TARGET_NAMES, targetNamed } from './targets/index.ts';

const SEED = 18;
const INPUTS = 1500;
/** Milliseconds of a target. */
const MOST = 700;

const found = new URL('./found/', import.meta.url);

describe('hostile input', () => {
  for (const name of TARGET_NAMES) {
    it(`${name}: mutated inputs do no harm`, async () => {
      const target = await targetNamed(name);
      const findings: Finding[] = [];
      const onFinding = (finding: Finding) => void findings.push(finding);
      try {
        // The well-formed inputs too.
        for (const seed of target.seeds) assert.equal(await judge(target, seed), undefined);
        await runTarget(target, { seed: SEED, from: 0, inputs: INPUTS, most: MOST, known: new Set(), onFinding });
      } finally {
        await target.close?.();
      }
      assert.deepEqual(
        findings.map(({ index, problem }) => `input ${index}: ${problem}`),
        [],
      );
    });
  }

  for (const file of readdirSync(found)
    .filter((name) => name.endsWith('.input'))
    .sort()) {
    it(`${file} does no harm again`, async () => {
      const target = await targetNamed(file.replace(/-[0-9a-f]{12}\.input$/, ''));
      try {
        assert.equal(await judge(target, readFileSync(new URL(file, found))), undefined);
      } finally {
        await target.close?.();
      }
    });
  }
});
