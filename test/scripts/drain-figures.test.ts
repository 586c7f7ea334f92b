/** The figures of docs/drain.md are those of docs/drain.json: `node test/fleet/roll-out/main.ts` measures and writes them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { type Measured, withFigures } from '../fleet/roll-out/page.ts';

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const measured = JSON.parse(read('drain.json')) as Measured;

describe('docs/drain.md', () => {
  it('has the measured figures', () => assert.equal(withFigures(read('drain.md'), measured), read('drain.md')));

  it('claims what was measured: requests fail where nothing waits, and none with the fleet', () => {
    const failed = measured.variants.map((variant) => variant.failed);
    const [nothing = 0, ...others] = failed;
    assert.ok(nothing > 0, String(nothing));
    assert.deepEqual(others, [0, 0, 0]);
    assert.deepEqual(
      measured.variants.slice(2).map(({ without }) => without),
      [0, 0],
    );
  });

  it('cannot be written where the place for the figures is missing', () => {
    assert.throws(() => withFigures('# Drain\n', measured), /^Error: docs\/drain\.md lacks/);
  });
});
