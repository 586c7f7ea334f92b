/** The sockets of nftables, where one of them cannot be opened. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SystemError } from '../../native/libc.ts';
import type { NetlinkTransport } from '../../native/netlink-socket.ts';
import { NftUnusable } from '../../src/kernel/nftables-kernel.ts';
import { openNftables } from '../../src/kernel/nftables-netlink.ts';

const EMFILE = 24;

describe('the sockets of nftables', () => {
  it('are closed where another one cannot be opened', () => {
    const open = new Set<NetlinkTransport>();
    let count = 0;
    const openTransport = (): NetlinkTransport => {
      count += 1;
      if (count > 1) throw new SystemError('socket', EMFILE);
      const transport: NetlinkTransport = {
        send: () => undefined,
        receive: () => 0,
        close: () => void open.delete(transport),
      };
      open.add(transport);
      return transport;
    };
    assert.throws(() => openNftables(openTransport), NftUnusable);
    assert.equal(count, 2);
    assert.equal(open.size, 0);
  });
});
