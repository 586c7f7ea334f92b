/** Netlink messages byte by byte, each titled with the equivalent command of conntrack(8); and a scripted kernel. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  ConntrackSocket,
  deleteRequest,
  type Flow,
  listRequest,
  OPENING,
  openingsRequest,
} from '../../native/conntrack.ts';
import { attribute, encodeMessage, NetlinkError, NLM_F_ACK, NLM_F_DUMP, nested } from '../../native/netlink.ts';
import {
  MAX_REQUESTS,
  NetlinkProtocolError,
  NetlinkSocket,
  type NetlinkTransport,
} from '../../native/netlink-socket.ts';
import { hex } from '../helpers/base/hex.ts';

/** A flow of a client 10.0.0.1:1024 to 10.96.0.10:53, which 10.244.1.11:5353 answers. */
const TUPLE = hex(`
  1400 0180  0800 0100 0a000001  0800 0200 0a60000a
  1c00 0280  0500 0100 11 000000  0600 0200 0400 0000  0600 0300 0035 0000`);
const REPLY = hex(`
  1400 0180  0800 0100 0af4010b  0800 0200 0a000001
  1c00 0280  0500 0100 11 000000  0600 0200 14e9 0000  0600 0300 0400 0000`);
const ID = hex('11223344');

function entry(sequence: number, extra: readonly Uint8Array[] = [], tuple: Buffer = TUPLE): Buffer {
  const body = [hex('02000000'), nested(1, tuple), nested(2, REPLY), attribute(12, ID), ...extra];
  return encodeMessage({ type: 0x100, flags: 2, body }, sequence);
}

function message(type: number, sequence: number, body: Uint8Array, flags = 0): Buffer {
  return encodeMessage({ type, flags, body: [body] }, sequence);
}

const done = (sequence: number) => message(3, sequence, hex('00000000'), 2);
const error = (sequence: number, errno: number) => {
  const body = Buffer.alloc(20);
  body.writeInt32LE(-errno);
  return message(2, sequence, body, 0x100);
};

/** Answers with these datagrams, in turn. */
function played(
  ...datagrams: (Buffer | ((sent: readonly Uint8Array[]) => Buffer))[]
): NetlinkTransport & { sent: Uint8Array[] } {
  const sent: Uint8Array[] = [];
  return {
    sent,
    send: (datagram) => {
      sent.push(datagram);
    },
    receive(into) {
      const next = datagrams.shift();
      if (next === undefined) throw new Error('recv: EAGAIN');
      const datagram = typeof next === 'function' ? next(sent) : next;
      into.set(datagram.subarray(0, into.length));
      return datagram.length;
    },
    close: () => undefined,
  };
}

/** All flows of a listing, copied, and what it returned. */
function drain(socket: ConntrackSocket, parts = socket.udpFlows('IPv4')): { flows: Flow[]; changed: boolean } {
  const flows: Flow[] = [];
  for (;;) {
    const next = parts.next();
    if (next.done === true) return { flows, changed: next.value };
    flows.push(...next.value.map((flow) => ({ ...flow, tuple: Buffer.from(flow.tuple), id: Buffer.from(flow.id) })));
  }
}

describe('netlink messages', () => {
  it('conntrack -L -p udp', () => {
    const request = listRequest('IPv4', true);
    assert.deepEqual(
      encodeMessage({ ...request, flags: NLM_F_DUMP }, 1),
      hex(
        `
        30000000 0101 0103 01000000 00000000  02 00 0000
        1000 0180  0c00 0280  0500 0100 11 000000
        0c00 1980  0800 0100 08000000`,
      ),
    );
  });

  it('conntrack -L -g -u UNREPLIED: translated, and not answered', () => {
    const request = openingsRequest(OPENING, true);
    assert.deepEqual(
      encodeMessage({ ...request, flags: NLM_F_DUMP }, 1),
      hex('24000000 0101 0103 01000000 00000000  00 00 0000  0800 0300 00000020  0800 1a00 00000022'),
    );
    assert.deepEqual(openingsRequest(OPENING, false).body, [hex('00 00 0000')], 'both families');
  });

  it('conntrack -D of one flow, by its tuple and its id', () => {
    const flow: Flow = { family: 'IPv4', protocol: 'UDP', destination: '', replySource: '', tuple: TUPLE, id: ID };
    assert.deepEqual(
      encodeMessage({ ...deleteRequest(flow), flags: NLM_F_ACK }, 7),
      Buffer.concat([hex('50000000 0201 0500 07000000 00000000  02 00 0000  3400 0180'), TUPLE, hex('0800 0c00'), ID]),
    );
  });

  it('lists IPv6 by its family', () => {
    assert.equal(listRequest('IPv6', true).body[0]?.[0], 10);
  });
});

