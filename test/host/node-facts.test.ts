/** The addresses of this node's interfaces. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { interfaceAddresses } from '../../src/host/node-facts.ts';

describe('addresses of interfaces', () => {
  it('contain loopback, and no address twice', async () => {
    const found = await interfaceAddresses('IPv4');
    assert.ok(found.some((address) => address === '127.0.0.1'));
    assert.equal(new Set(found).size, found.length);
  });

  it('contain no IPv6 link-local address', async () => {
    assert.deepEqual(
      (await interfaceAddresses('IPv6')).filter((address) => address.startsWith('fe80:')),
      [],
    );
  });
});
