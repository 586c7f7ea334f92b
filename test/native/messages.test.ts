/** The messages about devices, addresses, virtual servers, sets and chains byte by byte, each titled with the equivalent command. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BodyWriter } from '../../native/body-writer.ts';
import { familyRequest, resolveFamily } from '../../native/generic.ts';
import * as ipset from '../../native/ipset.ts';
import * as ipvs from '../../native/ipvs.ts';
import { decodeCounts } from '../../native/ipvs-statistics.ts';
import * as netlink from '../../native/netlink.ts';
import { NetlinkSocket, type NetlinkTransport } from '../../native/netlink-socket.ts';
import * as nftables from '../../native/nftables.ts';
import * as rtnetlink from '../../native/rtnetlink.ts';
import { tableQuestion } from '../../native/xtables.ts';
import { hex } from '../helpers/base/hex.ts';

const { NLM_F_ACK, NLM_F_DUMP } = netlink;

/** A request as the seventh of a socket: changes and questions with NLM_F_ACK, listings with NLM_F_DUMP. */
function golden(command: string, request: netlink.NetlinkRequest, flags = NLM_F_ACK) {
  const sent = { ...request, flags: request.flags | flags };
  return (expected: TemplateStringsArray, ...parts: readonly string[]) =>
    it(command, () => assert.deepEqual(netlink.encodeMessage(sent, 7), hex(String.raw(expected, ...parts))));
}

/** The rest of struct nlmsghdr in a request: the sequence number, and port 0. */
const SEVENTH = '07000000 00000000';
/** The same in an answer to the first request. */
const FIRST = '01000000 00000000';
const V4 = hex('0a60000a');
const V6 = hex('fd000000 00000000 00000000 00000010');

/** Reads a single message. */
function decoded<T>(decode: (buffer: Buffer, message: netlink.Message) => T, text: string): T {
  const buffer = hex(text);
  const [message] = netlink.decodeMessages(buffer, buffer.length);
  assert.ok(message);
  assert.equal(message.end, buffer.length);
  return decode(buffer, message);
}

/** A socket whose kernel answers with these datagrams, in turn. */
function answering(...datagrams: string[]): { socket: NetlinkSocket; sent: Uint8Array[] } {
  const { transport, sent } = kernelWith(...datagrams);
  return { socket: new NetlinkSocket(transport), sent };
}

function kernelWith(...datagrams: string[]): { transport: NetlinkTransport; sent: Uint8Array[] } {
  const sent: Uint8Array[] = [];
  const transport: NetlinkTransport = {
    send: (datagram) => {
      sent.push(datagram);
    },
    receive(into) {
      const datagram = hex(datagrams.shift() ?? assert.fail('recv: EAGAIN'));
      into.set(datagram);
      return datagram.length;
    },
    close: () => undefined,
  };
  return { transport, sent };
}

/** NLMSG_ERROR with this errno, capped to the header of the request. */
const error = (errno: string) => `24000000 0200 0001 ${FIRST}  ${errno} 00000000000000000000000000000000`;
const ACKNOWLEDGED = error('00000000');
const DONE = `14000000 0300 0200 ${FIRST} 00000000`;

const refusedWith = (errno: number) => (thrown: unknown) =>
  thrown instanceof netlink.NetlinkError && thrown.errno === errno;

