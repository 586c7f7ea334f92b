/** Builds an agent from its parts, for `run` and `plan`, and gives it the lock on the kernel. */
import { type Family, familyOf } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { type Clock, realClock, unlessAborted } from '../base/clock.ts';
import { createMutex } from '../base/mutex.ts';
import { AUTO, type Config } from '../config/config.ts';
import { EXTERNAL_IPS_GATE, servesExternalIPs } from '../config/feature-gates.ts';
import type { RecorderHooks } from '../inspect/history/recorder.ts';
import { firstOf } from '../inspect/wire/format.ts';
import { rulesProbe } from '../kernel/chain-probe.ts';
import { Flows } from '../proxy/model/flows.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { Fault } from '../proxy/model/objects.ts';
import { ProxyModel } from '../proxy/model/proxy-model.ts';
import type { Mode } from '../proxy/modes/mode.ts';
import { OwnWrites } from '../proxy/modes/netfilter/change-detection.ts';
import type { SetKept } from '../proxy/modes/virtual-servers/apply.ts';
import { FlowSweeper, type SweepReport } from '../proxy/sync/flow-sweeper.ts';
import { SyncLoop, type SyncParts } from '../proxy/sync/loop.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import { closeProbes, createMode, type ModeInput, type ModeOnNode } from './build-mode.ts';
import { CannotRun } from './cannot-run.ts';
import { tuneConntrack } from './conntrack-tuning.ts';
import { type ObjectFeed, waitForNode, waitForServiceCidrs } from './feed.ts';
import { logResized, logSteps, stackLogger } from './log-lines.ts';
import { closeOnError, type Platform } from './platform.ts';
import { mayNeedTools } from './predecessors.ts';
import type { StartPhase } from './start-report.ts';
import { repairedTools, type Unserved, unservedOf, usableFamilies } from './usable-families.ts';

interface AgentOptions {
  readonly config: Config;
  readonly log: Log;
  /** True for `run`: writes the conntrack settings and waits for the Node. `plan` does neither. */
  readonly isRun: boolean;
  /** Families that are served now. The next generation is not built where one of them stopped working. */
  readonly mustHave?: readonly Family[];
  /** See `ModeInput`. */
  readonly former?: ModeInput['former'];
  readonly signal: AbortSignal;
  readonly onFault: (fault: Fault) => void;
  /** Records the plans. */
  readonly recorder?: RecorderHooks | undefined;
  /** ServicePorts that changed. */
  readonly onPorts?: SyncParts['onPorts'];
  readonly onSweep?: (report: SweepReport) => void;
  readonly beforeWrite?: SyncParts['beforeWrite'];
  /** See `ModeInput`. */
  readonly keepsTables?: ModeInput['keepsTables'];
  /** A phase of the start ended. */
  readonly onPhase?: ((phase: StartPhase) => void) | undefined;
  readonly platform: Platform;
}

export interface Agent {
  readonly feed: ObjectFeed;
  readonly loop: SyncLoop;
  readonly mode: Mode;
  readonly onNode: ModeOnNode;
  /** Families and rules that are out of reach until the failed tools work. */
  readonly unserved: readonly Unserved[];
  readonly model: ProxyModel;
  /** Keeps checks and answers out of a running sync, whose writes they would see half done. */
  readonly kernelLock: KernelLock;
  /** Deletes stale flows after rules were written. */
  readonly sweeper: FlowSweeper;
  readonly clock: Clock;
}

