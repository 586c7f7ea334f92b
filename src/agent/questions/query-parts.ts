/** The parts of the process that answers read. */

import type { Clock } from '../../base/clock.ts';
import { AUTO, type Config } from '../../config/config.ts';
import { version } from '../../config/program-version.ts';
import { relayAddresses } from '../../config/relay-settings.ts';
import type { RelayFacts } from '../../inspect/explain/facts.ts';
import type { Recorder } from '../../inspect/history/recorder.ts';
import { momentOf, NoAnswer } from '../../inspect/wire/envelope.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import type { Status } from '../../inspect/wire/status.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import type { ProxyModel } from '../../proxy/model/proxy-model.ts';
import type { ModeInspection } from '../../proxy/modes/inspection.ts';
import type { SyncLoop } from '../../proxy/sync/loop.ts';
import type { Agent } from '../agent.ts';
import type { ModeOnNode } from '../build-mode.ts';
import type { ObjectFeed } from '../feed.ts';
import type { Recordings } from '../recording/recordings.ts';
import type { FrontendTraffic } from '../service-traffic.ts';
import type { KubeProxyRules } from './kube-proxy-rules.ts';

/** Functions return parts that a reload of the configuration replaces. */
export interface QueryParts {
  readonly who: AnsweredBy['who'];
  readonly clock: Pick<Clock, 'now' | 'wall' | 'after'>;
  /** Milliseconds since 1970; undefined without an agent. */
  readonly startedAt: number | undefined;
  readonly config: () => Config;
  readonly feed: () => ObjectFeed;
  /** undefined until the first lists are complete. */
  readonly agent: () => Agent | undefined;
  readonly health: () => Status['health'];
  /** The present relay of node ports on loopback; undefined without an agent, where the configuration decides. */
  readonly relay?: () => RelayFacts;
  /** The traffic of a Service's frontends; undefined where it is not counted, or not yet. */
  readonly trafficOf?: (service: ServiceKey) => Promise<readonly FrontendTraffic[] | undefined>;
  /** undefined where nothing is recorded. */
  readonly recordings: Pick<Recordings, 'recorder' | 'archive' | 'fault'> | undefined;
  /** Reads the rules of another proxy, which the answers are about. Throws WrongQuestion, and the errors of reading the kernel. */
  readonly of?: ((signal: AbortSignal) => Promise<KubeProxyRules>) | undefined;
}

/** The parts that the live page reads. */
export interface PageParts extends Omit<QueryParts, 'feed' | 'agent' | 'recordings'> {
  readonly feed: () => Pick<ObjectFeed, 'cache' | 'watches' | 'ledger'>;
  readonly agent: () => PageAgent | undefined;
  readonly recordings: Pick<Recordings, 'recorder' | 'fault'> | undefined;
}

export interface PageAgent {
  readonly model: Pick<ProxyModel, 'portsOf'>;
  readonly loop: Pick<SyncLoop, 'faults' | 'refused'>;
  readonly mode: { readonly inspection: Pick<ModeInspection, 'believed'> };
  readonly onNode: Pick<ModeOnNode, 'families' | 'recorded'>;
}

/** undefined where nothing is recorded, or the recorder stopped. */
export function recorderOf({ recordings }: Pick<PageParts, 'recordings'>): Recorder | undefined {
  return recordings?.fault === undefined ? recordings?.recorder : undefined;
}

/** The agent's parts. Throws NoAnswer while they are not built yet. */
export function presentAgent(parts: QueryParts): Agent {
  const agent = parts.agent();
  if (agent?.mode.isObserved === true) return agent;
  const waiting = parts.feed().cache.waitingFor;
  const why =
    waiting.length === 0 ? 'the kernel is not read yet' : `the first lists of ${waiting.join(', ')} have not arrived`;
  throw new NoAnswer(`the agent is not ready to answer: ${why}; see slicewire status`);
}

export function answeredByOf(
  { who, config, clock, of }: Pick<QueryParts, 'who' | 'config' | 'clock' | 'of'>,
  at = clock.wall(),
): AnsweredBy {
  const { mode, modeChoice, nodeName } = config();
  const reason = modeChoice.by === AUTO ? modeChoice.why : undefined;
  const chosen = reason === undefined ? { mode } : { mode, modeReason: reason };
  const rules = of === undefined ? {} : { rules: 'kube-proxy' as const };
  return { who, ...chosen, ...rules, node: nodeName, version: version(), at: momentOf(at) };
}

/** The relay of node ports on loopback: that of the agent, or as configured. */
export function relayOf({ relay, config }: Pick<QueryParts, 'relay' | 'config'>): RelayFacts {
  return relay?.() ?? { addresses: relayAddresses(config()), failures: new Map() };
}

/** The causes of the Services that the kernel refuses. */
export function refusedServices(
  agent: { readonly loop: Pick<SyncLoop, 'refused'> } | undefined,
): ReadonlyMap<string, string> {
  const refused = new Map<string, string>();
  for (const [key, { cause }] of agent?.loop.refused ?? []) refused.set(key, cause);
  return refused;
}