describe('body writer', () => {
  it('pads values, and counts nested attributes with padding in the length', () => {
    const body = new BodyWriter()
      .begin(hex('ff'), hex('eeeeeeee'))
      .nest(1, (outer) =>
        outer.u8(2, 0xaa).nest(3, (inner) => inner.text(4, 'abc').bytes(5, hex('0102030405')).u16be(6, 0x1234)),
      )
      .u16(7, 0x1234)
      .u32be(8, 0x12345678)
      .u32(9, 0x12345678);
    const expected = hex(`
      ff 000000  eeeeeeee
      2c00 0180  0500 0200 aa 000000
      2000 0380  0800 0400 616263 00  0900 0500 0102030405 000000  0600 0600 1234 0000
      0600 0700 3412 0000  0800 0800 12345678  0800 0900 78563412`);
    assert.deepEqual(body.end(), expected);
  });

  it('leaves nothing of the last body in the padding of the next, and returns copies', () => {
    const writer = new BodyWriter();
    const first = writer.begin().bytes(1, Buffer.alloc(12, 0xff)).end();
    writer.begin().u8(1, 1);
    writer.nest(2, () => undefined);
    assert.deepEqual(writer.end(), hex('0500 0100 01 000000  0400 0280'));
    assert.deepEqual(first, hex('1000 0100 ffffffffffffffffffffffff'));
  });

  it('refuses a body over its capacity, and accepts the next', () => {
    const writer = new BodyWriter();
    assert.throws(() => writer.begin().bytes(1, Buffer.alloc(1024)), RangeError);
    assert.throws(() => writer.begin().text(1, 'x'.repeat(1100)), RangeError);
    assert.deepEqual(writer.begin().u8(1, 1).end(), hex('0500 0100 01 000000'));
  });
});

describe('device and address messages', () => {
  const LINK = '00 00 0000 00000000 00000000 00000000  0f00 0300 6b7562652d6970767330 00 00';

  golden('ip link add kube-ipvs0 type dummy', rtnetlink.addDummyRequest('kube-ipvs0'))`
    40000000 1000 0506 ${SEVENTH}  ${LINK}  1000 1280  0900 0100 64756d6d79 000000`;
  golden('ip link delete kube-ipvs0', rtnetlink.deleteLinkRequest('kube-ipvs0'))`
    30000000 1100 0500 ${SEVENTH}  ${LINK}`;
  golden('ip link show kube-ipvs0', rtnetlink.getLinkRequest('kube-ipvs0'))`
    30000000 1200 0500 ${SEVENTH}  ${LINK}`;
  golden('ip address replace 10.96.0.10/32 dev kube-ipvs0', rtnetlink.addAddressRequest(5, V4))`
    28000000 1400 0505 ${SEVENTH}  02 20 00 00 05000000  0800 0200 0a60000a  0800 0100 0a60000a`;
  golden('ip address replace fd00::10/128 dev kube-ipvs0 nodad', rtnetlink.addAddressRequest(5, V6))`
    48000000 1400 0505 ${SEVENTH}  0a 80 00 00 05000000
    1400 0200 fd000000000000000000000000000010  1400 0100 fd000000000000000000000000000010  0800 0800 02000000`;
  golden('ip address delete 10.96.0.10/32 dev kube-ipvs0', rtnetlink.deleteAddressRequest(5, V4))`
    20000000 1500 0500 ${SEVENTH}  02 20 00 00 05000000  0800 0200 0a60000a`;
  const list = (digit: string) => `18000000 1600 0103 ${SEVENTH}  ${digit} 00 00 00 00000000`;
  golden('ip -4 address', rtnetlink.listAddressesRequest('IPv4'), NLM_F_DUMP)`${list('02')}`;
  golden('ip -6 address', rtnetlink.listAddressesRequest('IPv6'), NLM_F_DUMP)`${list('0a')}`;

  golden('ip route get 10.96.0.10', rtnetlink.getRouteRequest(V4))`
    24000000 1a00 0500 ${SEVENTH}  02 20 00 00 00 00 00 00 00000000  0800 0100 0a60000a`;
  golden('ip route get fd00::10', rtnetlink.getRouteRequest(V6))`
    30000000 1a00 0500 ${SEVENTH}  0a 80 00 00 00 00 00 00 00000000  1400 0100 fd000000000000000000000000000010`;

  it('reads the source and the device of a route; throws where there is no route', () => {
    const route = `34000000 1800 0000 ${FIRST}  02 20 00 00 fe 00 00 01 00020000
      0800 0100 0a60000a  0800 0400 07000000  0800 0700 c0a84d02`;
    const find = (...datagrams: string[]) => rtnetlink.findRoute(answering(...datagrams).socket, V4);
    assert.deepEqual(find(route, ACKNOWLEDGED), { source: hex('c0a84d02'), index: 7 });
    assert.throws(() => find(error('9bffffff')), refusedWith(101));
  });

  golden('ip link show, of the seventh device', rtnetlink.getLinkByIndexRequest(7))`
    20000000 1200 0500 ${SEVENTH}  00 00 0000 07000000 00000000 00000000`;

  it('reads the name of a device', () => {
    const lo = `28000000 1000 0000 ${FIRST}  00 00 0403 01000000 49000100 00000000  0700 0300 6c6f 00 00`;
    assert.equal(rtnetlink.linkName(answering(lo, ACKNOWLEDGED).socket, 1), 'lo');
  });

  it('reads the own address of the device, not that of the peer; IPv6 has only one', () => {
    const v4 = `34000000 1400 0200 ${FIRST}  02 20 80 00 05000000
      0800 0100 0a000002  0800 0200 0a000001  0900 0300 74756e30 00 000000`;
    const v6 = `2c000000 1400 0200 ${FIRST}  0a 40 80 fd 02000000  1400 0100 fd000000000000000000000000000010`;
    assert.deepEqual(decoded(rtnetlink.decodeAddress, v4), { index: 5, bytes: hex('0a000001') });
    assert.deepEqual(decoded(rtnetlink.decodeAddress, v6), { index: 2, bytes: V6 });
  });

  it('finds a device and its kind, a device without a kind, and throws for a missing device', () => {
    const dummy = `40000000 1000 0000 ${FIRST}  00 00 0100 05000000 82000000 00000000
      0f00 0300 6b7562652d6970767330 00 00  1000 1200  0a00 0100 64756d6d79 00 0000`;
    const lo = `28000000 1000 0000 ${FIRST}  00 00 0403 01000000 49000100 00000000  0700 0300 6c6f 00 00`;
    const find = (...datagrams: string[]) => rtnetlink.findLink(answering(...datagrams).socket, 'name');
    assert.deepEqual(find(dummy, ACKNOWLEDGED), { index: 5, kind: 'dummy' });
    assert.deepEqual(find(lo + ACKNOWLEDGED), { index: 1, kind: '' });
    assert.throws(() => find(error('edffffff')), refusedWith(19));
  });
});