/** Check the machine, wait for the initial lists, and build the agent. Writes nothing but conntrack settings. Throws CannotRun. */
export async function startAgent(feed: ObjectFeed, options: AgentOptions): Promise<Agent> {
  const { config, log, signal, onFault, onPorts, onSweep, beforeWrite, platform } = options;
  const { cache } = feed;
  if (config.modeChoice.by === AUTO && config.modeChoice.why === undefined)
    throw new Error('the mode is not chosen yet');
  const needsTools = await mayNeedTools({ mode: config.mode, former: options.former }, platform);
  const { families, tools, broken } = await usableFamilies(config, { needsTools, signal, platform });
  options.onPhase?.('tools');
  const unserved = await unservedOf(broken, config.mode, platform);
  for (const { text } of unserved) log.warn(text);
  const lost = (options.mustHave ?? []).filter((family) => !families.includes(family));
  if (lost.length > 0) throw new CannotRun(`${lost.join(' and ')} stopped working on this node`);
  mustFit(config, families);
  const notices = platform.kernel.openNotices?.();
  const own = new OwnWrites();
  const members = tools.map((tool) => ({
    tools: tool,
    own,
    probe: rulesProbe({ tools: tool, notices, onProblem: (text) => log.warn(text), open: platform.kernel.openRules }),
  }));
  if (options.isRun) await removeTraces(options);
  const probes = { close: () => closeProbes({ members, notices }) };
  const built = await closeOnError(probes, () => buildMode(feed, { families, members, notices }, options));
  // Tools that work again let the next generation serve more families. Those that nothing needed are tried by the next one.
  const onNode = {
    ...built,
    changes: async (until: AbortSignal) => {
      const changed = await built.changes(until);
      if (changed.length > 0) return changed;
      if (needsTools) return await repairedTools(broken, until);
      const isNeeded = await mayNeedTools({ mode: config.mode, former: undefined }, platform);
      return isNeeded ? families.map((family) => ({ family, fact: 'tools', from: 'not needed', to: 'needed' })) : [];
    },
  };
  options.onPhase?.('mode');
  const { mode } = onNode;
  cache.noteGone(config.resetGone);
  warnOfExternalIPs(feed, options);
  const model = new ProxyModel(
    { nodeName: config.nodeName, zone: cache.node?.zone ?? '' },
    { servesExternalIPs: servesExternalIPs(config.featureGates), mode: MODES[config.mode] },
  );
  const unread = new TroubleLog({ log, clock: realClock, level: 'error' });
  const flows = new Flows((at) => model.frontend(at));
  const loop = new SyncLoop({
    cache,
    model,
    flows,
    mode,
    clock: realClock,
    nodeName: config.nodeName,
    retry: config.syncPeriod,
    onFault,
    ...(onPorts === undefined ? {} : { onPorts }),
    ...(beforeWrite === undefined ? {} : { beforeWrite }),
    onFirst: (services) => log.info({ services }, "DNS and the API server's Service are programmed; the rest follows"),
    onUnread: (cause) => {
      unread.tell({ cause, text: `part of the kernel cannot be read: ${cause}` });
    },
    onPlan: (plan) => {
      options.recorder?.planned(plan);
      logSteps(plan, log);
    },
    onThrown: stackLogger(log),
  });
  const sweeper = buildSweeper({ config, flows, onNode, onSweep, platform });
  return { feed, loop, mode, onNode, unserved, model, kernelLock: new KernelLock(), sweeper, clock: realClock };
}

/** Remove the tables that killed traces left, which kernels before 5.12 keep. A failure here does not stop the start. */
async function removeTraces({ log, platform: { kernel } }: AgentOptions): Promise<void> {
  try {
    for (const name of await kernel.removeLeftTraces())
      log.info(`removed the ${name}, which a killed trace of packets left`);
  } catch (error) {
    log.warn(`cannot remove what killed traces of packets left: ${causeOf(error)}`);
  }
}

/** Limit of Service names in a log line. */
const MAX_NAMES_LOGGED = 10;

/** Warn, in one line, of the Services whose external IPs the feature gate turns off. */
function warnOfExternalIPs({ cache }: ObjectFeed, { config, log }: AgentOptions): void {
  if (servesExternalIPs(config.featureGates)) return;
  const keys: string[] = [];
  for (const { key, externalIPs } of cache.services()) if (externalIPs.length > 0) keys.push(key);
  if (keys.length === 0) return;
  const services = keys.length === 1 ? '1 Service' : `${keys.length} Services`;
  log.warn(
    { field: 'spec.externalIPs', count: keys.length },
    `external IPs of ${services} are not served, because the feature gate ${EXTERNAL_IPS_GATE} is false: ${firstOf(keys.sort(), MAX_NAMES_LOGGED)}`,
  );
}

