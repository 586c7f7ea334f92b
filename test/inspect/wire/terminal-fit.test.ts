/** Texts on a terminal: nothing is wider or higher than it is. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { fitted } from '../../../src/cli/status-watch.ts';

describe('a text on a terminal', () => {
  it('is broken at blanks, with the rest of a line further in', () => {
    const text = 'Health: healthy\n  the sync of the rules failed';
    assert.equal(fitted(text, { columns: 20, rows: 9 }), 'Health: healthy\n  the sync of the\n    rules failed');
    assert.equal(fitted('abcdefghijklmnop', { columns: 10, rows: 9 }), 'abcdefghij\n  klmnop');
    assert.equal(fitted(text, { columns: 80, rows: 24 }), text);
  });

  it('ends with the number of lines that have no place', () => {
    const text = Array.from({ length: 10 }, (_, i) => `line ${i}`).join('\n');
    const note = '… 7 more lines: a taller window shows them';
    assert.equal(fitted(text, { columns: 80, rows: 5 }), `line 0\nline 1\nline 2\n${note}`);
    assert.equal(fitted(text, { columns: 80, rows: 11 }), text);
  });

  it('never leaves the window, whatever it says', () => {
    const size = fc.record({ columns: fc.integer({ min: 10, max: 90 }), rows: fc.integer({ min: 2, max: 30 }) });
    const line = fc.string({ maxLength: 300 });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 40 }), size, (lines, { columns, rows }) => {
        const shown = fitted(lines.join('\n'), { columns, rows }).split('\n');
        assert.ok(shown.length < rows && shown.every((one) => one.length <= columns));
      }),
    );
  });
});