describe('generic netlink messages', () => {
  golden('genl ctrl get name IPVS', familyRequest('IPVS'))`
    20000000 1000 0500 ${SEVENTH}  03 01 0000  0900 0200 49505653 00 000000`;

  it('finds the number of a family, and throws for an answer without one', () => {
    const text = `30000000 1000 0000 ${FIRST}  01 02 0000
      0900 0200 49505653 00 000000  0600 0100 1c00 0000  0800 0300 01000000`;
    assert.equal(resolveFamily(answering(text, ACKNOWLEDGED).socket, 'IPVS'), 28);
    assert.throws(() => resolveFamily(answering(error('feffffff')).socket, 'IPVS'), refusedWith(2));
  });
});

describe('IPVS messages', () => {
  const requests = new ipvs.IpvsRequests(28);
  const web: ipvs.ServerId = { protocol: 'TCP', address: V4, port: 80 };
  const web6: ipvs.ServerId = { ...web, address: V6 };
  const pod: ipvs.DestinationId = { address: hex('0af4010b'), port: 8080 };
  const pod6: ipvs.DestinationId = { address: hex('fd000001 00000000 00000000 0000000b'), port: 8080 };
  // The content of the attributes IPVS_CMD_ATTR_SERVICE and IPVS_CMD_ATTR_DEST: 44 and 36 bytes.
  const WEB = `0600 0100 0200 0000  0600 0200 0600 0000  1400 0300 0a60000a 000000000000000000000000  0600 0400 0050 0000`;
  const WEB6 = `0600 0100 0a00 0000  0600 0200 0600 0000  1400 0300 fd000000000000000000000000000010  0600 0400 0050 0000`;
  const POD = '1400 0100 0af4010b 000000000000000000000000  0600 0200 1f90 0000  0600 0b00 0200 0000';
  const POD6 = '1400 0100 fd00000100000000000000000000000b  0600 0200 1f90 0000  0600 0b00 0a00 0000';

  const rr = { scheduler: 'rr', flags: 0, timeout: 0 };
  const persistent = { scheduler: 'wrr', flags: 1, timeout: 10800 };
  const mh = { scheduler: 'mh', flags: 0x10, timeout: 0 };
  golden('ipvsadm -A -t 10.96.0.10:80 -s rr', requests.server('new', web, rr))`
    68000000 1c00 0500 ${SEVENTH}  01 01 0000  5400 0180  ${WEB}
    0700 0600 7272 00 00  0c00 0700 00000000 ffffffff  0800 0800 00000000  0800 0900 ffffffff`;
  golden('ipvsadm -E -t 10.96.0.10:80 -s wrr -p 10800', requests.server('set', web, persistent))`
    68000000 1c00 0500 ${SEVENTH}  02 01 0000  5400 0180  ${WEB}
    0800 0600 777272 00  0c00 0700 01000000 ffffffff  0800 0800 302a0000  0800 0900 ffffffff`;
  golden('ipvsadm -A -t [fd00::10]:80 -s mh -b mh-port', requests.server('new', web6, mh))`
    68000000 1c00 0500 ${SEVENTH}  01 01 0000  5400 0180  ${WEB6}
    0700 0600 6d68 00 00  0c00 0700 10000000 ffffffff  0800 0800 00000000  0800 0900 80000000`;
  golden('ipvsadm -D -u 10.96.0.10:53', requests.deleteServer({ protocol: 'UDP', address: V4, port: 53 }))`
    44000000 1c00 0500 ${SEVENTH}  03 01 0000  3000 0180  0600 0100 0200 0000  0600 0200 1100 0000
    1400 0300 0a60000a 000000000000000000000000  0600 0400 0035 0000`;
  const destination = (command: string, server: string, id: string, weight: string) =>
    `8c000000 1c00 0500 ${SEVENTH}  ${command} 01 0000  3000 0180  ${server}  4800 0280  ${id}
     0800 0300 00000000  0800 0400 ${weight}  0800 0500 00000000  0800 0600 00000000`;
  const words = '-t 10.96.0.10:80 -r 10.244.1.11:8080';
  const words6 = '-t [fd00::10]:80 -r [fd00:1::b]:8080';
  golden(`ipvsadm -a ${words} -m -w 3`, requests.destination('new', web, pod, 3))`
    ${destination('05', WEB, POD, '03000000')}`;
  golden(`ipvsadm -a ${words6} -m -w 1`, requests.destination('new', web6, pod6, 1))`
    ${destination('05', WEB6, POD6, '01000000')}`;
  golden(`ipvsadm -e ${words} -m -w 300`, requests.destination('set', web, pod, 300))`
    ${destination('06', WEB, POD, '2c010000')}`;
  golden(`ipvsadm -e ${words} -m -w 0`, requests.destination('set', web, pod, 0))`
    ${destination('06', WEB, POD, '00000000')}`;
  golden(`ipvsadm -d ${words}`, requests.deleteDestination(web, pod))`
    6c000000 1c00 0500 ${SEVENTH}  07 01 0000  3000 0180  ${WEB}  2800 0280  ${POD}`;
  golden('ipvsadm --set 900 120 300', requests.setTimeouts({ tcp: 900, tcpFin: 120, udp: 300 }))`
    2c000000 1c00 0500 ${SEVENTH}  0c 01 0000  0800 0400 84030000  0800 0500 78000000  0800 0600 2c010000`;
  const bare = (flags: string, command: string) => `14000000 1c00 ${flags} ${SEVENTH}  ${command} 01 0000`;
  golden('ipvsadm -L -n', requests.listServers(), NLM_F_DUMP)`${bare('0103', '04')}`;
  golden('ipvsadm -L -n -t 10.96.0.10:80', requests.listDestinations(web), NLM_F_DUMP)`
    44000000 1c00 0103 ${SEVENTH}  08 01 0000  3000 0180  ${WEB}`;
  golden('ipvsadm -L --timeout', requests.getTimeouts())`${bare('0500', '0d')}`;
  golden('ipvsadm -L, its first line', requests.getInfo())`${bare('0500', '0f')}`;

  // The kernel does not mark these attributes as nested.
  const server = (flags: string) => `74000000 1c00 ${flags} ${FIRST}  01 01 0000  6000 0100  ${WEB}
    0700 0600 7272 00 00  0c00 0700 03000000 ffffffff  0800 0800 302a0000  0800 0900 ffffffff
    0c00 0a00 0800 0100 05000000`;
  const marked = `30000000 1c00 0200 ${FIRST}  01 01 0000  1c00 0100  0600 0100 0200 0000
    0800 0500 07000000  0700 0600 7272 00 00`;
  const listed = { ...web, scheduler: 'rr', flags: 3, timeout: 10800 };

  it('reads a server, and skips a server by firewall mark', () => {
    assert.deepEqual(decoded(ipvs.decodeServer, server('0200')), listed);
    assert.equal(decoded(ipvs.decodeServer, marked), undefined);
  });

  it("reads a server's counts, of 64 bits or of 32", () => {
    const of = (length: string, ofServer: string, ...counts: string[]) =>
      decoded(decodeCounts, `${length} 1c00 0200 ${FIRST}  01 01 0000  ${ofServer} 0100  ${WEB}  ${counts.join(' ')}`);
    const bytes = '0c00 0400 0700000000000000  0c00 0500 0800000000000000';
    const [narrow, wide] = ['2400 0a00  0800 0100 05000000', '2800 0c00  0c00 0100 0500000001000000'];
    assert.equal(of('44000000', '3000'), undefined);
    assert.deepEqual(of('68000000', '5400', narrow, bytes), { ...web, connections: 5, inBytes: 7, outBytes: 8 });
    const both = of('90000000', '7c00', narrow, bytes, wide, bytes);
    assert.deepEqual(both, { ...web, connections: 2 ** 32 + 5, inBytes: 7, outBytes: 8 });
    assert.equal(decoded(decodeCounts, marked), undefined);
  });

  it('lists servers over several parts, and reports that the table changed meanwhile', () => {
    const { socket, sent } = answering(server('0200') + marked, server('1200'), DONE);
    const parts = ipvs.virtualServers(socket, requests);
    assert.deepEqual(parts.next(), { done: false, value: [listed] });
    assert.deepEqual(parts.next(), { done: false, value: [listed] });
    assert.deepEqual(parts.next(), { done: true, value: true });
    assert.deepEqual(sent, [hex(`14000000 1c00 0103 ${FIRST}  04 01 0000`)]);
  });

  it('reads a destination, also without its family', () => {
    const text = `7c000000 1c00 0200 ${FIRST}  05 01 0000  6800 0200  1400 0100 0af4010b 000000000000000000000000
      0600 0200 1f90 0000  0800 0300 01000000  0800 0400 03000000  0500 0d00 00 000000  0800 0500 00000000
      0800 0600 00000000  0800 0700 02000000  0800 0800 09000000  0800 0900 04000000  0600 0b00 0200 0000`;
    const old = `34000000 1c00 0200 ${FIRST}  05 01 0000  2000 0200
      1400 0100 fd00000100000000000000000000000b  0600 0200 1f90 0000`;
    const counts = { weight: 3, method: 1, activeConnections: 2, inactiveConnections: 9 };
    const none = { weight: 0, method: 0, activeConnections: 0, inactiveConnections: 0 };
    const decode = (buffer: Buffer, message: netlink.Message) => ipvs.decodeDestination(buffer, message, 16);
    assert.deepEqual(decoded(decode, text), { ...pod, ...counts });
    assert.deepEqual(decoded(decode, old), { ...pod6, ...none });
  });

  it('reads timeouts and the version', () => {
    const timeouts = `2c000000 1c00 0000 ${FIRST}  0c 01 0000  0800 0400 84030000  0800 0500 78000000  0800 0600 2c010000`;
    const info = `24000000 1c00 0000 ${FIRST}  0e 01 0000  0800 0100 01020100  0800 0200 00100000`;
    assert.deepEqual(decoded(ipvs.decodeTimeouts, timeouts), { tcp: 900, tcpFin: 120, udp: 300 });
    assert.equal(decoded(ipvs.decodeInfo, info), '1.2.1');
  });
});

