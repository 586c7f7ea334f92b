/** The simulated nftables of test/sim answers as the kernel does: random transactions, right and wrong ones, to both. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type NetlinkRequest, NLM_F_CREATE, NLM_F_EXCL } from '../../native/netlink.ts';
import { NetlinkSocket } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import * as expressions from '../../native/nft/expressions.ts';
import { readChains, readElements, readRules, readSets, tableHandle } from '../../native/nft/listings.ts';
import {
  addElements,
  addSet,
  deleteElements,
  deleteSet,
  type Element,
  type NftSetSpec,
} from '../../native/nft/sets.ts';
import { addChain, addRule, addTable, deleteChain, deleteTable, flushChain } from '../../native/nft/table-requests.ts';
import { commit } from '../../native/nft/transaction.ts';
import { decodeGeneration, generationRequest } from '../../native/nftables.ts';
import { ruleOf } from '../../src/kernel/nftables-reading.ts';
import { Random } from '../helpers/base/random.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { Calls, SimProcess } from '../sim/engine/process.ts';
import { SimTime } from '../sim/engine/time.ts';
import { SimNftables } from '../sim/kernel/nft/sim-nftables.ts';

const TRANSACTIONS = 700;
const TABLES = ['one', 'two'] as const;
const CHAINS = ['a', 'b', 'c', 'base'] as const;
/** Sets of every kind that slicewire has. */
const SETS: readonly NftSetSpec[] = [
  { name: 'plain', fields: [4], keyType: 7 },
  { name: 'verdicts', fields: [4, 2], keyType: (7 << 6) | 13, data: 'verdict' },
  { name: 'data', fields: [4], keyType: 7, data: { type: 7, length: 4 } },
  { name: 'ranges', fields: [1, 4], keyType: (12 << 6) | 7, isInterval: true },
  { name: 'counting', fields: [4], keyType: 7, isCounting: true },
  { name: 'memory', fields: [4], keyType: 7, isDynamic: 'expiring' },
  { name: 'tally', fields: [4], keyType: 7, isDynamic: 'counting connections' },
];

describe('the simulated nftables', () => {
  const namespace = `sw${process.pid}-sim-nft`;
  let real: NetlinkSocket;
  before(async () => {
    await ip('netns', 'add', namespace);
    real = new NetlinkSocket(transportsIn(namespace)(NETLINK_NETFILTER, 1024 * 1024));
  });
  after(async () => {
    real.close();
    await ip('netns', 'delete', namespace);
  });

  it('carries out and refuses as the kernel does', () => {
    const time = new SimTime(() => 0);
    const sim = new SimNftables({ now: () => time.now, longestPart: 300 });
    const agent = new SimProcess('program', 5_000_000, new Calls(time));
    const simulated = new NetlinkSocket(sim.transport(agent)(NETLINK_NETFILTER));
    const random = new Random(18);
    let [carriedOut, refused] = [0, 0];
    for (let n = 0; n < TRANSACTIONS; n++) {
      const wanted = Array.from({ length: random.between(1, 6) }, () => anyRequest(random));
      const requests = wanted.map(({ request }) => request);
      const texts = wanted.map(({ text }) => text).join('; ');
      const answers = [real, simulated].map((socket) => outcomeOf(socket, requests));
      assert.deepEqual(answers[1], answers[0], `transaction ${n}: ${texts}`);
      if (answers[0]?.errors.every((error) => error === undefined)) carriedOut += 1;
      else refused += 1;
      if (n % 20 === 0) assert.deepEqual(contentOf(simulated), contentOf(real), `after transaction ${n}: ${texts}`);
    }
    assert.ok(carriedOut > TRANSACTIONS / 10 && refused > TRANSACTIONS / 10, `${carriedOut} and ${refused}`);
    simulated.close();
    assert.deepEqual(agent.open, []);
  });
});

interface Wanted {
  readonly text: string;
  readonly request: NetlinkRequest;
}

