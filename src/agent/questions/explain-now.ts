/** Explains a packet's way by the rules in the kernel now: from memory while no other program can have written, otherwise by reading them. */

import { causeOf } from '../../base/cause.ts';
import { type ExplainRequest, explain } from '../../inspect/explain/explain.ts';
import type { ExplainFacts, FormerOwner, KnownPod, RelayFacts } from '../../inspect/explain/facts.ts';
import { readQuery } from '../../inspect/explain/packet-query.ts';
import { formerOwner } from '../../inspect/history/history-content.ts';
import type { Recorder } from '../../inspect/history/recorder.ts';
import { NoAnswer } from '../../inspect/wire/envelope.ts';
import type { Explanation } from '../../inspect/wire/explanation.ts';
import type { AnsweredBy } from '../../inspect/wire/schema-common.ts';
import { routeTo } from '../../kernel/devices.ts';
import { allInterfaceAddresses } from '../../kernel/node-facts.ts';
import type { FrontendAt } from '../../proxy/model/claims.ts';
import type { ServicePortKey } from '../../proxy/model/service-port.ts';
import type { ModeInspection } from '../../proxy/modes/inspection.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { Agent, KernelLock } from '../agent.ts';
import { type Explained, explainFacts } from './explain-facts.ts';
import type { KubeProxyRules } from './kube-proxy-rules.ts';

export interface ExplainAbout {
  readonly by: AnsweredBy;
  readonly agent: Agent;
  readonly recorder: Recorder | undefined;
  readonly knowsPods: boolean;
  readonly relay: RelayFacts;
  /** Rules of another proxy, which the answer is about. */
  readonly of?: KubeProxyRules | undefined;
}

/** Limit of readings. A sync that wrote meanwhile makes a reading useless; the last one counts anyway. */
const MAX_READINGS = 3;

/** Throws WrongQuestion, NoAnswer, the errors of reading the kernel, and the signal's reason. */
export async function explainNow(
  asked: ExplainRequest,
  about: ExplainAbout,
  signal: AbortSignal,
): Promise<Explanation> {
  const { agent, knowsPods } = about;
  const pods = knowsPods ? await podOf(asked.from, agent, signal) : undefined;
  if (about.of !== undefined) return await answered(asked, { ...about, pods, stands: about.of.views }, signal);
  const read = () => reading(asked, { ...about, pods }, signal);
  return await withWhatStands({ ...agent, read }, async (stands, source) => {
    const answer = await answered(asked, { ...about, pods, stands }, signal);
    return { ...answer, notes: [...answer.notes, source] };
  });
}

/**
 * Passes the rules in the kernel to `use`, between two syncs, because during a sync they change. They come from memory, or from a reading when
 * another program may have written.
 */
export async function withWhatStands<T extends object>(
  { mode, kernelLock, read }: ExplainedAgent,
  use: (stands: readonly FamilyView[], source: string) => Promise<T>,
): Promise<T> {
  const fromMemory = async () =>
    (await mode.inspection.isCertain()) ? await use(mode.inspection.believed(), FROM_MEMORY) : undefined;
  let used = await kernelLock.between(fromMemory);
  for (let attempt = 1; used === undefined; attempt++) {
    const { syncs } = kernelLock;
    const stands = await read();
    used = await kernelLock.between(async () => {
      const remembered = kernelLock.syncs === syncs ? undefined : await fromMemory();
      if (remembered !== undefined) return remembered;
      return kernelLock.syncs !== syncs && attempt < MAX_READINGS ? undefined : await use(stands, FROM_READING);
    });
  }
  return used;
}

interface ExplainedAgent {
  readonly mode: { readonly inspection: Pick<ModeInspection, 'isCertain' | 'believed'> };
  readonly kernelLock: KernelLock;
  readonly read: () => Promise<readonly FamilyView[]>;
}

const FROM_MEMORY =
  "The answer is from the agent's memory: no other program has changed the kernel's rules since it wrote or read them.";
const FROM_READING = 'The kernel was read for this answer.';

interface AboutWithPods extends ExplainAbout {
  readonly pods: ReadonlyMap<string, KnownPod> | undefined;
}

interface AboutWithRules extends AboutWithPods {
  /** The rules in the kernel. */
  readonly stands: readonly FamilyView[];
}

/** Reads the rules that the destination needs. The reading begins between two syncs. */
async function reading(
  asked: ExplainRequest,
  about: AboutWithPods,
  signal: AbortSignal,
): Promise<readonly FamilyView[]> {
  const { mode, kernelLock } = about.agent;
  const { read } = await kernelLock.between(async () => {
    const facts = await factsOf({ ...about, stands: mode.inspection.believed() });
    const { address, port, protocol } = readQuery(asked.from, asked.to, facts).to;
    const read = mode.inspection.read(signal, { address, port, protocol });
    // It is awaited below, without the lock.
    read.catch(() => undefined);
    return { read };
  });
  return await read;
}

async function factsOf({ by, agent, pods, stands, relay, of }: AboutWithRules): Promise<ExplainFacts> {
  return explainFacts({
    by,
    explained: await presentOf(agent),
    pods,
    stands,
    lastWriter: of === undefined ? await agent.mode.inspection.lastWriter() : undefined,
    of,
    routeTo,
    relay,
    isPending: (service) => agent.feed.ledger.pendingChanges.has(service),
  });
}

/** The facts for walks through the rules of another proxy. */
export async function factsAbout(about: ExplainAbout & { readonly of: KubeProxyRules }): Promise<ExplainFacts> {
  return await factsOf({ ...about, pods: undefined, stands: about.of.views });
}

async function answered(asked: ExplainRequest, about: AboutWithRules, signal: AbortSignal): Promise<Explanation> {
  let missed: FrontendAt | undefined;
  let former: FormerOwner | undefined;
  const formerOwnerOf = (at: FrontendAt) => {
    missed = at;
    return former;
  };
  const { metrics } = about.agent.mode;
  // Without the counters the answer has all else.
  const refusedBy = async (port: ServicePortKey) => {
    try {
      return new Map((await metrics.limitCounts(signal, port)).map(({ limit, count }) => [limit, count]));
    } catch (error) {
      return { cause: causeOf(error) };
    }
  };
  // The counters of another proxy's rules are not known.
  const facts = { ...(await factsOf(about)), formerOwnerOf, ...(about.of === undefined ? { refusedBy } : {}) };
  const answer = await explain(asked, facts);
  if (missed?.address === undefined || about.recorder === undefined) return answer;
  // The history is searched only for an address that no object has.
  former = await formerOwner(about.recorder, missed.address);
  return former === undefined ? answer : await explain(asked, facts);
}

async function presentOf({ feed, model, loop, mode, onNode }: Agent): Promise<Explained> {
  const { cache } = feed;
  const interfaces = await allInterfaceAddresses();
  const { settings } = onNode.recorded;
  return { objects: cache, cache, model, loop, mode, settings, interfaces, node: feed.node() };
}

/** The Pod that FROM names; empty when it names none, or there is none. */
async function podOf(from: string, { feed }: Agent, signal: AbortSignal): Promise<ReadonlyMap<string, KnownPod>> {
  const key = /^pod\/([^/]+\/[^/]+)$/.exec(from.trim())?.[1];
  if (key === undefined) return new Map();
  try {
    const pod = await feed.pod(key, signal);
    return pod === undefined ? new Map() : new Map([[key, pod]]);
  } catch (error) {
    signal.throwIfAborted();
    throw new NoAnswer(`FROM ${from}: the Pod cannot be looked up: ${causeOf(error)}`);
  }
}
