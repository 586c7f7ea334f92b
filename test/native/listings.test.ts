/** A netlink socket has one listing at a time: whatever is asked in the middle of one, each reader gets the whole of its own. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ENOBUFS, ENOENT } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { type ListingPart, NetlinkSocket } from '../../native/netlink-socket.ts';
import { Refused, type Request, type Said } from '../sim/kernel/netlink/format.ts';
import { RequestPart } from '../sim/kernel/netlink/request-part.ts';

const LIST = { type: 100, flags: 0, body: [] };
const OTHER = { type: 101, flags: 0, body: [] };
const BROKEN = { type: 102, flags: 0, body: [] };
const ASK = { type: 103, flags: 0, body: [] };
const REFUSED = { type: 104, flags: 0, body: [] };

const ENTRIES = [2, 3, 4, 5, 6, 7, 8, 9];
/** Bytes of an entry, of which a part has three. */
const SIZE = 100;

/** Bytes that tell the entries of one listing from those of another. */
const entry = (of: number, n: number): Said => ({ type: of, body: Buffer.concat([Buffer.from([of, n])], SIZE) });

const part = new RequestPart('test', {
  what: ({ type }) => `request ${type}`,
  answer({ type }: Request) {
    if (type !== ASK.type) throw new Refused(ENOENT);
    return [entry(type, 9)];
  },
  list: ({ type }) => ({
    entries: () => [...ENTRIES.map((n) => () => entry(type, n)), ...(type === BROKEN.type ? [refuse] : [])],
  }),
});

function refuse(): never {
  throw new Refused(ENOBUFS);
}

function opened() {
  const inside = part.socket(1 << 20);
  const kernel = {
    /** Requests that came while a listing was not at its end. */
    between: 0,
    send(datagram: Uint8Array) {
      if (inside.isListing) kernel.between += 1;
      part.take(datagram, inside);
    },
    receive: (into: Uint8Array) => inside.receive(into),
    close: () => undefined,
  };
  return { kernel, socket: new NetlinkSocket(kernel) };
}

const entriesIn = ({ buffer, messages }: ListingPart) =>
  messages.map(({ start }) => [buffer[start], buffer[start + 1]]);
const whole = (of: number) => ENTRIES.map((n) => [of, n]);

/** The next part of each, in turn, until all are at their end. */
function inTurns(...listings: Generator<ListingPart, boolean>[]): unknown[][] {
  const found: unknown[][] = listings.map(() => []);
  const open = new Set(listings.keys());
  while (open.size > 0) {
    for (const i of open) {
      const next = listings[i]?.next();
      if (next === undefined || next.done === true) open.delete(i);
      else found[i]?.push(...entriesIn(next.value));
    }
  }
  return found;
}

describe('a listing of a netlink socket', () => {
  it('is whole when another one of the same socket begins in the middle of it, and so is the other', () => {
    const { kernel, socket } = opened();
    const [first, second, third] = inTurns(socket.list(LIST), socket.list(OTHER), socket.list(LIST));
    assert.deepEqual(first, whole(LIST.type));
    assert.deepEqual(second, whole(OTHER.type));
    assert.deepEqual(third, whole(LIST.type));
    assert.equal(kernel.between, 0, 'the kernel never had two');
  });

  it('is whole when requests are sent in the middle of it, and their answers are theirs', () => {
    const { kernel, socket } = opened();
    const found: unknown[] = [];
    for (const part of socket.list(LIST)) {
      const answer = socket.ask(ASK, (buffer, { start }) => buffer[start + 1]);
      assert.equal(answer, 9);
      assert.deepEqual(
        socket.acknowledge([REFUSED, REFUSED]).map((error) => error?.errno),
        [ENOENT, ENOENT],
      );
      // Looked at afterwards: the answers had another buffer.
      found.push(...entriesIn(part));
    }
    assert.deepEqual(found, whole(LIST.type));
    assert.equal(kernel.between, 0);
  });

  it('that is left in the middle does not refuse the next one', () => {
    const { kernel, socket } = opened();
    for (const _ of socket.list(LIST)) break;
    assert.deepEqual(inTurns(socket.list(OTHER)), [whole(OTHER.type)]);
    const decoding = socket.decoded(LIST, () => {
      throw new RangeError('an impossible length');
    });
    assert.throws(() => decoding.next(), /an impossible length/);
    assert.deepEqual(inTurns(socket.list(OTHER)), [whole(OTHER.type)]);
    assert.equal(kernel.between, 0);
  });

  it('that a call broke does not refuse the next one, because the kernel goes on with it', () => {
    const { kernel } = opened();
    let calls = 0;
    const receive = (into: Uint8Array) => {
      calls += 1;
      if (calls === 2) throw new SystemError('recv', ENOBUFS);
      return kernel.receive(into);
    };
    const socket = new NetlinkSocket({ ...kernel, receive });
    assert.throws(() => inTurns(socket.list(LIST)), /ENOBUFS/);
    assert.deepEqual(inTurns(socket.list(OTHER)), [whole(OTHER.type)]);
    assert.equal(kernel.between, 0);
  });

  it('ends when nothing can be received any more', () => {
    const { kernel } = opened();
    const receive = (): number => {
      throw new SystemError('recv', ENOBUFS);
    };
    const socket = new NetlinkSocket({ ...kernel, receive });
    for (const one of [LIST, OTHER]) assert.throws(() => inTurns(socket.list(one)), /ENOBUFS/);
  });

  it('throws its own failure, and not that of another', () => {
    const { socket } = opened();
    const broken = socket.list(BROKEN);
    assert.equal(broken.next().done, false);
    assert.deepEqual(inTurns(socket.list(LIST)), [whole(LIST.type)]);
    const found: unknown[] = [];
    assert.throws(() => {
      for (const part of broken) found.push(...entriesIn(part));
    }, /ENOBUFS/);
    assert.deepEqual(found, whole(BROKEN.type).slice(3), 'what came before');
  });
});
