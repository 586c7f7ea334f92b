/** What the kernel says of its addresses. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { interfaceAddresses, interfacesV6, localV4 } from '../../src/host/node-facts.ts';

describe('addresses of interfaces', () => {
  it('of IPv4 are what the routing table holds as local', () => {
    const trie = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.9.0.0
        /16 universe UNICAST
Local:
  +-- 0.0.0.0/0 2 0 2
     |-- 127.0.0.0
        /32 link BROADCAST
        /8 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 10.9.0.1
        /32 host LOCAL
     |-- 10.9.255.255
        /32 link BROADCAST
`;
    assert.deepEqual(localV4(trie), ['127.0.0.1', '10.9.0.1']);
  });

  it('of IPv6 are all but link-local ones', () => {
    const lines = `fe80000000000000c8a13bfffe000001 02 40 20 80     eth0
fd007700000000000000000000000002 02 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
`;
    assert.deepEqual(interfacesV6(lines), ['fd00:7700::2', '::1']);
  });

  it('of this machine have its loopback', async () => {
    assert.ok((await interfaceAddresses('IPv4')).some((address) => address === '127.0.0.1'));
  });
});
