/** Rules of other programs in the language of nft. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ReadExpression } from '../../../../src/kernel/nftables-kernel.ts';
import { nftText } from '../../../../src/proxy/modes/nft-table/nft-text.ts';

const MARKED: readonly ReadExpression[] = [
  { do: 'load', what: 'mark', to: 0 },
  { do: 'mask', at: 0, mask: '\x00\x40\x00\x00', flip: '\0\0\0\0' },
];
const DESTINATION: ReadExpression = { do: 'load', what: 'destination address', to: 0 };
const SOURCE: ReadExpression = { do: 'load', what: 'source address', to: 0 };

const RULES: readonly (readonly [text: string, expressions: readonly ReadExpression[]])[] = [
  [
    'ip daddr . meta l4proto . th dport vmap @service-ips',
    [
      DESTINATION,
      { do: 'load', what: 'protocol', to: 1 },
      { do: 'load', what: 'destination port', to: 2 },
      { do: 'lookup', set: 'service-ips', from: 0, to: 'verdict' },
    ],
  ],
  [
    'meta l4proto tcp ip daddr @cluster-ips drop',
    [
      { do: 'load', what: 'protocol', to: 2 },
      { do: 'compare', from: 2, is: 'equal', value: '\x06\0\0\0' },
      DESTINATION,
      { do: 'lookup', set: 'cluster-ips', from: 0 },
      verdict('drop'),
    ],
  ],
  [
    'dnat to numgen random mod 2 map @endpoints',
    [
      { do: 'random', count: 2, first: 0, to: 0 },
      { do: 'lookup', set: 'endpoints', from: 0, to: 0 },
      { do: 'translate', address: 0, port: 1 },
    ],
  ],
  ['ip daddr @cluster-ips reject', [DESTINATION, { do: 'lookup', set: 'cluster-ips', from: 0 }, { do: 'reject' }]],
  ['ip saddr != @__set0 drop', [SOURCE, { do: 'lookup-absence', set: '__set0', from: 0 }, verdict('drop')]],
  [
    'ip saddr != 10.0.0.0/9 jump mark-for-masquerade',
    [
      SOURCE,
      { do: 'mask', at: 0, mask: '\xff\x80\0\0', flip: '\0\0\0\0' },
      { do: 'compare', from: 0, is: 'other', value: '\x0a\0\0\0' },
      { do: 'verdict', verdict: { kind: 'jump', chain: 'mark-for-masquerade' } },
    ],
  ],
  [
    'ip daddr 10.96.0.0/16 drop',
    [
      { do: 'load-part', what: 'destination address', bytes: 2, to: 0 },
      { do: 'compare', from: 0, is: 'equal', value: '\x0a\x60' },
      verdict('drop'),
    ],
  ],
  ['meta mark & 0x4000 0x0 return', [...MARKED, compare('\0\0\0\0'), verdict('return')]],
  [
    'meta mark set meta mark ^ 0x4000',
    [
      { do: 'load', what: 'mark', to: 0 },
      { do: 'mask', at: 0, mask: '\xff\xff\xff\xff', flip: '\x00\x40\x00\x00' },
      { do: 'set-mark', from: 0 },
    ],
  ],
  [
    'numgen random mod 3 vmap @__map0',
    [
      { do: 'random', count: 3, first: 0, to: 0 },
      { do: 'lookup', set: '__map0', from: 0, to: 'verdict' },
    ],
  ],
  [
    'meta l4proto tcp dnat to 10.244.1.11:8080',
    [
      { do: 'load', what: 'protocol', to: 0 },
      compare('\x06'),
      { do: 'value', to: 0, value: '\x0a\xf4\x01\x0b' },
      { do: 'value', to: 1, value: '\x1f\x90' },
      { do: 'translate', address: 0, port: 1 },
    ],
  ],
  ['update @affinity { ip saddr }', [SOURCE, { do: 'remember', set: 'affinity', key: 0, seconds: 10_800 }]],
  ['iifname "veth*" counter', [{ do: 'load', what: 'input interface', to: 0 }, compare('veth'), { do: 'count' }]],
  [
    'fib saddr type local [limit]',
    [{ do: 'load', what: 'kind of source address', to: 0 }, compare('\x02\0\0\0'), { do: 'unknown', name: 'limit' }],
  ],
];

function compare(value: string): ReadExpression {
  return { do: 'compare', from: 0, is: 'equal', value };
}

function verdict(kind: 'drop' | 'return'): ReadExpression {
  return { do: 'verdict', verdict: { kind } };
}

describe('the text of a rule of nftables', () => {
  for (const [text, expressions] of RULES) it(text, () => assert.equal(nftText(expressions, 'IPv4'), text));

  it('names addresses of IPv6', () => {
    const expressions: ReadExpression[] = [
      { do: 'value', to: 0, value: `\xfd${'\0'.repeat(14)}\x01` },
      { do: 'value', to: 4, value: '\x00\x50' },
      { do: 'translate', address: 0, port: 4 },
    ];
    assert.equal(
      nftText([SOURCE, compare(`\xfd${'\0'.repeat(15)}`), ...expressions], 'IPv6'),
      'ip6 saddr fd00:: dnat to [fd00::1]:80',
    );
  });
});
