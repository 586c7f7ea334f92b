/** Explains a packet's way by the rules of an earlier moment, which are made again from recorded objects. */

import { parseAddress, parseCidr } from '../../base/address.ts';
import { breath, realClock } from '../../base/clock.ts';
import type { FeatureGates } from '../../config/feature-gates.ts';
import { relayAddresses } from '../../config/relay-settings.ts';
import { type ExplainRequest, explain } from '../../inspect/explain/explain.ts';
import type { ExplainedObjects, ExplainFacts, RelayFacts } from '../../inspect/explain/facts.ts';
import type { ObjectStore } from '../../inspect/history/past-objects.ts';
import type { RecordedParts } from '../../inspect/history/shapes.ts';
import { kernelsInMemory } from '../../inspect/replay/kernels-in-memory.ts';
import { type ReplayedParts, replayedParts } from '../../inspect/replay/replay-recording.ts';
import type { Explanation } from '../../inspect/wire/explanation.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import { SOURCE_KINDS, type SourceEvent } from '../../proxy/model/events.ts';
import type { NodeView, Service } from '../../proxy/model/objects.ts';
import { type Explained, explainFacts } from './explain-facts.ts';

export interface PastAbout extends Pick<ExplainFacts, 'routeTo'> {
  readonly by: AnsweredBy;
  /** The objects that were in the kernel at that moment. */
  readonly objects: ObjectStore;
  /** The parts of the agent now. Its settings count as those of that moment, because former ones are not known. */
  readonly recorded: RecordedParts;
}

/** Services that are checked before the event loop gets its turn. */
const SERVICES_AT_ONCE = 2000;

/**
 * Makes the rules of that moment again, in memory, but only for the Services that the destination may belong to: those of others would not
 * change the answer. Throws WrongQuestion and the signal's reason.
 */
export async function explainPast(asked: ExplainRequest, about: PastAbout, signal: AbortSignal): Promise<Explanation> {
  const { by, objects, recorded, routeTo } = about;
  const parts = replayedParts({
    recorded,
    kernels: kernelsInMemory(recorded),
    clock: realClock,
    modeTime: () => 0,
    onPlan: () => undefined,
  });
  for (const event of await eventsOf(asked.to, objects)) parts.cache.take(event);
  for (const of of SOURCE_KINDS) parts.cache.take({ kind: 'synced', of });
  parts.cache.replayGrowing(objects.growing);
  await parts.loop.sync(signal);
  return await explainParts(asked, { by, parts, objects, recorded, node: objects.node, routeTo });
}

export interface PartsAbout extends Pick<ExplainFacts, 'routeTo'> {
  readonly by: AnsweredBy;
  readonly parts: ReplayedParts;
  readonly objects: ExplainedObjects;
  readonly recorded: RecordedParts;
  readonly node: NodeView | undefined;
}

/** Explains by the parts of an agent whose kernel is in memory. */
export async function explainParts(asked: ExplainRequest, about: PartsAbout): Promise<Explanation> {
  const { by, parts, objects, recorded, node, routeTo } = about;
  const { settings, interfaces } = recorded;
  const explained: Explained = { ...parts, objects, settings, interfaces, node };
  const facts = explainFacts({
    by,
    explained,
    pods: undefined,
    stands: parts.mode.inspection.believed(),
    lastWriter: undefined,
    routeTo,
    relay: recordedRelay(recorded),
    isPending: () => false,
  });
  const answer = await explain(asked, facts);
  const note = `The answer is about ${by.at}, from what the agent wrote until then; changes by other programs are not recorded.`;
  return { ...answer, notes: [...answer.notes, note] };
}

/** The relay by the recorded configuration. Ports that other programs had are not recorded. */
function recordedRelay({ settings: { mode }, config }: RecordedParts): RelayFacts {
  const texts: readonly unknown[] = Array.isArray(config.nodePortAddresses) ? config.nodePortAddresses : [];
  const cidrs = texts.flatMap((text) => parseCidr(String(text)) ?? []);
  const featureGates = { ...(config.featureGates as FeatureGates | undefined) };
  return { addresses: relayAddresses({ mode, nodePortAddresses: { cidrs }, featureGates }), failures: new Map() };
}

/** Events of the Services that the destination may belong to, and of those with the same addresses or node ports. */
async function eventsOf(
  to: string,
  store: ExplainedObjects & { readonly node: NodeView | undefined },
): Promise<SourceEvent[]> {
  const named = /^(?:svc|service|services)\/([^/]+\/[^/:]+)/.exec(to.trim())?.[1];
  const address = parseAddress(/\[([^\]]+)\]/.exec(to)?.[1] ?? to.trim().split(':')[0] ?? '');
  const wanted = new Set<string>(address === undefined ? [] : [address]);
  for (const [, port = ''] of to.matchAll(/:(\d+)(?:\/|$)/g)) wanted.add(port);
  const service = named === undefined ? undefined : store.service(named);
  for (const mark of service === undefined ? [] : marksOf(service)) wanted.add(mark);
  const events: SourceEvent[] = [];
  let seen = 0;
  for (const one of store.services()) {
    seen += 1;
    if (seen % SERVICES_AT_ONCE === 0) await breath();
    if (!marksOf(one).some((mark) => wanted.has(mark))) continue;
    events.push({ kind: 'service', key: one.key, service: one, faults: [] });
    for (const slice of store.slicesOf(one.key)) {
      events.push({ kind: 'slice', key: slice.key, slice, triggeredAt: 0, faults: [] });
    }
  }
  const { node } = store;
  return node === undefined ? events : [...events, { kind: 'node', key: node.name, node, faults: [] }];
}

/** The addresses and node ports of a Service. */
function marksOf({ clusterIPs, externalIPs, loadBalancerIPs, ports }: Service): string[] {
  const nodePorts = ports.flatMap(({ nodePort }) => (nodePort === 0 ? [] : [String(nodePort)]));
  return [...clusterIPs, ...externalIPs, ...loadBalancerIPs, ...nodePorts];
}
