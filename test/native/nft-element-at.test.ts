/** Which element of a request the kernel's offset means. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { elementAt } from '../../native/nft/sets.ts';
import { addChain } from '../../native/nft/table-requests.ts';

const ID = { family: 'IPv4', table: 'slicewire' } as const;

it('an offset in a request about anything else means no element, whatever its attributes have', () => {
  const hook = { type: 'nat', hook: 'prerouting', priority: -100 } as const;
  for (const request of [addChain(ID, 'a-chain-of-any-name'), addChain(ID, 'a', hook), addChain(ID, 'b')]) {
    for (let offset = 0; offset < 200; offset += 4) assert.equal(elementAt(request, offset), undefined);
  }
});
