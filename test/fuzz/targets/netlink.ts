/** Answers of the kernel over netlink. The first byte of an input chooses the question, the rest is the answer. */
import { readFileSync } from 'node:fs';
import { connections } from '../../../native/connections.ts';
import { ConntrackSocket, type Flow } from '../../../native/conntrack.ts';
import { EAGAIN } from '../../../native/errno.ts';
import { resolveFamily } from '../../../native/generic.ts';
import * as ipset from '../../../native/ipset.ts';
import * as ipvs from '../../../native/ipvs.ts';
import { SystemError } from '../../../native/libc.ts';
import { decodeMessages, type Message, NetlinkError } from '../../../native/netlink.ts';
import { NetlinkProtocolError, NetlinkSocket, type NetlinkTransport } from '../../../native/netlink-socket.ts';
import * as listings from '../../../native/nft/listings.ts';
import { chainRules } from '../../../native/nft/rule-handles.ts';
import { TraceSocket } from '../../../native/nft/trace.ts';
import { NftablesSocket } from '../../../native/nftables.ts';
import * as rtnetlink from '../../../native/rtnetlink.ts';
import { elementOf, ruleOf } from '../../../src/kernel/nftables-reading.ts';
import { RulesetJournal } from '../../../src/kernel/ruleset-journal.ts';
import { PacketCollector } from '../../../src/kernel/traced-packets.ts';
import { mutateNetlink } from '../mutate/netlink.ts';
import type { Random } from '../random.ts';
import { soundNumber, soundPort, soundPrototypes } from '../sound/text.ts';
import { shown, sure, type Target } from '../target.ts';

/** DONE of a listing and acknowledgement of a request, each of the first request of a socket. */
const DONE = Buffer.from('140000000300020001000000000000000000000000', 'hex').subarray(0, 20);
const ACKNOWLEDGED = Buffer.from(`24000000020000010100000000000000${'00'.repeat(20)}`, 'hex');
const MAX_UINT32 = 2 ** 32 - 1;

/** A kernel that answers with these datagrams, and then with nothing. */
function kernelWith(...datagrams: Buffer[]): NetlinkTransport {
  let next = 0;
  return {
    send: () => undefined,
    receive(into) {
      const datagram = datagrams[next++];
      if (datagram === undefined) throw new SystemError('recv', EAGAIN);
      into.set(datagram.subarray(0, into.length));
      return datagram.length;
    },
    close: () => undefined,
  };
}

type Question = (answer: Buffer) => void;

const asked = (answer: Buffer) => new NetlinkSocket(kernelWith(answer, ACKNOWLEDGED));
const listed = (answer: Buffer) => new NetlinkSocket(kernelWith(answer, DONE));

function soundText(value: unknown, at: string): void {
  sure(typeof value === 'string', () => `${at}: ${shown(value)} is no text`);
}

function soundBytes(value: unknown, at: string): void {
  const is = value instanceof Uint8Array && (value.length === 4 || value.length === 16);
  sure(is, () => `${at}: ${shown(value)} is no address of 4 or 16 bytes`);
}

function soundFlow(flow: Flow): void {
  for (const key of ['destination', 'replySource'] as const) {
    const is = flow[key].length === 6 || flow[key].length === 18;
    sure(is, () => `flow.${key}: ${flow[key].length} bytes are no address with a port`);
  }
}

const RULES = { family: 'IPv4', table: 'slicewire' } as const;
const REQUESTS = new ipvs.IpvsRequests(28);

