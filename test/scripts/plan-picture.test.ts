/** The terminal of docs/plan.svg. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { terminalPicture } from '../../scripts/plan-picture.ts';

describe('the picture of a terminal', () => {
  it('has a line of text for each line, in the colour of its sign', () => {
    const picture = terminalPicture('$ slicewire plan\n~ chain\n    - old <a>\n    + new & b\n1 to change');
    const lines = [...picture.matchAll(/<text .*?fill="(.*?)".*?>(.*?)<\/text>/g)].map(([, fill, text]) => [
      text,
      fill,
    ]);
    assert.deepEqual(lines, [
      ['$ slicewire plan', '#f9fafb'],
      ['~ chain', '#fbbf24'],
      ['    - old &lt;a&gt;', '#f87171'],
      ['    + new &amp; b', '#4ade80'],
      ['1 to change', '#d1d5db'],
    ]);
  });

  it('is as wide as its longest line', () => {
    const width = (text: string) => Number(/width="(\d+)"/.exec(terminalPicture(text))?.[1]);
    assert.ok(width('a'.repeat(80)) > width('a'.repeat(40)) + 250);
  });
});