function anyRequest(random: Random): Wanted {
  const family = random.chance(0.7) ? 'IPv4' : 'IPv6';
  const id = { family, table: random.chance(0.8) ? TABLES[0] : TABLES[1] } as const;
  const [chain, spec] = [random.pick(CHAINS), random.pick(SETS)];
  const hook = chain === 'base' ? ({ type: 'filter', hook: 'forward', priority: random.below(2) } as const) : undefined;
  const name = (what: string) => `${what} of ${family} ${id.table}`;
  const dice = random.next();
  if (dice < 0.12) return { text: name('add table'), request: addTable(id, 'a comment') };
  if (dice < 0.13) return { text: name('delete table'), request: deleteTable(id) };
  if (dice < 0.25) return { text: name(`add chain ${chain}`), request: changed(random, addChain(id, chain, hook)) };
  if (dice < 0.3) return { text: name(`delete chain ${chain}`), request: deleteChain(id, chain) };
  if (dice < 0.35) return { text: name(`flush chain ${chain}`), request: flushChain(id, chain) };
  if (dice < 0.5) {
    const { text, list } = anyExpressions(random, chain);
    return { text: name(`add rule to ${chain}: ${text}`), request: addRule(id, chain, list, text) };
  }
  if (dice < 0.65) return { text: name(`add set ${spec.name}`), request: changed(random, addSet(id, spec, 1)) };
  if (dice < 0.68) return { text: name(`delete set ${spec.name}`), request: deleteSet(id, spec.name) };
  const elements = Array.from({ length: random.between(1, 3) }, () => anyElement(random, spec));
  const text = `${spec.name} ${elements.map(({ key, end, data }) => JSON.stringify([key, end, data])).join(' ')}`;
  if (dice < 0.9)
    return { text: name(`add to ${text}`), request: changed(random, addElements(id, spec.name, elements)) };
  return { text: name(`delete from ${text}`), request: deleteElements(id, spec.name, elements) };
}

/** Sometimes the object may exist, or must not. */
function changed(random: Random, request: NetlinkRequest): NetlinkRequest {
  if (!random.chance(0.3)) return request;
  return { ...request, flags: random.chance(0.5) ? NLM_F_CREATE : NLM_F_CREATE | NLM_F_EXCL };
}

/** Chains lead to `c` alone, which leads nowhere: nobody asks here what the kernel says of a circle. */
function anyExpressions(
  random: Random,
  chain: string,
): { text: string; list: readonly expressions.ExpressionWriter[] } {
  const load = expressions.payload('network', 12, 8, 0);
  const set = random.pick(SETS);
  const to = random.pick(['c', 'c', 'base', 'none']);
  switch (random.below(chain === 'c' ? 2 : 4)) {
    case 0:
      return { text: `lookup ${set.name}`, list: [load, expressions.lookup(set.name, 0)] };
    case 1:
      return { text: 'remember', list: [load, expressions.remember('memory', 0, 30_000)] };
    case 2:
      return { text: `goto ${to}`, list: [expressions.verdict({ kind: 'goto', chain: to })] };
    default:
      return { text: 'verdicts', list: [load, expressions.lookup('verdicts', 0, { to: 'verdict' })] };
  }
}

function anyElement(random: Random, { name, data }: NftSetSpec): Element {
  const byte = () => String.fromCharCode(random.below(6));
  const address = (last = byte()) => `\x0a\0\0${last}`;
  if (name === 'ranges') {
    const [first, last] = [random.below(20), random.below(6)];
    const protocol = '\x06\0\0\0';
    const at = (n: number) => protocol + address(String.fromCharCode(n));
    return { key: at(first), end: at(first + last) };
  }
  const key = name === 'verdicts' ? `${address()}\0\x50\0\0` : address();
  if (data === undefined) return { key, end: '' };
  if (data !== 'verdict') return { key, end: '', data: address() };
  return {
    key,
    end: '',
    data: random.chance(0.3) ? { kind: 'drop' } : { kind: 'goto', chain: random.pick(['c', 'c', 'none', 'base']) },
  };
}

interface Outcome {
  readonly errors: readonly (string | undefined)[];
  /** By how much the generation moved. */
  readonly moved: number;
}

function outcomeOf(socket: NetlinkSocket, requests: readonly NetlinkRequest[]): Outcome {
  const generation = () => socket.ask(generationRequest(), decodeGeneration) ?? 0;
  const start = generation();
  const errors = commit(socket, requests, start).map((error) => error && `${error.errno} at ${error.offset}`);
  return { errors, moved: generation() - start };
}

function contentOf(socket: NetlinkSocket): unknown {
  const content: Record<string, unknown> = {};
  for (const family of ['IPv4', 'IPv6'] as const) {
    for (const table of TABLES) {
      const id = { family, table };
      if (tableHandle(socket, id) === undefined) continue;
      const chains = [...readChains(socket, id)];
      const rules = [...readRules(socket, id)].map(({ chain, comment, expressions: bytes }) => [
        chain,
        comment,
        ruleOf(comment, bytes, family).expressions,
      ]);
      const sets = [...readSets(socket, id)].map((set) => [
        set,
        [...readElements(socket, id, set.name)].flat().sort((a, b) => (a.key < b.key ? -1 : 1)),
      ]);
      content[`${family} ${table}`] = { chains, rules, sets };
    }
  }
  return content;
}

async function ip(...args: string[]): Promise<void> {
  const { exitCode, stderr } = await shellCommands.run({ file: 'ip', args }, NEVER);
  assert.equal(exitCode, 0, stderr);
}
