/** The nearest of several names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { edits, nearest, nearestService } from '../../../src/inspect/explain/nearest.ts';

const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 6 });

/** The same by its definition: every way of editing. */
function plainEdits(a: string, b: string): number {
  if (a === '' || b === '') return a.length + b.length;
  const rest = [plainEdits(a.slice(1), b) + 1, plainEdits(a, b.slice(1)) + 1];
  rest.push(plainEdits(a.slice(1), b.slice(1)) + (a[0] === b[0] ? 0 : 1));
  if (a.length > 1 && b.length > 1 && a[0] === b[1] && a[1] === b[0]) rest.push(plainEdits(a.slice(2), b.slice(2)) + 1);
  return Math.min(...rest);
}

describe('edits', () => {
  it('are as few as their definition says', () => {
    fc.assert(fc.property(word, word, (a, b) => assert.equal(edits(a, b, 10), plainEdits(a, b))));
  });

  it('are not counted above the limit', () => {
    fc.assert(
      fc.property(word, word, fc.integer({ min: 0, max: 4 }), (a, b, most) => {
        assert.equal(edits(a, b, most), Math.min(plainEdits(a, b), most + 1));
      }),
    );
  });
});

describe('the nearest name', () => {
  it('has the fewest edits; of equals the first counts', () => {
    assert.equal(nearest('shop/wbe', ['shop/cart', 'shop/web', 'shop/wba']), 'shop/web');
    assert.equal(nearest('abcdef', ['abcdxx', 'abcdef']), 'abcdef');
    assert.equal(nearest('https', ['http', 'httpx']), 'http');
  });

  it('is none where all are far', () => {
    assert.equal(nearest('shop/inventory', ['shop/web', 'shop/cart']), undefined);
    assert.equal(nearest('a', ['xyz']), undefined);
    assert.equal(nearest('web', []), undefined);
  });

  it('of a Service is one of the same name in another namespace, where no other is near', () => {
    const services = ['shop/web', 'pay/ledger'];
    assert.equal(nearestService('default/ledger', services), 'pay/ledger');
    assert.equal(nearestService('shop/wep', services), 'shop/web');
    assert.equal(nearestService('default/other', services), undefined);
  });
});
