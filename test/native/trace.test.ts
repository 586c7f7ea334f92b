/** nftables' trace: recorded messages, a scripted kernel, and the requests of the table that asks for traces. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ConnectionQuestion, connections, connectionsRequest } from '../../native/connections.ts';
import { EAGAIN, ENOBUFS, EPERM } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { encodeMessage, NLM_F_DUMP } from '../../native/netlink.ts';
import { NetlinkSocket, type NetlinkTransport } from '../../native/netlink-socket.ts';
import { chainRules, chainRulesRequest } from '../../native/nft/rule-handles.ts';
import { createTable } from '../../native/nft/table-requests.ts';
import { TraceSocket } from '../../native/nft/trace.ts';
import { hex } from '../helpers/base/hex.ts';
import { TRACE } from '../helpers/kernel/recorded-trace.ts';

/** Answers with these datagrams and errors, in turn, and then has none. */
function played(...answers: readonly (Buffer | number)[]): NetlinkTransport {
  const left = [...answers];
  return {
    send: () => undefined,
    receive(into) {
      const next = left.shift() ?? EAGAIN;
      if (typeof next === 'number') throw new SystemError('recv', next);
      into.set(next);
      return next.length;
    },
    close: () => undefined,
  };
}

describe('a recorded trace', () => {
  it('has rules, ends of chains, policies, and the packet at each hook', () => {
    const { events, isIncomplete } = new TraceSocket(() => played(...TRACE)).take(100);
    assert.equal(isIncomplete, false);
    const said = events.map(({ family, table, chain, type, handle, verdict, to, packet }) =>
      [family, table, chain, type, handle ?? '-', verdict, to, packet === undefined ? '' : 'packet'].join(' ').trim(),
    );
    assert.deepEqual(said, [
      'ip slicewire-trace coming rule 5 continue  packet',
      'ip slicewire-trace coming rule - continue',
      'ip slicewire-trace coming policy - accept',
      'ip nat PREROUTING rule 3 jump KUBE-X packet',
      'ip nat KUBE-X rule 4 accept',
      'ip filter FORWARD rule - continue  packet',
      'ip filter FORWARD policy - drop',
    ]);
    assert.equal(new Set(events.map(({ id }) => id)).size, 1);
    const last = events[5]?.packet;
    assert.ok(last);
    assert.equal(last.network.subarray(16, 20).join('.'), '10.244.1.11');
    assert.equal(last.transport.readUInt16BE(2), 8080);
    assert.deepEqual([last.input, last.output], [2, 2]);
  });

  it('is read until a number of events, and the rest later', () => {
    const socket = new TraceSocket(() => played(...TRACE));
    assert.equal(socket.take(3).events.length, 3);
    assert.equal(socket.take(100).events.length, TRACE.length - 3);
    assert.equal(socket.take(100).events.length, 0);
  });

  it('goes on when the kernel dropped events, and says so; other errors are thrown', () => {
    const socket = new TraceSocket(() => played(...TRACE.slice(0, 2), ENOBUFS, ...TRACE.slice(4)));
    const { events, isIncomplete } = socket.take(100);
    assert.deepEqual([events.length, isIncomplete], [5, true]);
    assert.throws(() => new TraceSocket(() => played(EPERM)).take(1), /recv: EPERM/);
  });

  it('leaves out other messages, and packets of bridges', () => {
    const bridge = Buffer.from(TRACE[0] ?? '');
    bridge[16] = 7;
    const other = Buffer.from(TRACE[0] ?? '');
    other[4] = 0x06;
    assert.deepEqual(new TraceSocket(() => played(bridge, other)).take(9).events, []);
  });
});

