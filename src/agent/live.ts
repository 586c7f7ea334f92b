/** `slicewire explain --live`: looks at the real packets and connections of a question, in this network namespace. */

import type { Fate } from '../explain/fates.ts';
import { type Seen, seenAnswer } from '../explain/seen.ts';
import { type Clock, realClock, sleep } from '../host/clock.ts';
import { readConnections, type TrackedConnection } from '../host/connections.ts';
import type { IptablesTools } from '../host/iptables-tools.ts';
import { type Trace, type TraceQuestion, tracePackets } from '../host/packet-trace.ts';
import { readRuleTexts } from '../host/rule-texts.ts';

export interface LiveOptions {
  readonly question: TraceQuestion;
  /** The computed fates of such a packet. */
  readonly fates: readonly Pick<Fate, 'kind' | 'backend' | 'masqueraded'>[];
  readonly mode: 'iptables' | 'ipvs' | 'nftables';
  /** The tools that work on this node, after their `version` was asked for. In nftables mode there may be none. */
  readonly tools: readonly Pick<IptablesTools, 'family' | 'variant' | 'rules'>[];
  readonly milliseconds: number;
  readonly signal: AbortSignal;
  /** Called when packets are looked at from now on: the time to send one. */
  readonly onReady?: () => void;
  readonly clock?: Clock;
}

/** Packets and connections that an answer has at most. */
const MOST_PACKETS = 10;
const MOST_CONNECTIONS = 20;
/** Milliseconds between two readings of the connections. */
const LOOK = 500;

/** Throws TraceBusy, TraceUnusable, NetlinkError, SystemError, and the signal's reason. */
export async function seenOf(options: LiveOptions): Promise<Seen> {
  const { question, fates, mode, tools, milliseconds, signal } = options;
  const tool = tools.find(({ family }) => family === question.family);
  const seconds = Math.round(milliseconds / 100) / 10;
  const notTraced = whyNotTraced(mode, tool?.variant);
  const common = { ...question, fates, seconds, notTraced };
  if (notTraced !== undefined) {
    const { connections, others } = await connectionsDuring(options);
    const none = { packets: [], isIncomplete: false, ruleText: () => '' };
    return seenAnswer({ ...common, ...none, connections, otherConnections: others });
  }
  const { packets, isIncomplete }: Trace = await tracePackets({ ...question, ...options, most: MOST_PACKETS });
  const iptables = tool?.variant === 'nft' ? tool : undefined;
  const ruleText = await readRuleTexts(packets, { tools: iptables, signal });
  const { connections, others } = await readConnections(question, { most: MOST_CONNECTIONS });
  return seenAnswer({ ...common, packets, isIncomplete, ruleText, connections, otherConnections: others });
}

/** The legacy variant evaluates its rules outside of nftables, and writes its own trace into the kernel's log. */
function whyNotTraced(mode: LiveOptions['mode'], variant: IptablesTools['variant']): string | undefined {
  if (mode === 'nftables' || variant === 'nft') return undefined;
  return 'the kernel traces rules of nftables alone, and this node has the legacy variant of iptables';
}

/** Connections that stand at some time during the look. */
async function connectionsDuring({ question, milliseconds, signal, onReady, clock = realClock }: LiveOptions): Promise<{
  readonly connections: readonly TrackedConnection[];
  readonly others: number;
}> {
  const seen = new Map<string, TrackedConnection>();
  let others = 0;
  const end = clock.now() + milliseconds;
  onReady?.();
  for (;;) {
    const now = await readConnections(question, { most: MOST_CONNECTIONS });
    others = Math.max(others, now.others);
    for (const one of now.connections) seen.set(`${one.source.address} ${one.source.port}`, one);
    const left = end - clock.now();
    if (left <= 0) break;
    await sleep(clock, Math.min(LOOK, left), signal);
  }
  const all = [...seen.values()];
  return { connections: all.slice(0, MOST_CONNECTIONS), others: others + Math.max(0, all.length - MOST_CONNECTIONS) };
}