describe('netlink socket', () => {
  it('lists over several parts, and skips other sequence numbers', () => {
    const transport = played(Buffer.concat([entry(99), entry(1), entry(1)]), entry(1), done(1));
    const { flows, changed } = drain(new ConntrackSocket({ open: () => transport }));
    assert.equal(flows.length, 3);
    assert.equal(changed, false);
    assert.deepEqual(flows[0], {
      family: 'IPv4',
      protocol: 'UDP',
      destination: '\x0a\x60\x00\x0a\x00\x35',
      replySource: '\x0a\xf4\x01\x0b\x14\xe9',
      tuple: TUPLE,
      id: ID,
    });
  });

  it('skips other protocols and flows in a zone', () => {
    const tcp = Buffer.from(TUPLE);
    tcp[28] = 6;
    assert.equal(TUPLE[28], 17);
    const transport = played(Buffer.concat([entry(1, [], tcp), entry(1, [attribute(18, hex('0001'))])]), done(1));
    assert.deepEqual(drain(new ConntrackSocket({ open: () => transport })).flows, []);
  });

  it('lists only translated connections without an answer: TCP in SYN_SENT, SCTP in CLOSED', () => {
    const of = (protocol: number, bytes: Buffer) => {
      const changed = Buffer.from(bytes);
      changed[28] = protocol;
      return changed;
    };
    const listed = (protocol: number, status: string, ...info: readonly Buffer[]) =>
      answered(REPLY, protocol, status, ...info);
    const answered = (reply: Buffer, protocol: number, status: string, ...info: readonly Buffer[]) => {
      const body: Uint8Array[] = [hex('02000000'), nested(1, of(protocol, TUPLE)), nested(2, of(protocol, reply))];
      body.push(attribute(3, hex(status)), ...info, attribute(12, ID));
      return encodeMessage({ type: 0x100, flags: 2, body }, 1);
    };
    const tcp = (state: string) => nested(4, nested(1, attribute(1, hex(state))));
    const sctp = (state: string) => nested(4, nested(3, attribute(1, hex(state))));
    const all = [
      listed(6, '000001a8', tcp('01')),
      listed(132, '00000028', sctp('01')),
      // Answered, established; answered and opening from both sides; not translated; another state; UDP.
      listed(6, '000001ae', tcp('03')),
      listed(6, '000001aa', tcp('09')),
      listed(6, '00000188', tcp('01')),
      listed(6, '000001a8', tcp('02')),
      listed(132, '0000002a', sctp('02')),
      listed(132, '00000028', sctp('03')),
      listed(17, '000001a8'),
    ];
    const socket = new ConntrackSocket({ open: () => played(Buffer.concat(all), done(1)) });
    const { flows } = drain(socket, socket.openings());
    assert.deepEqual(
      flows.map(({ protocol }) => protocol),
      ['TCP', 'SCTP'],
    );
    assert.equal(flows[0]?.destination, '\x0a\x60\x00\x0a\x00\x35');
    assert.equal(flows[0]?.replySource, '\x0a\xf4\x01\x0b\x14\xe9');
    // IPVS translates without the status, and the tuples tell.
    const fromVip = Buffer.from(REPLY.toString('hex').replace('0af4010b', '0a60000a').replace('14e9', '0035'), 'hex');
    const direct = answered(fromVip, 6, '00000188', tcp('01'));
    const both = new ConntrackSocket({ open: () => played(Buffer.concat([...all, direct]), done(1)) });
    assert.deepEqual(
      drain(both, both.unanswered()).flows.map(({ protocol }) => protocol),
      ['TCP', 'SCTP', 'TCP'],
    );
  });

  it('reports that the table changed during a listing', () => {
    const interrupted = entry(1);
    interrupted.writeUInt16LE(0x12, 6);
    assert.equal(drain(new ConntrackSocket({ open: () => played(interrupted, done(1)) })).changed, true);
  });

  it('throws a refusal with the text of the kernel', () => {
    const words = Buffer.from('no such thing\0');
    const body = Buffer.alloc(20);
    body.writeInt32LE(-22);
    const refusal = message(2, 1, Buffer.concat([body, attribute(1, words)]), 0x300);
    const isRefusal = (thrown: unknown) =>
      thrown instanceof NetlinkError &&
      thrown.errno === 22 &&
      thrown.message === 'EINVAL: invalid argument (no such thing)';
    assert.throws(() => drain(new ConntrackSocket({ open: () => played(refusal) })), isRefusal);
    const late = Buffer.alloc(4);
    late.writeInt32LE(-105);
    assert.throws(
      () => drain(new ConntrackSocket({ open: () => played(entry(1), message(3, 1, late, 2)) })),
      /ENOBUFS/,
    );
  });

  it('throws for a truncated answer, an impossible length, and a missing answer', () => {
    const cut = Buffer.alloc(64 * 1024);
    assert.throws(() => drain(new ConntrackSocket({ open: () => played(cut) })), NetlinkProtocolError);
    const broken = entry(1);
    broken.writeUInt32LE(4000, 0);
    assert.throws(() => drain(new ConntrackSocket({ open: () => played(broken) })), /a message of 4000 bytes/);
    assert.throws(() => drain(new ConntrackSocket({ open: () => played() })), /EAGAIN/);
  });

  it('sends deletes together, and matches each error to its flow', () => {
    const flow: Flow = { family: 'IPv4', protocol: 'UDP', destination: '', replySource: '', tuple: TUPLE, id: ID };
    const kernels = [played(), played(Buffer.concat([error(2, 0), error(1, 2)]), error(3, 0))];
    const [, deletes] = kernels;
    const socket = new ConntrackSocket({ open: () => kernels.shift() ?? assert.fail() });
    assert.equal(socket.delete([flow, flow, flow]), 2, 'one flow had ended before');
    assert.equal(deletes?.sent.length, 1);
  });

  it('throws when a delete is refused', () => {
    const flow: Flow = { family: 'IPv4', protocol: 'UDP', destination: '', replySource: '', tuple: TUPLE, id: ID };
    assert.throws(() => new ConntrackSocket({ open: () => played(error(1, 1)) }).delete([flow]), /EPERM/);
  });

  it('sends at most as many requests at once as can be acknowledged', () => {
    const flow: Flow = { family: 'IPv4', protocol: 'UDP', destination: '', replySource: '', tuple: TUPLE, id: ID };
    const acknowledge = (first: number, count: number) =>
      Buffer.concat(Array.from({ length: count }, (_, i) => error(first + i, 0)));
    const transport = played(acknowledge(1, MAX_REQUESTS), acknowledge(MAX_REQUESTS + 1, 3));
    const socket = new ConntrackSocket({ open: () => transport });
    const flows = Array.from({ length: MAX_REQUESTS + 3 }, () => flow);
    assert.equal(socket.delete(flows), MAX_REQUESTS + 3);
    assert.equal(transport.sent.length, 2);
    const requests = flows.map((one) => deleteRequest(one));
    assert.throws(() => new NetlinkSocket(played()).acknowledge(requests), RangeError);
  });
});
