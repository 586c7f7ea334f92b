/** Facts about this node: the addresses of its interfaces, and files that may be missing. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { interfaceAddresses, readIfThere } from '../../src/host/node-facts.ts';

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

describe('a file that tells a fact', () => {
  it('is missing only if there is none: one that cannot be read is an error', async () => {
    assert.equal(await readIfThere('/proc/net/no-such-file'), undefined);
    assert.match((await readIfThere('/proc/net/dev')) ?? '', /lo:/);
    await assert.rejects(readIfThere('/proc/net'), { code: 'EISDIR' });
  });
});
