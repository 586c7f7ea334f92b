/** docs/plan.svg shows what `slicewire plan` prints now. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { realOutput, terminalPicture } from '../../scripts/plan-picture.ts';

describe('docs/plan.svg', () => {
  it('is what scripts/plan-picture.ts draws of a real plan', async () => {
    const drawn = readFileSync(new URL('../../docs/plan.svg', import.meta.url), 'utf8');
    const isFresh = drawn === terminalPicture(await realOutput());
    assert.ok(isFresh, 'the output of plan changed: run node scripts/plan-picture.ts');
  });
});