describe('requests', () => {
  const sent = (request: Parameters<typeof encodeMessage>[0]) => encodeMessage(request, 7);

  it('nft create table ip slicewire-trace { flags owner; comment "x"; }', () => {
    const id = { family: 'IPv4', table: 'slicewire-trace' } as const;
    assert.deepEqual(
      sent(createTable(id, 'x', true)),
      hex(`38000000 000a 0106 07000000 00000000 02000000
        1400 0100 736c6963 65776972 652d7472 61636500
        0800 0200 00000002  0800 0600 00 02 7800`),
    );
    assert.equal(sent(createTable(id, 'x', false)).readUInt32BE(44), 0);
  });

  it('nft -a list chain inet theirs pre', () => {
    assert.deepEqual(
      sent(chainRulesRequest({ family: 'inet', table: 'theirs', chain: 'pre' })),
      hex(`28000000 070a 0100 07000000 00000000 01000000  0b00 0100 74686569727300 00  0800 0200 70726500`),
    );
  });

  it('conntrack -L -s 10.244.1.12 -d 10.96.0.11 -p tcp --dport 80', () => {
    const question = { ...QUESTION, source: hex('0af4010c') };
    assert.deepEqual(
      encodeMessage({ ...connectionsRequest(question), flags: NLM_F_DUMP }, 7),
      hex(`4c000000 0101 0103 07000000 00000000 02000000
        2c00 0180  1400 0180 0800 0100 0af4010c 0800 0200 0a60000b
          1400 0280 0500 0100 06 000000 0600 0300 0050 0000
        0c00 1980  0800 0100 2b000000`),
    );
  });

  it('of IPv6 the kernel compares no addresses', () => {
    const address = Buffer.alloc(16);
    const request = connectionsRequest({ ...QUESTION, family: 'IPv6', source: address, destination: address });
    assert.equal(encodeMessage(request, 7).readUInt32LE(encodeMessage(request, 7).length - 4), 0x28);
  });
});

const QUESTION: ConnectionQuestion = {
  family: 'IPv4',
  source: undefined,
  destination: hex('0a60000b'),
  protocol: 6,
  port: 80,
};

/** With its length, which the text leaves open. */
function message(text: string): Buffer {
  const bytes = hex(text);
  bytes.writeUInt32LE(bytes.length);
  return bytes;
}

/** A rule of the chain with the handle 7, the comment "hi", and the expressions `cmp` and `reject`. */
const RULE = message(`00000000 060a 0200 01000000 00000000 02000000
  0800 0100 77656200  0800 0200 70726500  0c00 0300 00000000 00000007
  2000 0480  0c00 0180 0800 0100 636d7000  1000 0180 0b00 0100 72656a65637400 00
  0900 0700 00 03 686900 000000`);
const DONE = hex('14000000 0300 0200 01000000 00000000 00000000');

describe('listings', () => {
  const socketOf = (...answers: Buffer[]) => new NetlinkSocket(played(...answers));

  it('the rules of a chain, with handle, comment and the names of expressions', () => {
    const id = { family: 'ip', table: 'web', chain: 'pre' } as const;
    const rule = { handle: 7n, comment: 'hi', expressions: ['cmp', 'reject'] };
    assert.deepEqual(chainRules(socketOf(Buffer.concat([RULE, DONE])), id), [rule]);
    assert.deepEqual(chainRules(socketOf(Buffer.concat([RULE, DONE])), { ...id, chain: 'other' }), []);
  });

  it('connections of the question alone, also where the kernel lists others', () => {
    const flow = (source: string, port: string, extra = '') =>
      `0000 0000 0001 0200 01000000 00000000 02000000
        3400 0180  1400 0180 0800 0100 ${source} 0800 0200 0a60000b
          1c00 0280 0500 0100 06 000000 0600 0200 a3b2 0000 0600 0300 ${port} 0000
        3400 0280  1400 0180 0800 0100 0af4010b 0800 0200 0af40101
          1c00 0280 0500 0100 06 000000 0600 0200 1f90 0000 0600 0300 1000 0000
        0800 0300 0000002a ${extra}`;
    const all = [
      flow('0af4010c', '0050'),
      flow('0af4010d', '0050'),
      flow('0af4010c', '0051'),
      flow('0af4010c', '0050', '0600 1200 0001 0000'),
    ];
    const listed = Buffer.concat([...all.map(message), DONE]);
    const asked = { ...QUESTION, source: hex('0af4010c') };
    const found = [...connections(socketOf(listed), asked)].flat();
    assert.deepEqual(found, [
      {
        source: { address: hex('0af4010c'), port: 0xa3b2 },
        destination: { address: hex('0a60000b'), port: 80 },
        replySource: { address: hex('0af4010b'), port: 8080 },
        replyDestination: { address: hex('0af40101'), port: 0x1000 },
        isAnswered: true,
      },
    ]);
    assert.equal([...connections(socketOf(listed), QUESTION)].flat().length, 2);
  });
});