const QUESTIONS: Readonly<Record<string, readonly Question[]>> = {
  link: [
    (answer) => {
      const { index, kind } = rtnetlink.findLink(asked(answer), 'lo');
      soundNumber(index, 'index', 1, 2 ** 31 - 1);
      soundText(kind, 'kind');
    },
    (answer) => soundText(rtnetlink.linkName(asked(answer), 1), 'name'),
  ],
  addresses: [
    (answer) => {
      for (const part of rtnetlink.deviceAddresses(listed(answer), 'IPv4')) {
        for (const { index, bytes } of part) {
          soundNumber(index, 'index', 0, MAX_UINT32);
          soundBytes(bytes, 'address');
        }
      }
    },
  ],
  route: [
    (answer) => {
      const { source, index } = rtnetlink.findRoute(asked(answer), Buffer.from([10, 96, 0, 10]));
      soundNumber(index, 'index', 0, MAX_UINT32);
      if (source !== undefined) soundBytes(source, 'source');
    },
  ],
  family: [(answer) => soundNumber(resolveFamily(asked(answer), 'IPVS'), 'family', 0, 65_535)],
  servers: [
    (answer) => {
      for (const part of ipvs.virtualServers(listed(answer), REQUESTS)) {
        for (const server of part) {
          soundBytes(server.address, 'server.address');
          soundPort(server.port, 'server.port', 0);
          soundText(server.scheduler, 'server.scheduler');
          soundNumber(server.timeout, 'server.timeout', 0, MAX_UINT32);
        }
      }
    },
  ],
  destinations: [
    (answer) => {
      const server = { protocol: 'TCP', address: Buffer.alloc(4), port: 80 } as const;
      for (const part of ipvs.destinationsOf(listed(answer), REQUESTS, server)) {
        for (const { address, port, weight } of part) {
          soundBytes(address, 'destination.address');
          soundPort(port, 'destination.port', 0);
          soundNumber(weight, 'destination.weight', 0, MAX_UINT32);
        }
      }
    },
  ],
  ipvs: [
    (answer) => {
      const { tcp, tcpFin, udp } = asked(answer).ask(REQUESTS.getTimeouts(), ipvs.decodeTimeouts);
      for (const value of [tcp, tcpFin, udp]) soundNumber(value, 'timeout', 0, MAX_UINT32);
    },
    (answer) => soundText(asked(answer).ask(REQUESTS.getInfo(), ipvs.decodeInfo), 'version'),
  ],
  ipset: [
    (answer) => {
      for (const part of ipset.setNames(listed(answer))) for (const name of part) soundText(name, 'name');
    },
    (answer) => {
      for (const part of ipset.setParts(listed(answer), 'kube')) {
        for (const { address, second, port, length } of part.flatMap(({ entries }) => entries)) {
          if (address !== undefined) soundBytes(address, 'entry.address');
          if (second !== undefined) soundBytes(second, 'entry.second');
          if (port !== undefined) soundPort(port, 'entry.port', 0);
          if (length !== undefined) soundNumber(length, 'entry.length', 0, 255);
        }
      }
    },
    (answer) => soundNumber(ipset.typeRevision(asked(answer), 'hash:ip,port', 'IPv4'), 'revision', 0, 255),
  ],
  table: [
    (answer) => {
      const handle = listings.tableHandle(asked(answer), RULES);
      sure(handle === undefined || typeof handle === 'bigint', () => 'the handle of a table is no number');
    },
    (answer) => {
      const facts = listings.tableFacts(asked(answer), RULES);
      if (facts !== undefined) soundText(facts.comment, 'comment');
    },
  ],
  chains: [
    (answer) => {
      for (const { name, base } of listings.readChains(listed(answer), RULES)) {
        soundText(name, 'chain');
        if (base !== undefined) soundNumber(base.priority, 'priority', -(2 ** 31), 2 ** 31 - 1);
      }
    },
    (answer) =>
      void new NftablesSocket(() => kernelWith(answer, ACKNOWLEDGED)).hasChain({ ...RULES, chain: 'services' }),
  ],
  rules: [
    (answer) => {
      for (const { chain, comment, expressions } of listings.readRules(listed(answer), RULES)) {
        soundText(chain, 'rule.chain');
        soundText(comment, 'rule.comment');
        for (const family of ['IPv4', 'IPv6'] as const) {
          for (const expression of ruleOf(comment, expressions, family).expressions) soundText(expression.do, 'do');
        }
      }
    },
    (answer) => {
      const table = { ...RULES, family: 'ip', chain: 'services' } as const;
      for (const rule of chainRules(listed(answer), table))
        for (const name of rule.expressions) soundText(name, 'expression');
    },
    (answer) => {
      const counters = new NftablesSocket(() => kernelWith(answer, DONE)).ruleCounters({ ...RULES, chain: 'services' });
      for (const count of counters) sure(count >= 0 && count <= 2 ** 64, () => `a counter of ${count}`);
    },
  ],
  sets: [
    (answer) => {
      for (const { name } of listings.readSets(listed(answer), RULES)) soundText(name, 'set');
    },
  ],
  elements: [
    (answer) => {
      for (const part of listings.readElements(listed(answer), RULES, 'services')) {
        for (const element of part) {
          const { key, end, data } = elementOf(element);
          for (const text of [key, end, data]) soundText(text, 'element');
        }
      }
    },
  ],
  generation: [
    (answer) =>
      soundNumber(new NftablesSocket(() => kernelWith(answer, ACKNOWLEDGED)).generation(), 'generation', 0, MAX_UINT32),
    (answer) => {
      const open = () => ({ ...kernelWith(answer), onData: () => () => undefined });
      const journal = new RulesetJournal({ open, starterOf: () => undefined });
      journal.listen();
      if (journal.last !== undefined) soundNumber(journal.last.pid, 'pid', 0, MAX_UINT32);
      journal.close();
    },
  ],
  flows: [
    (answer) => {
      let isFirst = true;
      const open = () => (isFirst ? kernelWith(answer, DONE) : kernelWith());
      const socket = new ConntrackSocket({
        open: () => {
          const transport = open();
          isFirst = false;
          return transport;
        },
      });
      for (const part of answer.length % 2 === 0 ? socket.udpFlows('IPv4') : socket.openings())
        for (const flow of part) soundFlow(flow);
    },
    (answer) => {
      const question = {
        family: 'IPv4',
        source: undefined,
        destination: Buffer.from([10, 96, 0, 20]),
        protocol: 6,
        port: 80,
      } as const;
      for (const part of connections(listed(answer), question)) {
        for (const { source, destination, replySource, replyDestination } of part) {
          for (const { address, port } of [source, destination, replySource, replyDestination]) {
            soundBytes(address, 'connection.address');
            soundPort(port, 'connection.port', 0);
          }
        }
      }
    },
  ],
  trace: [
    (answer) => {
      const { events } = new TraceSocket(() => kernelWith(answer)).take(100);
      for (const protocol of ['TCP', 'UDP', 'SCTP'] as const) {
        const collector = new PacketCollector({ family: 'ip', protocol, most: 3 });
        for (const event of events) collector.add(event, 0);
        for (const { steps } of collector.packets) sure(steps.length <= 1000, () => `${steps.length} steps`);
      }
    },
  ],
  errors: [
    (answer) => {
      for (const outcome of asked(answer).acknowledge([rtnetlink.getLinkRequest('lo')]))
        sure(outcome === undefined || outcome instanceof NetlinkError, () => shown(outcome));
    },
    (answer) => {
      const found: Message[] = [...decodeMessages(answer, answer.length)];
      for (const { end } of found) sure(end <= answer.length, () => `a message ends at ${end} of ${answer.length}`);
    },
  ],
};