describe('ipset messages', () => {
  // Version 6 of the protocol, and the set's name.
  const KUBE = '0500 0100 06 000000  0900 0200 6b756265 00 000000';
  const IP_PORT = '1100 0300 686173683a69702c706f7274 00 000000';
  const BITMAP = '1000 0300 6269746d61703a706f7274 00';

  for (const family of ['IPv4', 'IPv6'] as const) {
    const [digit, word] = family === 'IPv4' ? ['02', 'inet'] : ['0a', 'inet6'];
    const spec = { name: 'kube', type: 'hash:ip,port', family, maxelem: 65536 } as const;
    golden(`ipset create kube hash:ip,port family ${word} maxelem 65536`, ipset.createSetRequest(spec, 5))`
      60000000 0206 0506 ${SEVENTH}  00 00 0000  ${KUBE}  ${IP_PORT}  0500 0400 05 000000  0500 0500 ${digit} 000000
      1400 0780  0800 1240 00000400  0800 1340 00010000`;
    golden(`ipset create … hash:ip,port family ${word}, its first question`, ipset.typeRequest(spec.type, family))`
      38000000 0d06 0500 ${SEVENTH}  ${digit} 00 0000  0500 0100 06 000000  ${IP_PORT}  0500 0500 ${digit} 000000`;
  }
  const ports = { name: 'kube', type: 'bitmap:port', family: 'IPv4', maxelem: 0 } as const;
  golden('ipset create kube bitmap:port range 0-65535', ipset.createSetRequest(ports, 3))`
    5c000000 0206 0506 ${SEVENTH}  00 00 0000  ${KUBE}  ${BITMAP}  0500 0400 03 000000  0500 0500 00 000000
    1400 0780  0600 0440 0000 0000  0600 0540 ffff 0000`;
  golden('ipset create … bitmap:port, its first question', ipset.typeRequest('bitmap:port', 'IPv4'))`
    34000000 0d06 0500 ${SEVENTH}  02 00 0000  0500 0100 06 000000  ${BITMAP}  0500 0500 00 000000`;
  golden('ipset destroy kube', ipset.destroySetRequest('kube'))`
    28000000 0306 0500 ${SEVENTH}  00 00 0000  ${KUBE}`;
  golden('ipset swap kube other', ipset.swapSetsRequest('kube', 'other'))`
    34000000 0606 0500 ${SEVENTH}  00 00 0000  ${KUBE}  0a00 0300 6f7468657200 0000`;
  golden('ipset list -n', ipset.listNamesRequest(), NLM_F_DUMP)`
    24000000 0706 0103 ${SEVENTH}  00 00 0000  0500 0100 06 000000  0800 0640 00000002`;

  const address = V4;
  const second = hex('c0a80000');
  const entry = (words: string, fields: ipset.EntryBytes, length: string) => (strings: TemplateStringsArray) => {
    const message = (type: string, flags: string) =>
      `${length}000000 ${type} ${flags} ${SEVENTH}  00 00 0000  ${KUBE}  ${strings[0]}`;
    golden(`ipset -exist add kube ${words}`, ipset.entryRequest('add', 'kube', fields))`${message('0906', '0500')}`;
    golden(`ipset del kube ${words}`, ipset.entryRequest('delete', 'kube', fields))`${message('0a06', '0502')}`;
  };
  entry('10.96.0.10', { address }, '38')`1000 0780  0c00 0180  0800 0140 0a60000a`;
  entry('10.96.0.10,tcp:80', { address, protocol: 'tcp', port: 80 }, '48')`
    2000 0780  0c00 0180  0800 0140 0a60000a  0600 0440 0050 0000  0500 0700 06 000000`;
  entry('fd00::10,sctp:80', { address: V6, protocol: 'sctp', port: 80 }, '54')`
    2c00 0780  1800 0180  1400 0240 fd000000000000000000000000000010  0600 0440 0050 0000  0500 0700 84 000000`;
  entry('10.96.0.10,udp:53,10.96.0.10', { address, protocol: 'udp', port: 53, second: address }, '54')`
    2c00 0780  0c00 0180  0800 0140 0a60000a  0600 0440 0035 0000  0500 0700 11 000000
    0c00 1480  0800 0140 0a60000a`;
  entry('10.96.0.10,tcp:80,192.168.0.0/16', { address, protocol: 'tcp', port: 80, second, length: 16 }, '5c')`
    3400 0780  0c00 0180  0800 0140 0a60000a  0600 0440 0050 0000  0500 0700 06 000000
    0c00 1480  0800 0140 c0a80000  0500 1500 10 000000`;
  entry('30080', { port: 30080 }, '34')`0c00 0780  0600 0440 7580 0000`;

  const NO_FIELDS = { address: undefined, protocol: undefined, port: undefined, second: undefined, length: undefined };

  it('reads the first part of a set: its type and maxelem, and entries of every field', () => {
    const data = (digit: string) => `3400 0780  0c00 0180  0800 0100 0a60000a  0600 0440 0050 0000
      0c00 1480  0800 0100 c0a80000  0500 1500 ${digit} 000000  0500 0700 06 000000`;
    const text = `d0000000 0706 0200 ${FIRST}  02 00 0000  ${KUBE}  1500 0300 686173683a69702c706f72742c6e6574 00 000000
      0500 0500 02 000000  0500 0400 07 000000  
      1400 0780  0800 1240 00000400  0800 1340 00010000  6c00 0880  ${data('10')}  ${data('18')}`;
    const entries = [16, 24].map((length) => ({ address, protocol: 'tcp', port: 80, second, length }));
    const header = { type: 'hash:ip,port,net', family: 'IPv4', maxelem: 65536 };
    assert.deepEqual(decoded(ipset.decodeSetPart, text), { ...header, entries });
  });

  it('ipset list kube: a bitmap, then a part without the type', () => {
    const bitmap = `58000000 0706 0200 ${FIRST}  02 00 0000  ${KUBE}  ${BITMAP}  0500 0500 00 000000  0500 0400 03 000000
      1000 0880  0c00 0780  0600 0440 7580 0000`;
    const next = `48000000 0706 0200 ${FIRST}  02 00 0000  ${KUBE}
      2000 0880  1c00 0780  1800 0180  1400 0200 fd000000000000000000000000000010`;
    const { socket, sent } = answering(bitmap, next, DONE);
    assert.deepEqual([...ipset.setParts(socket, 'kube')].flat(), [
      { type: 'bitmap:port', family: undefined, maxelem: undefined, entries: [{ ...NO_FIELDS, port: 30080 }] },
      { type: undefined, family: undefined, maxelem: undefined, entries: [{ ...NO_FIELDS, address: V6 }] },
    ]);
    assert.deepEqual(sent, [hex(`28000000 0706 0103 ${FIRST}  00 00 0000  ${KUBE}`)]);
  });

  it('finds the highest revision of a type, and throws for an unknown one', () => {
    const text = `48000000 0d06 0000 ${FIRST}  02 00 0000  0500 0100 06 000000  ${IP_PORT}
      0500 0500 02 000000  0500 0400 07 000000  0500 0a00 01 000000`;
    assert.equal(ipset.typeRevision(answering(text, ACKNOWLEDGED).socket, 'hash:ip,port', 'IPv4'), 7);
    const { socket } = answering(error('feefffff'));
    assert.throws(() => ipset.typeRevision(socket, 'hash:ip,port', 'IPv4'), refusedWith(ipset.IPSET_ERR_FIND_TYPE));
  });

  it('ipset list -n, as names', () => {
    const name = `28000000 0706 0200 ${FIRST}  02 00 0000  ${KUBE}`;
    assert.deepEqual([...ipset.setNames(answering(name, DONE).socket)].flat(), ['kube']);
  });
});

