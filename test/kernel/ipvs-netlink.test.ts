/** The kernel of IPVS over netlink: calls that come together, and questions beside a sync. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CTRL_ATTR_FAMILY_ID, GENL_ID_CTRL, genericHeader, NETLINK_GENERIC } from '../../native/generic.ts';
import { IPSET_ATTR_REVISION } from '../../native/ipset.ts';
import {
  IPVS_CMD_ATTR_DEST,
  IPVS_CMD_ATTR_SERVICE,
  IPVS_CMD_GET_CONFIG,
  IPVS_CMD_GET_DEST,
  IPVS_DEST_ATTR_ADDR,
  IPVS_DEST_ATTR_PORT,
  IPVS_SVC_ATTR_ADDR,
  IPVS_SVC_ATTR_AF,
  IPVS_SVC_ATTR_PORT,
  IPVS_SVC_ATTR_PROTOCOL,
} from '../../native/ipvs.ts';
import { AF_INET } from '../../native/libc.ts';
import { attribute, nested } from '../../native/netlink.ts';
import type { Address } from '../../src/base/address.ts';
import type { IpvsReader, Server } from '../../src/kernel/ipvs-kernel.ts';
import { NetlinkKernel } from '../../src/kernel/ipvs-netlink.ts';
import { ipvsQuestions } from '../../src/kernel/ipvs-open.ts';
import { hex } from '../helpers/base/hex.ts';
import { type Answer, type Asked, type NetlinkKernelSocket, netlinkKernel } from '../helpers/kernel/netlink-kernel.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const IPVS = 0x21;
const SERVER: Server = {
  protocol: 'TCP',
  address: '10.96.0.1' as Address,
  port: 80,
  scheduler: 'rr',
  flags: 0,
  timeout: 0,
};

const number16 = (value: number) => Buffer.from([value & 0xff, value >> 8]);
const port = (value: number) => Buffer.from([value >> 8, value & 0xff]);
const union = (a: number, b: number, c: number, d: number) => Buffer.concat([Buffer.from([a, b, c, d])], 16);

const listedServer = (n: number) =>
  Buffer.concat([
    genericHeader(0),
    nested(
      IPVS_CMD_ATTR_SERVICE,
      attribute(IPVS_SVC_ATTR_AF, number16(AF_INET)),
      attribute(IPVS_SVC_ATTR_PROTOCOL, number16(6)),
      attribute(IPVS_SVC_ATTR_ADDR, union(10, 96, 0, n)),
      attribute(IPVS_SVC_ATTR_PORT, port(80)),
    ),
  ]);
const listedDestination = (n: number) =>
  Buffer.concat([
    genericHeader(0),
    nested(
      IPVS_CMD_ATTR_DEST,
      attribute(IPVS_DEST_ATTR_ADDR, union(10, 244, 1, n)),
      attribute(IPVS_DEST_ATTR_PORT, port(8080)),
    ),
  ]);
const inParts = (one: (n: number) => Buffer) => [1, 2, 3, 4, 5, 6].map((n) => [one(n * 2), one(n * 2 + 1)]);

function answerTo({ type, isListing, body }: Asked): Answer {
  if (type === GENL_ID_CTRL) {
    return { kind: 'value', body: Buffer.concat([genericHeader(1), attribute(CTRL_ATTR_FAMILY_ID, number16(IPVS))]) };
  }
  // The revision of a type of sets.
  if (type !== IPVS)
    return { kind: 'value', body: Buffer.concat([hex('02000000'), attribute(IPSET_ATTR_REVISION, Buffer.from([5]))]) };
  const command = body[0];
  if (command === IPVS_CMD_GET_CONFIG) return { kind: 'value', body: genericHeader(command) };
  if (!isListing) return { kind: 'outcome' };
  return { kind: 'listing', parts: inParts(command === IPVS_CMD_GET_DEST ? listedDestination : listedServer) };
}

function opened() {
  const sockets: NetlinkKernelSocket[] = [];
  let generic: NetlinkKernelSocket | undefined;
  const openTransport = (protocol: number) => {
    const socket = netlinkKernel(answerTo);
    sockets.push(socket);
    if (protocol === NETLINK_GENERIC) generic = socket;
    return socket;
  };
  const kernel = NetlinkKernel.open({ openTransport });
  return { kernel, sockets, generic: generic ?? assert.fail() };
}

const last = (found: readonly { readonly address: Address }[]) =>
  found.map(({ address }) => Number(address.split('.')[3]));
const ALL = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];

describe('the kernel of IPVS over netlink', () => {
  it('answers calls that come together one after another, each with the whole', async () => {
    const { kernel, generic } = opened();
    const [servers, destinations, again, written, timeouts] = await Promise.all([
      kernel.servers(),
      kernel.destinations(SERVER),
      kernel.servers(),
      kernel.write([{ kind: 'add-server', server: SERVER }], NEVER),
      kernel.timeouts(),
    ]);
    for (const found of [servers, destinations, again]) assert.deepEqual(last(found), ALL);
    assert.deepEqual(written, [undefined]);
    assert.deepEqual(timeouts, { tcp: 0, tcpFin: 0, udp: 0 });
    assert.equal(generic.between, 0);
  });
});

describe('questions to the kernel of IPVS', () => {
  it('have sockets of their own, which are closed when the answer is there, or the failure', async () => {
    const sync = opened();
    const asked: ReturnType<typeof opened>[] = [];
    const questions = ipvsQuestions(() => {
      const one = opened();
      asked.push(one);
      return Promise.resolve(one.kernel);
    });
    const ask = (question: (kernel: IpvsReader) => Promise<unknown>) => questions.ask(question);
    const [ofSync, first, second] = await Promise.all([
      sync.kernel.servers(),
      questions.ask((kernel) => kernel.servers()),
      questions.ask((kernel) => kernel.servers()),
    ]);
    for (const found of [ofSync, first, second]) assert.deepEqual(last(found), ALL);
    await assert.rejects(
      ask(() => Promise.reject(new Error('no answer'))),
      /no answer/,
    );
    assert.equal(asked.length, 3);
    assert.ok(asked.every(({ sockets }) => sockets.length === 3 && sockets.every(({ isClosed }) => isClosed)));
    assert.ok(sync.sockets.every(({ isClosed }) => !isClosed));
  });
});
