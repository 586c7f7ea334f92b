/** `slicewire explain --live`: looks at the real packets and connections of a question, in this network namespace. */

import { type Address, parseAddress } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import { type Clock, realClock, sleep } from '../../base/clock.ts';
import { type ComputedFate, fatesOf, type SeenPackets, seenAnswer } from '../../inspect/explain/seen.ts';
import type { Explanation } from '../../inspect/wire/explanation.ts';
import { type KnownConnections, readConnections, type TrackedConnection } from '../../kernel/conntrack.ts';
import type { IptablesTools } from '../../kernel/iptables-tools.ts';
import { readRules } from '../../kernel/rule-texts.ts';
import { tracePackets } from '../../kernel/trace-table.ts';
import type { TraceQuestion } from '../../kernel/traced-packets.ts';
import { MODES } from '../../proxy/model/modes.ts';

export interface LiveOptions {
  readonly mode: ExplainedMode;
  /** The tools that work on this node, with a known version. In nftables mode there may be none. */
  readonly tools: readonly Pick<IptablesTools, 'family' | 'variant' | 'rules'>[];
  readonly milliseconds: number;
  readonly signal: AbortSignal;
  /** Called when the trace begins, and a packet can be sent. */
  readonly onReady?: () => void;
  readonly clock?: Clock;
}

type ExplainedMode = Explanation['by']['mode'];

/** Limits of packets and connections in an answer. */
const MAX_PACKETS = 10;
const MAX_CONNECTIONS = 20;
const NO_RULE = { text: '', isReject: false, isNat: false } as const;
const READ_PAUSE_MS = 500;

/** Looks at the packets that an explanation is about. Throws as `look`. */
export async function seenOf(explanation: Explanation, options: Omit<LiveOptions, 'mode'>): Promise<SeenPackets> {
  const { from, to, verdict, by } = explanation;
  const question: LiveQuestion = {
    family: to.family,
    // A node and the outside world have many addresses, so the sender is not filtered by one.
    source: from.what === 'node' || from.text === 'outside' ? undefined : parseAddress(from.address),
    origin: from.what === 'node' ? 'node' : 'network',
    destination: parseAddress(to.address) ?? notAnAddress(to.address),
    protocol: to.protocol,
    port: to.port,
    computedFor: parseAddress(from.address),
    fates: fatesOf(verdict),
  };
  return await look(question, { ...options, mode: by.mode });
}

function notAnAddress(text: string): never {
  throw new RangeError(`the explanation is about ${text}, which is no address`);
}

export interface LiveQuestion extends TraceQuestion {
  /** The sender for which the fates were computed. */
  readonly computedFor?: Address | undefined;
  /** The computed fates of such a packet. */
  readonly fates: readonly ComputedFate[];
}

/** Throws TraceBusy, TraceUnusable, NetlinkError, SystemError, and the signal's reason. */
export async function look(question: LiveQuestion, options: LiveOptions): Promise<SeenPackets> {
  const { mode, tools, milliseconds, signal } = options;
  const tool = tools.find(({ family }) => family === question.family);
  const seconds = Math.round(milliseconds / 100) / 10;
  const notTraced = whyNotTraced(mode, tool?.variant);
  const common = { ...question, computedFor: question.computedFor, mode, seconds, notTraced };
  if (notTraced !== undefined) {
    const none = { packets: [], gaps: [], ruleOf: () => NO_RULE };
    return seenAnswer({ ...common, ...none, ...(await connectionsDuring(question, options)) });
  }
  const { packets, gap } = await tracePackets({ ...question, ...options, most: MAX_PACKETS });
  const iptables = tool?.variant === 'nft' ? tool : undefined;
  const ruleOf = await readRules(packets, { tools: iptables, signal });
  const gaps = gap === undefined ? [] : [gap];
  // The packets alone are an answer, so a failure to read the connections is only a gap.
  const connections = await readConnections(question, { most: MAX_CONNECTIONS }).catch((error: unknown) => {
    gaps.push(`The connections cannot be read: ${causeOf(error)}.`);
    return { connections: [], otherConnections: 0 };
  });
  return seenAnswer({ ...common, packets, gaps, ruleOf, ...connections });
}

/** The legacy variant evaluates its rules outside of nftables, and writes its own trace into the kernel's log. */
function whyNotTraced(mode: ExplainedMode, variant: IptablesTools['variant']): string | undefined {
  if (MODES[mode].rulesBy === 'nftables' || variant === 'nft') return undefined;
  return 'the kernel traces rules of nftables alone, and this node has the legacy variant of iptables';
}

/** The connections that exist at some time during the look. */
async function connectionsDuring(
  question: LiveQuestion,
  { milliseconds, signal, onReady, clock = realClock }: LiveOptions,
): Promise<KnownConnections> {
  const seen = new Map<string, TrackedConnection>();
  let others = 0;
  const end = clock.now() + milliseconds;
  onReady?.();
  for (;;) {
    const { connections, otherConnections } = await readConnections(question, { most: MAX_CONNECTIONS });
    others = Math.max(others, otherConnections);
    for (const one of connections) {
      const key = `${one.source.address} ${one.source.port}`;
      if (seen.has(key) || seen.size < MAX_CONNECTIONS) seen.set(key, one);
    }
    const left = end - clock.now();
    if (left <= 0) return { connections: [...seen.values()], otherConnections: others };
    await sleep(clock, Math.min(READ_PAUSE_MS, left), signal);
  }
}
