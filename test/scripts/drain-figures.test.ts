/** The figures of docs/fleet.md are those of docs/fleet.json: `node test/fleet/roll-out/main.ts` measures and writes them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { type Measured, withFigures } from '../fleet/roll-out/page.ts';

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const measured = JSON.parse(read('fleet.json')) as Measured;

describe('docs/fleet.md', () => {
  it('has the measured figures', () => assert.equal(withFigures(read('fleet.md'), measured), read('fleet.md')));

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
    assert.throws(() => withFigures('# Drain\n', measured), /^Error: docs\/fleet\.md lacks/);
  });
});
