import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { VerifiedDifference } from '../../src/inspect/wire/verification.ts';
import type { ServiceKey } from '../../src/proxy/model/objects.ts';
import { LastingDifferences, MAX_KEPT } from '../../src/shadow/lasting-differences.ts';

const WEB = 'shop/web' as ServiceKey;

function difference(
  kind: VerifiedDifference['kind'],
  object = 'from the node to 10.96.0.20:80/tcp',
): VerifiedDifference {
  return {
    ...{ family: 'IPv4', object, service: WEB, kind, wanted: ['left alone'], found: ['refused'] },
    ...{ because: '', causes: [], repaired: false },
  };
}

describe('differences that last', () => {
  it('keep the moment since when they stand, by Service and kind', () => {
    const lasting = new LastingDifferences();
    const first = lasting.found(WEB, [difference('changed'), difference('changed', 'from outside')], 100);
    assert.deepEqual([first.begun.map(({ kind }) => kind), first.ended], [['changed'], []]);
    const second = lasting.found(WEB, [difference('changed'), difference('missing')], 200);
    assert.deepEqual([second.begun.map(({ kind }) => kind), second.ended], [['missing'], []]);
    assert.deepEqual(
      lasting.all.map(({ kind, since, connections }) => [kind, since, connections]),
      [
        ['changed', 100, 1],
        ['missing', 200, 1],
      ],
    );
    const third = lasting.found(WEB, [], 300);
    assert.deepEqual([third.ended.length, lasting.count], [2, 0]);
    assert.equal(lasting.found(WEB, [difference('changed')], 400).begun[0]?.since, 400);
  });

  it('end with their Service, but for the addresses that no Service has', () => {
    const lasting = new LastingDifferences();
    lasting.found(WEB, [difference('changed')], 100);
    lasting.found('', [difference('foreign')], 100);
    assert.deepEqual(
      lasting.keepOnly(() => false).map(({ service }) => service),
      [WEB],
    );
    assert.deepEqual(
      lasting.all.map(({ service }) => service),
      [''],
    );
  });

  it('are kept up to a limit, and counted beyond it', () => {
    const lasting = new LastingDifferences();
    const of = (i: number) => `shop/web-${i}` as ServiceKey;
    for (let i = 0; i < MAX_KEPT + 7; i++) lasting.found(of(i), [difference('changed')], i);
    assert.deepEqual([lasting.count, lasting.all.length], [MAX_KEPT + 7, MAX_KEPT]);
    for (let i = 0; i < 10; i++) lasting.found(of(i), [], 0);
    assert.deepEqual([lasting.count, lasting.all.length], [MAX_KEPT - 3, MAX_KEPT - 10]);
    const kept = lasting.found(of(MAX_KEPT), [difference('changed')], 1);
    assert.deepEqual([kept.begun.length, lasting.count, lasting.all.length], [1, MAX_KEPT - 3, MAX_KEPT - 9]);
  });
});
