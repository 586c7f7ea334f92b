/** Entries of sets as text and as bytes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { entryBytes, entryText } from '../../src/kernel/ipvs-netlink.ts';

describe('entries of sets', () => {
  const cases: readonly [string, string][] = [
    ['10.96.0.10', 'hash:ip'],
    ['10.96.0.10,tcp:80', 'hash:ip,port'],
    ['fd00:96::10,sctp:80', 'hash:ip,port'],
    ['10.244.1.11,udp:53,10.244.1.11', 'hash:ip,port,ip'],
    ['198.51.100.1,tcp:80,10.0.0.0/8', 'hash:ip,port,net'],
    ['fd00:198::1,tcp:80,fd00::/16', 'hash:ip,port,net'],
    ['30080', 'bitmap:port'],
    // A protocol that no Service has: another program added the entry, and it can be removed.
    ['10.96.0.10,136:80', 'hash:ip,port'],
  ];
  for (const [text, type] of cases) {
    it(`${text} of ${type} is the same after it was read back`, () => {
      assert.equal(entryText(entryBytes(text), type), text);
    });
  }
});
