/** The sockets of nftables, where one of them cannot be opened. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SystemError } from '../../native/libc.ts';
import { NetlinkError } from '../../native/netlink.ts';
import type { NetlinkTransport } from '../../native/netlink-socket.ts';
import { type NftRule, NftUnusable, type NftWrite } from '../../src/kernel/nftables-kernel.ts';
import { mayLack, openNftables, refusal } from '../../src/kernel/nftables-netlink.ts';

const EMFILE = 24;
const ENOENT = 2;

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

describe('a refusal of the kernel', () => {
  const blameOf = (write: NftWrite) => {
    const of = { origin: { write: 0, first: 0 }, isOptional: mayLack(write) };
    return refusal(new NetlinkError(ENOENT, undefined), undefined, of).blame;
  };
  const rule = (...expressions: NftRule['expressions']): NftWrite => {
    return { kind: 'add-rule', chain: 'any', rule: { text: '', expressions } };
  };

  it('for an object that is missing is about the table, and for a part of limits about the Service', () => {
    assert.equal(blameOf({ kind: 'delete-chain', chain: 'any' }), 'environment');
    assert.equal(blameOf(rule({ do: 'reject' })), 'environment');
    assert.equal(blameOf(rule({ do: 'over-connections', most: 1 })), 'content');
    assert.equal(blameOf(rule({ do: 'over-rate', perSecond: 1, burst: 1 })), 'content');
  });
});