/** Wait for the initial lists and the Node, then build the mode. Reading the rules of the kernel runs beside the wait. */
async function buildMode(
  feed: ObjectFeed,
  { families, members, notices }: Pick<ModeInput, 'families' | 'members' | 'notices'>,
  { config, former, keepsTables, log, signal, isRun, recorder, onPhase, platform }: AgentOptions,
): Promise<ModeOnNode> {
  const { rulesBy, usesServiceCidrs } = MODES[config.mode];
  if (rulesBy === 'iptables') {
    for (const { tools, probe } of members) tools.readAhead(() => probe.generation(), signal);
  }
  await unlessAborted(feed.synced, signal);
  onPhase?.('lists');
  const { cache } = feed;
  const facts = { services: cache.counts('services').total, slices: cache.counts('slices').total };
  log.info(facts, 'the initial lists are complete');
  await waitForNode(feed, { config, log, clock: realClock, signal, mayWait: isRun });
  if (usesServiceCidrs) await waitForServiceCidrs(feed, { clock: realClock, signal });
  // Rules depend on these settings: write them first.
  if (isRun) await tuneConntrack(config, log, { platform });
  const willBeLiberal = !isRun && config.conntrack.tcpBeLiberal;
  return await createMode({
    former,
    keepsTables,
    platform,
    config,
    families,
    members,
    notices,
    node: feed.node,
    serviceCidrs: () => cache.serviceCidrs,
    mayTry: isRun,
    onRecordProblem: (text) => log.debug(text),
    onSetResized: (resized) => logResized(resized, log),
    onSetKept: ({ set, maxelem, cause }) => log.warn({ set, maxelem, cause }, keptText({ set, maxelem, cause })),
    willBeLiberal,
    now: recorder?.modeTime,
    signal,
  });
}

/** A set that stays too large is only worth a warning: the rules are right, and the agent stays healthy. */
function keptText({ set, maxelem, cause }: SetKept): string {
  const problem =
    maxelem === undefined
      ? `the set ${set}, with which IPVS mode gave another set its size, cannot be removed`
      : `the set ${set} of IPVS mode cannot be made smaller and keeps maxelem ${maxelem}`;
  return `${problem}: ${cause}; all rules are written, and it is tried again whenever the kernel's state is read`;
}

/** Throws CannotRun when no --cluster-cidr is of a family of this node: local pods could not be recognised (docs/semantics.md 5.1). */
function mustFit({ detectLocal }: Config, families: readonly Family[]): void {
  if (detectLocal.kind !== 'cluster-cidr' || detectLocal.cidrs.length === 0) return;
  if (detectLocal.cidrs.some((cidr) => families.includes(familyOf(cidr)))) return;
  throw new CannotRun(
    `--cluster-cidr=${detectLocal.cidrs.join(',')}: no range is of a family that works on this node (${families.join(', ')})`,
  );
}

interface SweeperInput {
  readonly config: Config;
  readonly flows: Flows;
  readonly onNode: ModeOnNode;
  readonly onSweep: ((report: SweepReport) => void) | undefined;
  readonly platform: Platform;
}

function buildSweeper({ config, flows, onNode, onSweep = () => undefined, platform }: SweeperInput): FlowSweeper {
  return new FlowSweeper({
    flows,
    open: platform.kernel.openFlowTable,
    clock: realClock,
    families: onNode.families,
    nodeAddresses: onNode.nodeAddresses,
    retry: config.syncPeriod,
    onSweep,
  });
}

/** Serializes access to the kernel: a sync that writes, a check that compares, and an answer that reads run one after another. */
export class KernelLock {
  readonly #mutex = createMutex();
  #syncs = 0;

  /** The number of syncs that began. The same number twice means that no sync wrote in between. */
  get syncs(): number {
    return this.#syncs;
  }

  /** Run a sync while nothing else holds the lock. */
  sync<T>(work: () => Promise<T>): Promise<T> {
    return this.#mutex(() => {
      this.#syncs += 1;
      return work();
    });
  }

  /** Run a check or an answer while no sync runs. */
  readonly between = <T>(work: () => Promise<T>): Promise<T> => this.#mutex(work);
}
