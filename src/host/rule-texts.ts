/** The texts of rules that a trace names by handle: their comments, or for tables of iptables-nft the rules as iptables lists them. */
import { NetlinkSocket, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { chainRules, type ForeignChain, type HandledRule } from '../../native/nft/rule-handles.ts';
import { breath } from './clock.ts';
import { IptablesError, type IptablesTools } from './iptables-tools.ts';
import type { TracedPacket, TracedStep } from './traced-packets.ts';

/** Tables of iptables (iptables(8)). */
const OF_IPTABLES: ReadonlySet<string> = new Set(['raw', 'mangle', 'nat', 'filter', 'security']);

export interface RuleTextOptions {
  /** Tools of the nft variant for the packets' family; without them, the rules of iptables have no texts. */
  readonly tools?: Pick<IptablesTools, 'rules'> | undefined;
  readonly signal: AbortSignal;
  /** Opens sockets, for example in another network namespace. */
  readonly open?: typeof openTransport;
}

/** The text of a step's rule; `rule with handle 7` when it has none, or is gone. */
export type RuleText = (
  step: Pick<ForeignChain, 'family' | 'table' | 'chain'> & { readonly handle: bigint | undefined },
) => string;

/** Reads the chains that the packets met. Throws NetlinkError, SystemError, CommandNotStarted. */
export async function readRuleTexts(packets: readonly TracedPacket[], options: RuleTextOptions): Promise<RuleText> {
  const { open = openTransport } = options;
  const texts = new Map<string, string>();
  const socket = new NetlinkSocket(open(NETLINK_NETFILTER));
  try {
    for (const chain of chainsOf(packets)) {
      const rules = chainRules(socket, chain);
      const listed = await listedByIptables(chain, rules, options);
      for (const [i, { handle, comment }] of rules.entries()) {
        const text = listed?.[i] ?? comment;
        if (text !== '') texts.set(keyOf(chain, handle), text);
      }
      await breath();
    }
  } finally {
    socket.close();
  }
  return (step) =>
    step.handle === undefined ? '' : (texts.get(keyOf(step, step.handle)) ?? `rule with handle ${step.handle}`);
}

const nameOf = ({ family, table, chain }: ForeignChain) => `${family} ${table} ${chain}`;
const keyOf = (chain: ForeignChain, handle: bigint) => `${nameOf(chain)} ${handle}`;

function chainsOf(packets: readonly TracedPacket[]): Iterable<ForeignChain> {
  const chains = new Map<string, ForeignChain>();
  const isRule = (step: TracedStep) => step.kind === 'event' && step.handle !== undefined;
  for (const { steps } of packets) {
    for (const step of steps) if (step.kind === 'event' && isRule(step)) chains.set(nameOf(step), step);
  }
  return chains.values();
}

/** Rules in the order of the kernel's; undefined where iptables cannot list the chain, or lists another number of rules. */
async function listedByIptables(
  { family, table, chain }: ForeignChain,
  rules: readonly HandledRule[],
  { tools, signal }: RuleTextOptions,
): Promise<readonly string[] | undefined> {
  if (tools === undefined || family === 'inet' || !OF_IPTABLES.has(table)) return undefined;
  try {
    const listed = await tools.rules({ table, chain }, signal);
    return listed?.length === rules.length ? listed : undefined;
  } catch (error) {
    // A table of this name that another program wrote with nft: iptables refuses it, and the comments remain.
    if (error instanceof IptablesError) return undefined;
    throw error;
  }
}