const CORPUS: Readonly<Record<string, readonly string[]>> = JSON.parse(
  readFileSync(new URL('../corpus/netlink.json', import.meta.url), 'utf8'),
);
/** Where answers to a question are under another name. */
const SAME: Readonly<Record<string, string>> = { 'link-name': 'link' };
const NAMES = Object.keys(QUESTIONS);
const BY_QUESTION = NAMES.map((name) =>
  Object.entries(CORPUS)
    .filter(([key]) => (SAME[key] ?? key) === name)
    .flatMap(([, texts]) => texts.map((text) => Buffer.from(text, 'hex'))),
);

function mutate(random: Random): Buffer {
  const at = random.below(NAMES.length);
  const seeds = BY_QUESTION[random.once(20) ? random.below(NAMES.length) : at] ?? [];
  // An answer has several messages.
  const parts = Array.from({ length: random.once(3) ? 1 + random.below(4) : 1 }, () => mutateNetlink(random, seeds));
  return Buffer.concat([Buffer.from([at]), ...parts]);
}

export const netlink: Target = {
  name: 'netlink',
  declared: [NetlinkError, NetlinkProtocolError, SystemError],
  seeds: BY_QUESTION.flatMap((seeds, at) => seeds.map((seed) => Buffer.concat([Buffer.from([at]), seed]))),
  mutate,
  run(input) {
    const answer = input.subarray(1);
    for (const question of QUESTIONS[NAMES[(input[0] ?? 0) % NAMES.length] ?? ''] ?? []) {
      try {
        question(answer);
      } catch (error) {
        if (!isDeclared(error)) throw error;
      }
    }
    soundPrototypes();
  },
};

/** Node.js gives its own RangeErrors a code: an offset outside of a buffer. */
function isDeclared(error: unknown): boolean {
  if (error instanceof RangeError) return !('code' in error);
  return error instanceof NetlinkError || error instanceof NetlinkProtocolError || error instanceof SystemError;
}