describe('nftables messages', () => {
  const CANARY = { table: 'nat', chain: 'KUBE-PROXY-CANARY' } as const;
  // The attributes of the table's name and of the chain's.
  const NAMES = '0800 0100 6e617400  1600 0300 4b5542452d50524f58592d43414e415259 00 0000';

  for (const [family, word, digit] of [
    ['IPv4', 'ip', '02'],
    ['IPv6', 'ip6', '0a'],
  ] as const) {
    golden(`nft list chain ${word} nat KUBE-PROXY-CANARY`, nftables.chainRequest({ family, ...CANARY }))`
      34000000 040a 0500 ${SEVENTH}  ${digit} 00 0000  ${NAMES}`;
  }

  golden('nft list ruleset, its first question', nftables.generationRequest())`
    14000000 100a 0500 ${SEVENTH}  02 00 0000`;

  golden('nft list chain ip nat KUBE-PROXY-CANARY, its rules', nftables.rulesRequest({ family: 'IPv4', ...CANARY }))`
    34000000 070a 0500 ${SEVENTH}  02 00 0000  0800 0100 6e617400  1600 0200 4b5542452d50524f58592d43414e415259 00 0000`;

  it('reads the counters of the rules of a chain: 0 without a counter, nothing of another chain', () => {
    const name = (digit: string) => `0800 0100 6e617400  1600 0200 4b5542452d50524f58592d43414e4152${digit} 00 0000`;
    // An expression of a match before the counter; its bytes come before its packets.
    const match = '1400 0180  0a00 0100 6d61746368 00 0000  0400 0280';
    const counter = (packets: string) =>
      `2c00 0180  0c00 0100 636f756e74657200  1c00 0280  0c00 0100 0000000000000fff  0c00 0200 ${packets}`;
    const rule = (length: string, digit: string, list: string) =>
      `${length} 060a 0200 ${FIRST}  02 00 0003  ${name(digit)}  0c00 0300 0000000000000007  ${list}`;
    const two = rule('84000000', '59', `4400 0480  ${match}  ${counter('0000000100000002')}`);
    const none = rule('58000000', '59', `1800 0480  ${match}`);
    const other = rule('70000000', '58', `3000 0480  ${counter('0000000000000005')}`);
    const read = (...datagrams: string[]) =>
      new nftables.NftablesSocket(() => kernelWith(...datagrams).transport).ruleCounters({ family: 'IPv4', ...CANARY });
    assert.deepEqual(read(two, other, none, DONE), [2 ** 32 + 2, 0]);
    assert.deepEqual(read(DONE), []);
    assert.throws(() => read(error('ffffffff')), refusedWith(1));
  });

  it('reads the generation of the ruleset, and throws when the answer has none', () => {
    const generation = (...datagrams: string[]) =>
      new nftables.NftablesSocket(() => kernelWith(...datagrams).transport).generation();
    // With NFTA_GEN_PROC_PID, as the kernel sends it after the generation.
    const body = '00 00 0007  0800 0100 00010007  0800 0200 000004d2';
    assert.equal(generation(`24000000 0f0a 0000 ${FIRST}  ${body}`, ACKNOWLEDGED), 0x10007);
    assert.throws(() => generation(`14000000 0f0a 0000 ${FIRST}  00 00 0007`, ACKNOWLEDGED), /without the generation/);
    assert.throws(() => generation(error('ffffffff')), refusedWith(1));
  });

  // With NFTA_CHAIN_HANDLE and NFTA_CHAIN_USE, and the generation in the header.
  const listed = (name: string) => `48000000 030a 0000 ${FIRST}  02 00 0003  0800 0100 6e617400
    ${name}  0c00 0200 0000000000000007  0800 0600 00000000`;
  const has = (...datagrams: string[]) =>
    new nftables.NftablesSocket(() => kernelWith(...datagrams).transport).hasChain({ family: 'IPv4', ...CANARY });

  it('finds a chain, and reports a missing chain or table', () => {
    assert.equal(has(listed('1600 0300 4b5542452d50524f58592d43414e415259 00 0000'), ACKNOWLEDGED), true);
    assert.equal(has(error('feffffff')), false);
  });

  it('throws for any other refusal, for an answer about another chain, and for another message', () => {
    assert.throws(() => has(error('ffffffff')), refusedWith(1));
    assert.throws(() => has(listed('1600 0300 4b5542452d50524f58592d43414e415258 00 0000'), ACKNOWLEDGED), /CANARX/);
    assert.throws(() => has(`14000000 000a 0000 ${FIRST}  02 00 0003`, ACKNOWLEDGED), /about the chain undefined/);
  });
});

describe('questions about tables of the legacy variant', () => {
  it('iptables-legacy -t nat, its first question', () => {
    assert.deepEqual(tableQuestion('nat'), Buffer.concat([hex('6e617400'), Buffer.alloc(80)]));
    assert.throws(() => tableQuestion('x'.repeat(32)), RangeError);
  });
});
