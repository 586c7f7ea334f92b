/** The table of another proxy as a view. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Hook, ReadChain } from '../../../../src/kernel/nftables-kernel.ts';
import { anyTableView } from '../../../../src/proxy/modes/nft-table/any-table.ts';

/** Counts how often all chains are looked at. */
class Chains extends Map<string, ReadChain> {
  looks = 0;

  override [Symbol.iterator]() {
    this.looks += 1;
    return super[Symbol.iterator]();
  }
}

const at = (hook: Hook['hook'], priority: number): ReadChain => ({
  hook: { hook, priority, type: 'nat', policy: 'accept' } as Hook,
  rules: [],
});

describe('the table of another proxy', () => {
  it('has the chains of a hook by priority, and looks for them once, however many packets ask', () => {
    const chains = new Chains([
      ['later', at('prerouting', 10)],
      ['of-a-service', { rules: [] }],
      ['sooner', at('prerouting', -100)],
      ['sent', at('output', -100)],
    ]);
    const view = anyTableView('kube-proxy', { chains, sets: new Map(), elements: new Map() }, 'IPv4');
    for (let packet = 0; packet < 3; packet++) {
      assert.deepEqual(
        view.called('prerouting').map(({ name }) => name),
        ['sooner', 'later'],
      );
      assert.deepEqual(
        view.called('output').map(({ name }) => name),
        ['sent'],
      );
    }
    assert.equal(chains.looks, 2);
  });
});
