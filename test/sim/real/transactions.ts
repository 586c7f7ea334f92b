/** Transactions of a history, sent to a real kernel. */
import { ERESTART } from '../../../native/errno.ts';
import { HEADER_LENGTH, NetlinkError, type NetlinkRequest } from '../../../native/netlink.ts';
import { NetlinkSocket } from '../../../native/netlink-socket.ts';
import { netfilterType } from '../../../native/nfnetlink.ts';
import { NFT_MSG_DELRULE, NFTA_RULE_CHAIN, NFTA_RULE_HANDLE, NFTA_RULE_TABLE } from '../../../native/nft/constants.ts';
import { chainRules } from '../../../native/nft/rule-handles.ts';
import { commit } from '../../../native/nft/transaction.ts';
import { NFNL_SUBSYS_NFTABLES } from '../../../native/nftables.ts';
import type { Asked } from '../kernel/nft/format.ts';
import { NftKernelState, type TakenTransaction } from '../kernel/nft/kernel.ts';
import { type Ruleset, type Table, tableKey } from '../kernel/nft/ruleset.ts';
import { contentOf } from './content.ts';
import type { RealNode } from './node.ts';

const STALE = ['stale'];

/** Differences between what the two kernels answered. */
export function sendTransaction(node: RealNode, transaction: TakenTransaction): readonly string[] {
  const { port, requests, isStale } = transaction;
  const asked = requests.map((one) => requestFor(node, one, transaction));
  const generation = node.generation;
  const expected = isStale ? STALE : transaction.refusals.slice(0, requests.length).map(refusalText);
  let found: readonly (string | undefined)[];
  try {
    const outcomes = commit(node.socket(port), asked, isStale ? generation + 1 : generation);
    found = outcomes.map((error) => error && refusalText(error));
  } catch (error) {
    if (!(error instanceof NetlinkError && error.errno === ERESTART)) throw error;
    found = STALE;
  }
  return requests.flatMap((one, i) => {
    const [simulated = 'done', real = 'done'] = [expected[i], found[i]];
    return simulated === real ? [] : [`request ${i} of type ${one.type}: simulated ${simulated}, real ${real}`];
  });
}

function refusalText(error: { readonly errno: number; readonly offset?: number | undefined } | undefined) {
  return error && `errno ${error.errno} at ${error.offset}`;
}

/** The same request; a rule that it names by its handle has another one in the real kernel. */
function requestFor(node: RealNode, asked: Asked, { before }: TakenTransaction): NetlinkRequest {
  const { bytes, flags, fields, family } = asked;
  const type = netfilterType(NFNL_SUBSYS_NFTABLES, asked.type);
  const body = Buffer.from(bytes.subarray(HEADER_LENGTH));
  const at = fields.at(NFTA_RULE_HANDLE);
  if (asked.type !== NFT_MSG_DELRULE || at < 0) return { type, flags, body: [body] };
  const [table, chain] = [fields.text(NFTA_RULE_TABLE) ?? '', fields.text(NFTA_RULE_CHAIN) ?? ''];
  const handle = fields.buffer.readBigUInt64BE(at);
  const rules = before.get(tableKey(family, table))?.chains.get(chain)?.rules ?? [];
  const number = rules.findIndex((rule) => BigInt(rule.handle) === handle);
  const real = chainRules(node.asking, { family: family === 2 ? 'ip' : 'ip6', table, chain })[number];
  if (real !== undefined) body.writeBigUInt64BE(real.handle, at - HEADER_LENGTH);
  return { type, flags, body: [body] };
}

const CONTENTS = new WeakMap<Table, readonly string[]>();

/** Differences between the tables of nftables; `once`: also those that were there before. */
export function compareTables(node: RealNode, ruleset: Ruleset, before: Ruleset): readonly string[] {
  const found: string[] = [];
  for (const key of new Set([...ruleset.keys(), ...before.keys()])) {
    const table = ruleset.get(key) ?? before.get(key);
    if (table === undefined) continue;
    const id = { family: table.family === 2 ? 'IPv4' : 'IPv6', table: table.name } as const;
    const now = ruleset.get(key);
    const simulated = now && (CONTENTS.get(now) ?? simulatedContent(ruleset, now));
    found.push(...unlike(simulated, contentOf(node.asking, id)).map((line) => `${id.family} ${table.name}: ${line}`));
  }
  return found;
}

function simulatedContent(ruleset: Ruleset, table: Table): readonly string[] | undefined {
  const kernel = new NftKernelState({ now: () => 0, longestPart: 16_384 });
  kernel.ruleset = ruleset;
  const socket = kernel.socket(64 * 1024 * 1024);
  const asking = new NetlinkSocket({
    send: (datagram) => kernel.take(datagram, socket, { pid: 0, name: '' }),
    receive: (into) => socket.receive(into),
    close: () => undefined,
  });
  const lines = contentOf(asking, { family: table.family === 2 ? 'IPv4' : 'IPv6', table: table.name });
  if (lines !== undefined) CONTENTS.set(table, lines);
  return lines;
}

/** Lines that only one of the two has. */
export function unlike(simulated: readonly string[] | undefined, real: readonly string[] | undefined): string[] {
  if (simulated === undefined || real === undefined) {
    if (simulated === real) return [];
    return [`only the ${simulated === undefined ? 'real' : 'simulated'} kernel has it`];
  }
  const [ours, theirs] = [new Set(simulated), new Set(real)];
  return [
    ...simulated.filter((line) => !theirs.has(line)).map((line) => `only simulated: ${line}`),
    ...real.filter((line) => !ours.has(line)).map((line) => `only real: ${line}`),
  ];
}
