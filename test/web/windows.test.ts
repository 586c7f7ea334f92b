/** Rows of a very long list that are in the document, and windows of it that are asked for. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CHUNK, chunksOf, rowAfter, rowsIn, topFor } from '../../src/web/row-windows.ts';

const SEEN = fc.record({
  top: fc.nat(3_000_000),
  height: fc.integer({ min: 100, max: 2000 }),
  rowHeight: fc.constantFrom(46, 84),
  total: fc.nat(50_000),
});

describe('the rows of a long list', () => {
  it('in the document are those that are seen, and few more', () => {
    fc.assert(
      fc.property(SEEN, (seen) => {
        const { first, end } = rowsIn(seen);
        assert.ok(first >= 0 && end <= seen.total && first <= end);
        assert.ok(end - first <= seen.height / seen.rowHeight + 18, `${end - first} rows`);
        for (const y of [seen.top, seen.top + seen.height - 1]) {
          const row = Math.floor(y / seen.rowHeight);
          assert.ok(row >= seen.total || (row >= first && row < end), `row ${row}`);
        }
      }),
    );
  });

  it('are asked for in windows that hold each of them', () => {
    fc.assert(
      fc.property(SEEN, (seen) => {
        const rows = rowsIn(seen);
        const offsets = chunksOf(rows);
        for (let row = rows.first; row < rows.end; row++) assert.ok(offsets.includes(row - (row % CHUNK)));
        assert.ok(offsets.every((offset) => offset % CHUNK === 0 && offset < Math.max(1, rows.end)));
      }),
    );
  });

  it('are scrolled to when a key leads to one that is not seen', () => {
    fc.assert(
      fc.property(SEEN, fc.nat(49_999), (seen, row) => {
        const top = topFor(row, seen);
        assert.ok(row * seen.rowHeight >= top && (row + 1) * seen.rowHeight <= top + seen.height);
      }),
    );
    const seen = { top: 460, height: 460, rowHeight: 46, total: 100 };
    assert.equal(topFor(12, seen), 460, 'it is seen already');
  });

  it('are reached by keys, and not left', () => {
    assert.equal(rowAfter('ArrowDown', 3, 10, 5), 4);
    assert.equal(rowAfter('PageDown', 8, 10, 5), 9);
    assert.equal(rowAfter('PageUp', 3, 10, 5), 0);
    assert.equal(rowAfter('Home', 3, 10, 5), 0);
    assert.equal(rowAfter('End', 3, 10, 5), 9);
    assert.equal(rowAfter('a', 3, 10, 5), undefined);
    assert.equal(rowAfter('End', 0, 0, 5), undefined);
  });
});
