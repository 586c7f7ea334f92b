/** Rules that do the same are the same, whoever wrote them; rules that do something else are not. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ReadExpression } from '../../../../src/kernel/nftables-kernel.ts';
import { canonical } from '../../../../src/proxy/modes/nft-table/table-view.ts';

const prefix = (mask: string, value: string, flip = '\0\0\0\0'): readonly ReadExpression[] => [
  { do: 'load', what: 'source address', to: 0 },
  { do: 'mask', at: 0, mask, flip },
  { do: 'compare', from: 0, is: 'equal', value },
];
const trimmed = (bytes: number, value: string): readonly ReadExpression[] => [
  { do: 'load-part', what: 'source address', bytes, to: 0 },
  { do: 'compare', from: 0, is: 'equal', value },
];
const [ALL, NET] = ['\xff\xff\0\0', '\x0a\xf4\0\0'];

describe('the canonical form', () => {
  it('of a prefix is that of the nft tool', () => {
    assert.deepEqual(canonical(prefix(ALL, NET)), trimmed(2, '\x0a\xf4'));
    assert.deepEqual(canonical(trimmed(2, '\x0a\xf4')), trimmed(2, '\x0a\xf4'));
    const [load, , compare] = prefix('\xff\xff\xff\xff', '\x0a\xf4\x01\x0b');
    assert.deepEqual(canonical(prefix('\xff\xff\xff\xff', '\x0a\xf4\x01\x0b')), [load, compare]);
  });

  it('differs where the rule does', () => {
    for (const other of [prefix(ALL, NET, '\0\0\0\x01'), prefix('\xff\xf0\0\0', NET), prefix(ALL, '\x0a\xf4\0\x01')]) {
      assert.deepEqual(canonical(other), other);
    }
    assert.notDeepEqual(canonical(prefix('\xff\0\0\0', '\x0a\0\0\0')), canonical(prefix(ALL, '\x0a\0\0\0')));
  });

  it('of a translation has its data in the first words', () => {
    const translation = (to: number, port = to + 1): readonly ReadExpression[] => [
      { do: 'lookup', set: 'backends', from: 0, to },
      { do: 'translate', address: to, port },
    ];
    assert.deepEqual(canonical(translation(4)), canonical(translation(0)));
    assert.notDeepEqual(canonical(translation(4, 6)), canonical(translation(0)));
  });

  it('of an interface is its whole name, or the beginning of one', () => {
    const named = (value: string): readonly ReadExpression[] => [
      { do: 'load', what: 'input interface', to: 0 },
      { do: 'compare', from: 0, is: 'equal', value },
    ];
    assert.deepEqual(canonical(named('cni0'.padEnd(16, '\0'))), named('cni0\0'));
    assert.notDeepEqual(canonical(named('cni')), canonical(named('cni\0')));
  });
});
