/** The texts of rules that a trace names by handle: their comments, or for tables of iptables-nft the rules as iptables lists them. */
import { NetlinkSocket, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import { chainRules, type ForeignChain, type HandledRule } from '../../native/nft/rule-handles.ts';
import { breath } from '../base/clock.ts';
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

/** A rule of any program. */
export interface RuleFacts {
  /** Its comment, or the rule as iptables lists it; `rule with handle 7` when it has neither or is gone; "" for a step without a rule. */
  readonly text: string;
  /** Whether it answers the sender instead of dropping silently. */
  readonly isReject: boolean;
  /** Whether it translates addresses. */
  readonly isNat: boolean;
}

/** The rule of a step. */
export type RuleOf = (step: ForeignChain & { readonly handle: bigint | undefined }) => RuleFacts;

/** Reads the chains that the packets met. Throws NetlinkError, SystemError, CommandNotStarted. */
export async function readRules(packets: readonly TracedPacket[], options: RuleTextOptions): Promise<RuleOf> {
  const { open = openTransport } = options;
  const found = new Map<string, RuleFacts>();
  const socket = new NetlinkSocket(open(NETLINK_NETFILTER));
  try {
    for (const chain of chainsOf(packets)) {
      const rules = chainRules(socket, chain);
      const listed = await listedByIptables(chain, rules, options);
      for (const [i, rule] of rules.entries()) found.set(keyOf(chain, rule.handle), factsOf(rule, listed?.[i]));
      await breath();
    }
  } finally {
    socket.close();
  }
  return (step) => {
    const { handle } = step;
    if (handle === undefined) return { text: '', isReject: false, isNat: false };
    return found.get(keyOf(step, handle)) ?? { text: `rule with handle ${handle}`, isReject: false, isNat: false };
  };
}

const NAT: ReadonlySet<string> = new Set(['nat', 'masq', 'redir']);

/** All targets of iptables are the expression `target`, so only the text of the rule has their kind. */
function factsOf({ handle, comment, expressions }: HandledRule, listed: string | undefined): RuleFacts {
  const target = / -[jg] (\S+)/.exec(` ${(listed ?? '').replace(/"(?:\\.|[^"])*"/g, '')}`)?.[1];
  return {
    text: (listed ?? comment) || `rule with handle ${handle}`,
    isReject: expressions.includes('reject') || target === 'REJECT',
    isNat: expressions.some((name) => NAT.has(name)) || TRANSLATE.has(target ?? ''),
  };
}

const TRANSLATE: ReadonlySet<string> = new Set(['DNAT', 'SNAT', 'MASQUERADE', 'REDIRECT', 'NETMAP']);

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

/** The rules in the kernel's order; undefined where iptables cannot list the chain, or lists another number of rules. */
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
    // Another program wrote a table of this name with nft. iptables refuses it, so the comments are used.
    if (error instanceof IptablesError) return undefined;
    throw error;
  }
}
